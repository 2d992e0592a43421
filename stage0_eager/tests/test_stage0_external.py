"""Every external core operator: its values against SciPy and NumPy in float64, its meta rule, and its gradient.

Input: a table of samples, one row or more per operator; a row of the table without a sample fails. Gradients are held
against finite differences, output by output, and traced on tensors without data.
"""

import numpy as np
import pytest
import scipy.linalg
import scipy.special as special

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.table.core import core
from stage0_eager.tests.layouts import layouts
from stage0_eager.transforms.trace import Tracer, interpreting
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.external_ops import EXTERNAL
from stage_contracts.graph import Graph

RNG = np.random.default_rng(0)


def numbers(*shape, low=-2.0, high=2.0):
    return np.asarray(RNG.uniform(low, high, shape))


def definite(*batch, n=3):
    x = numbers(*batch, n, n)
    return x @ np.swapaxes(x, -1, -2) + n * np.eye(n)


def upper(*batch, n=4):
    return np.triu(numbers(*batch, n, n)) + 3 * np.eye(n)


def solve(a, b):
    return np.linalg.inv(a) @ b


def triangular(a, b, up, unit):
    a = np.triu(a) if up else np.tril(a)
    return solve(a - np.triu(np.tril(a)) + np.eye(a.shape[-1]) if unit else a, b)


def running(ufunc, place):
    def both(x, dim):
        values = ufunc.accumulate(x, dim)
        places = np.where(
            x == values, np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)]), 0
        )
        return values, np.maximum.accumulate(places, dim)

    return both


ZEROS = np.array([[1.5, 0.0, -2.0, 0.5], [2.0, 0.0, 0.0, 3.0], [1.0, 2.0, 3.0, -4.0]])
P, M = numbers(2, 3, low=0.2, high=3.0), numbers(3, 4, 3)
# name: (reference on float64 arrays or None, argument lists)
SAMPLES = {
    "lgamma": (special.gammaln, [[P], [numbers(5, low=-4.9, high=-4.1)]]),
    "digamma": (special.psi, [[P]]),
    "erfinv": (special.erfinv, [[numbers(2, 3, low=-0.9, high=0.9)]]),
    "erfcx": (special.erfcx, [[numbers(2, 3)]]),
    "ndtri": (special.ndtri, [[numbers(2, 3, low=0.1, high=0.9)]]),
    "i0": (special.i0, [[numbers(2, 3)]]),
    "i0e": (special.i0e, [[numbers(2, 3)]]),
    "i1": (special.i1, [[numbers(2, 3)]]),
    "i1e": (special.i1e, [[numbers(2, 3)]]),
    "polygamma": (lambda x, n: special.polygamma(n, x), [[P, 0], [P, 1], [P, 3]]),
    "zeta": (special.zeta, [[numbers(2, 3, low=1.5, high=4.0), P]]),
    "gammainc": (special.gammainc, [[P, numbers(2, 1, low=0.3, high=2.0)]]),
    "gammaincc": (special.gammaincc, [[P, numbers(3, low=0.3, high=2.0)]]),
    "nextafter": (np.nextafter, [[P, numbers(3)]]),
    "gcd": (np.gcd, [[np.array([[12, -18, 0], [7, 0, 5]]), np.array([8, 12, 0])]]),
    "frexp": (np.frexp, [[numbers(2, 3)]]),
    "cumprod": (np.cumprod, [[numbers(2, 3), 1], [ZEROS, 1], [ZEROS, 0]]),
    "logcumsumexp": (lambda x, d: np.log(np.cumsum(np.exp(x), d)), [[numbers(3, 4), 1], [numbers(3, 4), 0]]),
    "cummax": (running(np.maximum, np.argmax), [[numbers(3, 4), 1], [numbers(3, 4), 0]]),
    "cummin": (running(np.minimum, np.argmin), [[numbers(3, 4), 1]]),
    "cholesky": (None, [[definite(2), False], [definite(), True]]),
    "triangular_solve": (triangular, [
        [upper(2), numbers(2, 4, 3), True, False], [upper(), numbers(2, 4, 2), True, True],
        [upper(2).swapaxes(-1, -2), numbers(4, 1), False, False], [upper().T, numbers(4, 4), False, True],
    ]),
    "solve": (solve, [[definite(2), numbers(2, 3, 2)], [definite(n=4), numbers(2, 4, 1)], [definite(2), numbers(3, 1)]]),
    "inv": (np.linalg.inv, [[definite(2)], [numbers(3, 3)]]),
    "matrix_exp": (scipy.linalg.expm, [[numbers(2, 3, 3)], [numbers(3, 3) * 8], [np.triu(numbers(3, 3), 1)]]),
    "det": (np.linalg.det, [[numbers(2, 3, 3)], [np.diag([2.0, 3.0, 0.0])], [numbers(1, 1)]]),
    "slogdet": (np.linalg.slogdet, [[numbers(2, 3, 3)]]),
    "qr": (None, [[M, False], [M.swapaxes(-1, -2), False], [numbers(3, 3), True], [M[0].T, True]]),
    "svd": (None, [[M, False], [M.swapaxes(-1, -2), False], [numbers(3, 3), True]]),
    "eigh": (None, [[definite(2), False], [definite(), True]]),
}  # fmt: skip
CASES = [(name, i) for name, (_, calls) in SAMPLES.items() for i in range(len(calls))]
SYMMETRIC = ("cholesky", "eigh")  # read one triangle: differences must move both elements of a pair


