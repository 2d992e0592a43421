"""torch.linalg's names, the older ones, norms, distances, running reductions: values, gradients, torch if installed.

Input: a table of calls on float64 arrays, each with a NumPy reference; gradients against finite differences.
"""

import math

import numpy as np
import pytest
import scipy.spatial.distance as distance
import scipy.special as sp

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.namespaces import linalg
from stage0_eager.namespaces import special as torch_special
from stage0_eager.table.registry import TABLE
from stage0_eager.tests.numeric import check_gradients, tensors, value

RNG = np.random.default_rng(0)
INF, NAN = math.inf, math.nan


def numbers(*shape, low=-2.0, high=2.0):
    return np.asarray(RNG.uniform(low, high, shape))


def T(name):
    return TABLE[f"cutaway.{name}"]


A, B = numbers(2, 3, 3) + 3 * np.eye(3), numbers(2, 3, 2)
TALL, WIDE = numbers(2, 4, 3), numbers(2, 3, 4)
SPD = A @ A.swapaxes(-1, -2)
LOW = np.linalg.cholesky(SPD)
V, W = numbers(3), numbers(3)
inv, pinv = np.linalg.inv, np.linalg.pinv


def norm(**kw):
    return lambda x: np.linalg.norm(x, axis=(-2, -1), **kw)