def results(out):
    return list(out) if isinstance(out, tuple) else [out]


def tensors(args, requires_grad=False):
    return [
        Tensor(a.copy(), requires_grad and a.dtype == np.float64) if isinstance(a, np.ndarray) else a
        for a in args
    ]


def call(name, args):
    """The results as float64 arrays, with factors whose sign is free made unique."""
    outs = [o.detach() if o.requires_grad else o for o in results(getattr(core, name)(*tensors(args)))]
    return [o.numpy() for o in outs]


def test_every_external_row_has_a_sample():
    rows = {line.split(":")[0].strip() for _, _, text in EXTERNAL for line in text.strip().splitlines()}
    assert rows == set(SAMPLES) and all(CORE_OPS[name].kind == "external" for name in rows)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_values_and_metas(name, case):
    reference, calls = SAMPLES[name]
    args = calls[case]
    got = call(name, args)
    metas = results(
        getattr(core, name).meta(*[t.meta if isinstance(t, Tensor) else t for t in tensors(args)])
    )
    assert [Tensor(g).meta for g in got] == [m.with_(requires_grad=False, strides=m.strides) for m in metas]
    if reference is not None:
        for g, want in zip(got, results(reference(*args)), strict=True):
            np.testing.assert_allclose(g, want, rtol=1e-11, atol=1e-12)


def rebuilt(name, args, got):
    """A factorization multiplied out, and what it has to equal; then the factor that has to be orthogonal."""
    x = args[0]
    if name == "cholesky":
        low = got[0].swapaxes(-1, -2) if args[1] else got[0]
        assert (np.triu(low, 1) == 0).all()
        return low @ low.swapaxes(-1, -2), x, None
    if name == "qr":
        assert np.allclose(np.tril(got[1], -1), 0)
        return got[0] @ got[1], x, got[0]
    if name == "svd":
        u, s, vh = got
        assert (np.diff(s, axis=-1) <= 0).all()
        return (u * s[..., None, :]) @ vh, x, u
    values, vectors = got
    return x @ vectors, vectors * values[..., None, :], vectors


@pytest.mark.parametrize(
    ("name", "case"), [(n, i) for n, i in CASES if n in ("cholesky", "qr", "svd", "eigh")]
)
def test_a_factorization_multiplies_out(name, case):
    args = SAMPLES[name][1][case]
    got, want, orthogonal = rebuilt(name, args, call(name, args))
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    if orthogonal is not None:
        gram = orthogonal.swapaxes(-1, -2) @ orthogonal
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=1e-12)


DIFFERENTIABLE = [
    (n, i) for n, i in CASES
    if getattr(core, n).derivatives and not (n == "qr" and SAMPLES[n][1][i][1] and i == 3)
]  # fmt: skip


def gradient_places(name, args):
    floats = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype == np.float64]
    return floats[1:] if name in ("zeta", "gammainc", "gammaincc") else floats


@pytest.mark.parametrize(("name", "case"), DIFFERENTIABLE)
def test_gradients(name, case):
    """Of all floating results at once, each with weights of its own."""
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in SAMPLES[name][1][case]]
    outs = call(name, args)
    weights = [np.asarray(RNG.uniform(0.5, 1.5, o.shape)) if o.dtype == np.float64 else None for o in outs]
    if name == "slogdet":
        weights[0] *= 0

    def total(values):
        return sum(
            float((o * w).sum()) for o, w in zip(call(name, values), weights, strict=True) if w is not None
        )

    given = tensors(args)
    places = gradient_places(name, args)
    for i in places:
        given[i].requires_grad_()
    made = results(getattr(core, name)(*given))
    kept = [(o, Tensor(w)) for o, w in zip(made, weights, strict=True) if w is not None]
    found = grad([o for o, _ in kept], [given[i] for i in places], [w for _, w in kept])
    step = 1e-6
    for i, g in zip(places, found, strict=True):
        x, g = args[i], g.numpy()
        if name in SYMMETRIC:
            g = (g + g.swapaxes(-1, -2)) / 2
        for at in np.ndindex(x.shape):
            ends = []
            for sign in (step, -step):
                moved = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
                moved[i][at] += sign / 2
                turned = (*at[:-2], at[-1], at[-2]) if name in SYMMETRIC else at
                moved[i][turned] += sign / 2
                ends.append(total(moved))
            slope = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(
                g[at], slope, rtol=3e-5, atol=3e-6, err_msg=f"{name}, argument {i}, {at}"
            )


@pytest.mark.parametrize(("name", "case"), DIFFERENTIABLE)
def test_rules_call_operators_only(name, case):
    args = SAMPLES[name][1][case]
    places = gradient_places(name, args)

    def backward(given):
        outs = [o for o in results(getattr(core, name)(*given)) if o.dtype.is_floating_point]
        return grad(outs, [given[i] for i in places], [core.mul(core.detach(o), 0.5) for o in outs])

    eager = tensors(args)
    for i in places:
        eager[i].requires_grad_()
    tracer = Tracer(Graph())
    given = [
        tracer.placeholder(f"x{i}", t.meta.with_(requires_grad=t.requires_grad, strides=t.meta.strides))
        if isinstance(t, Tensor) else t
        for i, t in enumerate(eager)
    ]  # fmt: skip
    with interpreting(tracer):
        found = backward(given)
    tracer.graph.output([tracer.node_of(g) for g in found])
    flat = [t for t in tensors(args) if isinstance(t, Tensor)]
    for one, other in zip(tracer.graph.interpret(flat), backward(eager), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


ELEMENTWISE = [
    "lgamma",
    "digamma",
    "erfinv",
    "erfcx",
    "ndtri",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "frexp",
    "nextafter",
]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32], ids=lambda d: d.name)
def test_elementwise_rows_keep_dtype_and_layout(name, dtype):
    op = getattr(core, name)
    for layout, array in layouts(dtype).items():
        args = [Tensor(np.asarray(array * array.dtype.type(0.125)))] * (2 if name == "nextafter" else 1)
        out = results(op(*args))
        assert [o.meta for o in out] == results(op.meta(*[a.meta for a in args])), layout
        wide = results(op(*[Tensor(a.numpy().astype(np.float64)) for a in args]))
        if name != "nextafter":
            for o, w in zip(out, wide, strict=True):
                tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6}[dtype.name]
                np.testing.assert_allclose(o.numpy().astype(np.float64), w.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [dt.uint8, dt.int32, dt.bfloat16, dt.float32], ids=lambda d: d.name)
def test_running_reductions_in_every_layout(name, dtype):
    if name == "logcumsumexp" and not dtype.is_floating_point:
        with pytest.raises(NotImplementedError):
            core.logcumsumexp(Tensor(np.ones(2, dtype.numpy)), 0)
        return
    op = getattr(core, name)
    for array in layouts(dtype).values():
        for dim in range(-array.ndim, array.ndim) if array.ndim else (0, -1):
            x = Tensor(array)
            out = results(op(x, dim))
            assert [o.meta for o in out] == results(op.meta(x.meta, dim))
            wide = results(
                op(Tensor(np.ascontiguousarray(array).reshape(array.shape).astype(np.float64)), dim)
            )
            np.testing.assert_allclose(out[0].numpy().astype(np.float64), wide[0].numpy(), 2e-2)
            if len(out) > 1:
                np.testing.assert_array_equal(out[1].numpy(), wide[1].numpy())