# what is called, its reference, its arguments; options by name
CALLS = {
    "det": (linalg.det, np.linalg.det, [A]),
    "logdet": (T("logdet"), lambda x: np.linalg.slogdet(x)[1], [SPD]),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x)[1], [A]),
    "inv": (linalg.inv, inv, [A]),
    "inv_ex": (lambda x: linalg.inv_ex(x)[0], inv, [A]),
    "pinv tall": (linalg.pinv, pinv, [TALL]),
    "pinv wide": (linalg.pinv, pinv, [WIDE]),
    "pinverse": (T("pinverse"), pinv, [TALL]),
    "matrix_exp": (linalg.matrix_exp, lambda x: sum(np.linalg.matrix_power(x, k) / math.factorial(k) for k in range(60)), [A]),
    "matrix_power -2": (lambda x: linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), [A]),
    "cholesky": (lambda x: linalg.cholesky(x + x.mT), lambda x: np.linalg.cholesky(x + x.swapaxes(-1, -2)), [SPD]),
    "cholesky_solve": (T("cholesky_solve"), lambda b, low: inv(low @ low.swapaxes(-1, -2)) @ b, [B, LOW]),
    "cholesky_solve upper": (lambda b, u: T("cholesky_solve")(b, u, True), lambda b, u: inv(u.swapaxes(-1, -2) @ u) @ b,
                             [B, LOW.swapaxes(-1, -2)]),
    "cholesky_inverse": (T("cholesky_inverse"), lambda low: inv(low @ low.swapaxes(-1, -2)), [LOW]),
    "solve": (linalg.solve, lambda a, b: inv(a) @ b, [A, B]),
    "solve vectors": (linalg.solve, lambda a, b: (inv(a) @ b[..., None])[..., 0], [A, numbers(2, 3)]),
    "solve a vector": (linalg.solve, lambda a, b: inv(a) @ b, [A, V]),
    "solve from the right": (lambda a, b: linalg.solve(a, b, left=False), lambda a, b: b @ inv(a), [A, numbers(2, 2, 3)]),
    "solve_triangular right": (lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False),
                               lambda a, b: b @ inv(np.tril(a)), [LOW, numbers(2, 2, 3)]),
    "triangular_solve": (lambda b, a: T("triangular_solve")(b, a, True, True)[0],
                         lambda b, a: inv(np.triu(a)).swapaxes(-1, -2) @ b, [B, A]),
    "lstsq": (lambda a, b: linalg.lstsq(a, b).solution, lambda a, b: pinv(a) @ b, [TALL, numbers(2, 4, 2)]),
    "lstsq residuals": (lambda a, b: linalg.lstsq(a, b, driver="gelsd").residuals, lambda a, b: ((a @ pinv(a) @ b - b) ** 2).sum(-2),
                        [TALL, numbers(2, 4, 2)]),
    "svdvals": (linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), [TALL]),
    "svd times itself": (lambda x: (lambda u, s, vh: (u * s.unsqueeze(-2)) @ vh)(*linalg.svd(x, full_matrices=False)),
                         lambda x: x, [WIDE]),
    "old svd": (lambda x: (lambda u, s, v: (u * s.unsqueeze(-2)) @ v.mT)(*T("svd")(x)), lambda x: x, [TALL]),
    "qr r": (lambda x: linalg.qr(x, mode="r").R.abs(), lambda x: abs(np.linalg.qr(x)[1]), [TALL]),
    "old qr": (lambda x: T("qr")(x)[1].abs(), lambda x: abs(np.linalg.qr(x)[1]), [WIDE]),
    "eigvalsh": (lambda x: linalg.eigvalsh(x + x.mT), lambda x: np.linalg.eigvalsh(x + x.swapaxes(-1, -2)), [A]),
    "eigh upper": (lambda x: linalg.eigh(x + x.mT, UPLO="U")[0], lambda x: np.linalg.eigvalsh(x + x.swapaxes(-1, -2)), [A]),
    "multi_dot": (lambda *m: linalg.multi_dot(m), lambda *m: np.linalg.multi_dot(m), [numbers(2, 5), numbers(5, 3), numbers(3, 4), numbers(4)]),
    "chain_matmul": (T("chain_matmul_of"), lambda m: m[0] @ m[1], [[numbers(2, 5), numbers(5, 3)]]),
    "vecdot": (linalg.vecdot, lambda a, b: (a * b).sum(-1), [TALL, numbers(4, 3)]),
    "cross": (linalg.cross, np.cross, [TALL, numbers(2, 4, 3)]),
    "old cross": (T("cross"), lambda a, b: np.cross(a, b, axis=0), [numbers(3, 4), numbers(3, 4)]),
    "tensorinv": (lambda x: linalg.tensorinv(x, 1), lambda x: np.linalg.tensorinv(x, 1), [numbers(6, 2, 3)]),
    "tensorsolve": (linalg.tensorsolve, np.linalg.tensorsolve, [numbers(2, 3, 6), numbers(2, 3)]),
    "cond": (linalg.cond, np.linalg.cond, [A]),
    "cond 1": (lambda x: linalg.cond(x, 1), lambda x: np.linalg.cond(x, 1), [A]),
    "cond -2": (lambda x: linalg.cond(x, -2), lambda x: np.linalg.cond(x, -2), [TALL]),
    **{f"matrix_norm {o}": (lambda x, o=o: linalg.matrix_norm(x, o), norm(ord=o), [TALL])
       for o in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)},
    "matrix_norm dims": (lambda x: linalg.matrix_norm(x, "nuc", (0, 2), True),
                         lambda x: np.linalg.norm(x, "nuc", (0, 2), True), [TALL]),
    "norm": (linalg.norm, lambda x: np.linalg.norm(x.ravel()), [TALL]),
    "norm 1": (lambda x: linalg.norm(x, 1), lambda x: np.linalg.norm(x, 1), [A[0]]),
    "norm of a vector": (lambda x: linalg.norm(x, 3), lambda x: np.linalg.norm(x, 3), [V]),
    "old norm nuc": (lambda x: T("norm")(x, "nuc"), norm(ord="nuc"), [TALL]),
    "vander": (linalg.vander, lambda x: np.vander(x, increasing=True), [V]),
    "cdist": (T("cdist"), lambda a, b: np.stack([distance.cdist(x, y) for x, y in zip(a, b, strict=True)]), [TALL, numbers(2, 5, 3)]),
    "cdist 1": (lambda a, b: T("cdist")(a, b, 1.0), lambda a, b: distance.cdist(a, b, "cityblock"), [numbers(4, 3), numbers(2, 3)]),
    "cdist inf": (lambda a, b: T("cdist")(a, b, INF), lambda a, b: distance.cdist(a, b, "chebyshev"), [numbers(4, 3), numbers(2, 3)]),
    "pdist": (T("pdist"), distance.pdist, [numbers(5, 3)]),
    "cumprod": (lambda x: T("cumprod")(x, -1), lambda x: np.cumprod(x, -1), [TALL]),
    "logcumsumexp": (lambda x: T("logcumsumexp")(x, 0), lambda x: np.log(np.cumsum(np.exp(x), 0)), [TALL]),
    "polygamma": (lambda x: T("polygamma")(2, x), lambda x: sp.polygamma(2, x), [abs(V) + 1]),
    "mvlgamma": (lambda x: T("mvlgamma")(x, 3), lambda x: sp.multigammaln(x[0], 3)[None] if x.ndim else 0, [numbers(1, low=3, high=5)]),
    "ndtr": (torch_special.ndtr, sp.ndtr, [V]),
    "log_ndtr": (torch_special.log_ndtr, sp.log_ndtr, [np.array([-40.0, -3.0, -1.5, -0.5, 0.0, 2.0, 9.0])]),
    "entr": (torch_special.entr, sp.entr, [abs(V)]),
    "igamma": (lambda x: T("igamma")(Tensor(np.array(2.5)), x), lambda x: sp.gammainc(2.5, x), [abs(V)]),
}  # fmt: skip
# Orthogonal factors are unique up to a sign; these are tested by what they multiply out to.


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    function, reference, args = CALLS[name]
    with np.errstate(all="ignore"):
        want = reference(*args)
    given = [tensors(a) if isinstance(a, list) else a for a in tensors(args)]
    np.testing.assert_allclose(value(function(*given)), want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "chain_matmul"])
def test_gradients(name):
    function, _, args = CALLS[name]
    check_gradients(function, args)


def test_full_orthogonal_factors():
    u, s, vh = linalg.svd(Tensor(TALL))
    assert (u.shape, s.shape, vh.shape) == ((2, 4, 4), (2, 3), (2, 3, 3)) and type(
        linalg.svd(Tensor(A))
    ).__name__ == "SVD"
    q, r = linalg.qr(Tensor(TALL), "complete")
    assert (q.shape, r.shape) == ((2, 4, 4), (2, 4, 3))
    np.testing.assert_allclose(value(q @ r), TALL, atol=1e-12)
    assert linalg.qr(Tensor(TALL), mode="r").Q.numel() == 0
    x = Tensor(TALL, True)
    with pytest.raises(RuntimeError, match="not differentiable"):
        grad([linalg.qr(x, "complete")[0].sum()], [x])


def test_rank_and_least_squares_of_a_matrix_that_is_short_of_rank():
    low = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    assert linalg.matrix_rank(Tensor(np.stack([low, TALL[0, :3, :2]]))).tolist() == [1, 2]
    assert linalg.matrix_rank(Tensor(np.diag([1.0, 1e-3])), atol=1e-2).item() == 1
    found = linalg.lstsq(Tensor(low), Tensor(np.array([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(value(found.solution), [0.5, 0.5], atol=1e-14)
    assert found.rank.item() == 1 and found.singular_values.numel() == 0


def test_the_gradient_of_a_determinant_at_a_singular_matrix():
    x = Tensor(np.diag([2.0, 3.0, 0.0]), True)
    np.testing.assert_allclose(value(grad([linalg.det(x)], [x])[0]), np.diag([0.0, 0.0, 6.0]), atol=1e-15)


def test_eigenvalues_of_a_general_matrix_are_complex():
    turned = A + 1j * A.swapaxes(-1, -2)
    for a in (A, turned, np.array([[0.0, -1.0], [1.0, 0.0]])):
        values, vectors = linalg.eig(Tensor(a))
        assert values.dtype.name == vectors.dtype.name == "complex128"
        assert np.allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy()[..., None, :])
        assert np.allclose(linalg.eigvals(Tensor(a)).numpy(), values.numpy())
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        linalg.eig(Tensor(np.full((2, 2), np.nan)))


def test_matrices_by_name():
    for given in ({"A": Tensor(A)}, {"input": Tensor(A)}):
        assert linalg.det(**given).tolist() == linalg.det(Tensor(A)).tolist()
        assert linalg.inv(**given).tolist() == linalg.inv(Tensor(A)).tolist()
    assert linalg.svdvals(A=Tensor(A)).tolist() == linalg.svdvals(Tensor(A)).tolist()


def test_mode_and_histc():
    found = T("mode")(Tensor(np.array([[3, 1, 3, 1, 2], [5, 4, 4, 5, 5]])))
    assert found.values.tolist() == [1, 5] and found.indices.tolist() == [3, 4]
    assert T("mode")(Tensor(np.array([[3, 1], [3, 2]])), 0, True).values.tolist() == [[3, 1]]
    data = np.array([1.0, 2.0, 1.0, 4.0, 9.0, NAN])
    assert T("histc")(Tensor(data), 4, 0, 4).tolist() == [0, 2, 1, 1]
    assert T("histc")(Tensor(data[:5]), 2).tolist() == [4, 1]
    assert T("histc")(Tensor(np.ones(3)), 2).tolist() == [0, 3]


def test_integers_of_number_theory():
    a, b = Tensor(np.array([12, -18, 0, 0])), Tensor(np.array([8, 12, 5, 0]))
    assert T("gcd")(a, b).tolist() == [4, 6, 5, 0] and T("lcm")(a, b).tolist() == [24, 36, 0, 0]
    assert T("gcd")(a, 6).tolist() == [6, 6, 6, 6]
    with pytest.raises(NotImplementedError):
        T("gcd")(Tensor(np.ones(2)), 2)
    mantissa, exponent = T("frexp")(Tensor(np.array([8.0, -0.75, 0.0])))
    assert mantissa.tolist() == [0.5, -0.75, 0.0] and exponent.tolist() == [4, 0, 0]
    assert T("lgamma")(Tensor(np.array([1, 2, 5]))).numpy().dtype == np.float32


SPECIAL = (
    "digamma entr erf erfc erfcx erfinv expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr ndtr ndtri sinc"
)


@pytest.mark.parametrize("name", SPECIAL.split())
def test_special_functions_at_edges_are_torchs(name):
    torch = pytest.importorskip("torch")
    x = np.array([-INF, -30.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 30.0, INF, NAN])
    want = getattr(torch.special, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(value(getattr(torch_special, name)(Tensor(x))), want, rtol=1e-9, atol=1e-100)


TORCH = {
    "svd": ([WIDE], {"full_matrices": False}), "qr": ([TALL], {}), "qr wide": ([WIDE], {}), "eigh": ([SPD], {}),
    "cholesky": ([SPD], {}), "pinv": ([TALL], {}), "lstsq": ([TALL, numbers(2, 4, 2)], {}), "det": ([A], {}),
    "solve": ([A, B], {}), "slogdet": ([A], {}), "matrix_exp": ([A], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", TORCH)
def test_gradients_are_torchs(case):
    """Of functions of the factors that no choice of signs changes."""
    torch = pytest.importorskip("torch")
    args, options = TORCH[case]
    name = case.split()[0]

    def backward(module, given):
        out = getattr(module, name)(*given, **options)
        outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.requires_grad]
        loss = sum(((o * o) * (o * o + 1)).sum() for o in outs)
        loss.backward()
        return [g.grad.numpy() for g in given]

    theirs = backward(torch.linalg, [torch.from_numpy(a).requires_grad_() for a in args])
    for got, want in zip(backward(linalg, [Tensor(a.copy(), True) for a in args]), theirs, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)


ERRORS = {
    "inv": [np.ones((2, 2))], "solve": [np.zeros((2, 2)), np.ones((2, 1))], "cholesky": [-np.eye(2)],
    "det": [np.ones((2, 3))], "svd": [np.ones(3)], "eigh": [np.ones((2, 2), np.int64)], "qr": [np.ones(2)],
    "matrix_norm": [np.ones(2)], "cross": [np.ones(2), np.ones(2)], "multi_dot": [[np.ones((2, 2))]],
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_torchs_type(name):
    def raised(module, make):
        args = [[make(x) for x in a] if isinstance(a, list) else make(a) for a in ERRORS[name]]
        with pytest.raises(RuntimeError) as error:
            getattr(module, name)(*args)
        return error.value

    ours = raised(linalg, Tensor)
    assert isinstance(ours, linalg.LinAlgError) == (name in ("inv", "solve", "cholesky"))
    torch = pytest.importorskip("torch")
    theirs = raised(torch.linalg, torch.from_numpy)
    assert isinstance(theirs, torch.linalg.LinAlgError) == isinstance(ours, linalg.LinAlgError)