def test_running_extrema_name_the_last_of_equals_and_keep_nan():
    nan = float("nan")
    values, places = core.cummax(Tensor(np.array([1.0, 3.0, 3.0, 2.0, nan, 5.0, nan])), 0)
    np.testing.assert_array_equal(values.numpy(), [1, 3, 3, 3, nan, nan, nan])
    assert places.tolist() == [0, 1, 2, 2, 4, 4, 6]
    assert core.cummin(Tensor(np.array([2, 2, 1, 5])), 0)[1].tolist() == [0, 1, 2, 2]


def test_doubling_is_what_accumulate_gives():
    """CuPy's ufuncs have no accumulate; the other way is exercised here with a namespace that is not NumPy."""
    from stage0_eager.kernels.special import _running

    x = numbers(3, 7, 2)
    for ufunc in (np.maximum, np.minimum):
        np.testing.assert_array_equal(_running(object(), ufunc, x, 1), ufunc.accumulate(x, 1))
    np.testing.assert_allclose(_running(object(), np.logaddexp, x, 1), np.logaddexp.accumulate(x, 1), 1e-12)


@pytest.mark.parametrize("batch", [(0,), (2, 0), (0, 3)])
def test_empty_batches_and_empty_matrices(batch):
    for shape in ((*batch, 3, 3), (2, 0, 0)):
        x = Tensor(np.zeros(shape))
        for name, args in {
            "cholesky": [False], "inv": [], "det": [], "slogdet": [], "qr": [False], "svd": [False], "eigh": [False],
            "matrix_exp": [], "solve": [x], "triangular_solve": [x, True, False],
        }.items():  # fmt: skip
            op = getattr(core, name)
            metas = [a.meta if isinstance(a, Tensor) else a for a in (x, *args)]
            assert [o.meta for o in results(op(x, *args))] == results(op.meta(*metas)), (name, shape)


ONE, ID = np.ones((2, 2)), np.eye(2)
REFUSED = {
    "a singular matrix": ("inv", [Tensor(ONE)], "singular"),
    "the batch element that is singular": ("inv", [Tensor(np.stack([ID, ONE]))], r"\(Batch element 1\)"),
    "a singular system": ("solve", [Tensor(np.zeros((2, 2))), Tensor(ONE)], "singular"),
    "a matrix that is not definite": ("cholesky", [Tensor(-ID), False], "not positive-definite"),
    "a matrix with NaN": ("svd", [Tensor(ONE * np.nan), False], "converge"),
    "a matrix that is not square": ("det", [Tensor(np.ones((2, 3)))], "square matrices, but they are 2 by 3"),
    "a vector": ("qr", [Tensor(np.ones(2)), False], "at least 2 dimensions"),
    "integers": ("inv", [Tensor(np.ones((2, 2), np.int64))], "Expected a floating point"),
    "half precision": ("eigh", [Tensor(np.ones((2, 2), np.float16)), False], "Low precision dtypes not supported"),
    "two dtypes": ("solve", [Tensor(ID), Tensor(np.ones((2, 1), np.float32))], "same dtype"),
    "shapes that do not fit": ("solve", [Tensor(ID), Tensor(np.ones((3, 1)))], "Incompatible shapes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_as_torch_does(case):
    from stage0_eager.kernels.linalg import LinAlgError

    name, args, words = REFUSED[case]
    failed = words in ("singular", "converge", "not positive-definite") or "Batch" in words
    with pytest.raises(RuntimeError, match=words) as error:
        getattr(core, name)(*args)
    assert isinstance(error.value, LinAlgError) == failed


def test_zero_on_a_triangles_diagonal_gives_infinity_as_blas():
    x = core.triangular_solve(
        Tensor(np.array([[1.0, 2.0], [0.0, 0.0]])), Tensor(np.ones((2, 1))), True, False
    )
    assert x.tolist() == [[-np.inf], [np.inf]]


def test_gradients_where_nothing_was_asked_have_no_pole():
    """Repeated singular values and eigenvalues spoil only the gradients of vectors."""
    for name, args in {"svd": [False], "eigh": [False]}.items():
        x = Tensor(np.eye(3), True)
        values = getattr(core, name)(x, *args)[1 if name == "svd" else 0]
        np.testing.assert_allclose(grad([core.sum(values, (0,))], [x])[0].numpy(), np.eye(3), atol=1e-15)
