"""Complex tensors in eager: how they are made and printed, their views, and gradients that the oracle cannot take.

Input: values written here. Every operator is held against torch on complex operands in tests/oracle/test_complex.py.
"""

import numpy as np
import pytest

import stage0_eager.functions.creation as creation
from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import complex_numbers as numbers
from stage0_eager.functions import inplace, pointwise
from stage0_eager.printing import tensor_text
from stage0_eager.random.generator import manual_seed
from stage0_eager.table.core import core as c
from stage0_eager.table.registry import TABLE
from stage_contracts import dtype as dt

RNG = np.random.default_rng(0)


def drawn(*shape):
    return Tensor(np.asarray(RNG.normal(size=shape) + 1j * RNG.normal(size=shape)), True)


def test_creation():
    x = creation.tensor([1 + 2j, 3])
    assert (
        x.dtype is dt.complex64 and x.is_complex() and not x.is_floating_point() and x.tolist() == [1 + 2j, 3]
    )
    assert creation.tensor([1.0, 2], dtype=dt.complex128).tolist() == [1, 2]
    assert creation.full((2,), 1j).dtype is dt.complex64
    assert creation.zeros(2, dtype=dt.complex128).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="cannot be converted to type float32 without overflow"):
        creation.full((2,), 1j, dtype=dt.float32)
    with pytest.raises(RuntimeError, match="cannot be converted to type float32 without overflow"):
        creation.tensor([1j], dtype=dt.float32)
    assert creation.tensor([2 + 0j], dtype=dt.int64).tolist() == [2]


def test_random_numbers_have_size_one():
    manual_seed(0)
    x = creation.randn(20000, dtype=dt.complex64)
    assert abs(float((abs(x) * abs(x)).sum()) / 20000 - 1) < 0.03
    assert abs(float((x.real * x.real).sum()) / 20000 - 0.5) < 0.03
    y = creation.rand(1000, dtype=dt.complex128)
    assert y.imag.numpy().min() >= 0 and y.imag.numpy().max() < 1 and y.imag.numpy().std() > 0.2


def test_numbers_out_of_tensors():
    x = creation.tensor(1 + 2j)
    assert x.item() == 1 + 2j and complex(x) == 1 + 2j and type(x.item()) is complex
    assert float(creation.tensor(2 + 0j)) == 2.0 and int(creation.tensor(3 + 0j)) == 3
    with pytest.raises(RuntimeError, match="without overflow"):
        float(x)


def test_casts_drop_the_imaginary_part_but_not_the_truth():
    x = creation.tensor([1.7 + 2j, 0 + 1j, 0])
    assert c.cast(x, dt.int64).tolist() == [1, 0, 0] and c.cast(x, dt.bool_).tolist() == [True, True, False]
    assert c.cast(x, dt.float64).dtype is dt.float64
    assert c.cast(creation.tensor([1.5], dtype=dt.bfloat16), dt.complex64).tolist() == [1.5]


@pytest.mark.parametrize(
    "values, text",
    [
        ([1 + 2j, 3 - 1j], "tensor([1.+2.j, 3.-1.j])"),
        ([[1e-5 + 1j, 1e6 - 2.5j]], "tensor([[1.0000e-05+1.0000j, 1.0000e+06-2.5000j]])"),
        ([complex("nan"), complex(0, float("-inf"))], "tensor([nan+0.j, 0.-infj])"),
        ([complex(-0.0, -0.0), 1], "tensor([-0.-0.j, 1.+0.j])"),
        (1.5 - 0j, "tensor(1.5000+0.j)"),
    ],
)
def test_printing(values, text):
    assert tensor_text(creation.tensor(values)) == text


def test_parts_are_views():
    x = creation.tensor([[1 + 2j, 3 + 4j]])
    before = x.version
    inplace.mul_(x.real, 2)
    inplace.add_(numbers.view_as_real(x)[..., 1], 1)
    assert x.tolist() == [[2 + 3j, 6 + 5j]] and x.version > before
    pairs = creation.tensor([[1.0, 2.0], [3.0, 4.0]])
    whole = numbers.view_as_complex(pairs)
    inplace.mul_(whole, 1j)
    assert pairs.tolist() == [[-2, 1], [-4, 3]] and whole.T.stride() == (1,)
    turned = creation.tensor([[1 + 2j, 3 + 4j], [5j, 6]]).T
    assert numbers.view_as_real(turned).stride() == (2, 4, 1)
    assert numbers.imag(turned).tolist() == [[2, 5], [4, 0]]


@pytest.mark.parametrize(
    "pairs, says",
    [
        (np.ones((2, 3)), "last dimension of size 2"),
        (np.ones((2, 2)).T, "last dimension with stride 1"),
        (np.ones((2, 3))[:, :2], "stride divisible by 2"),
        (np.ones(()), "one or more dimensions"),
        (np.ones((2, 2), np.int64), "only supported for float32 and float64"),
    ],
)
def test_view_as_complex_refuses(pairs, says):
    with pytest.raises(RuntimeError, match=says):
        numbers.view_as_complex(Tensor(pairs))


def test_a_write_through_a_part_has_its_gradient():
    x, w = drawn(3), Tensor(RNG.normal(size=3), True)
    y = c.clone(x)
    inplace.mul_(y.imag, w)
    loss = (abs(y) * abs(y)).sum()
    gx, gw = grad([loss], [x, w])
    a, b, k = x.detach().numpy().real, x.detach().numpy().imag, w.detach().numpy()
    assert np.allclose(gx.numpy(), 2 * a + 2j * b * k * k) and np.allclose(gw.numpy(), 2 * b * b * k)


def test_the_gradient_is_that_of_both_parts():
    """dL/dx + i dL/dy, and for a real operand of a complex product only its real part."""
    z = drawn()
    (g,) = grad([pointwise.mul(z, z).real], [z])
    assert np.allclose(g.numpy(), 2 * np.conj(z.detach().numpy()))
    r = Tensor(np.asarray(2.0), True)
    (g,) = grad([numbers.imag(pointwise.mul(r, Tensor(np.asarray(3 + 4j))))], [r])
    assert g.dtype is dt.float64 and g.item() == 4.0
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        pointwise.mul(z, 2).backward()


def hermitian(a):
    return pointwise.add(c.matmul(a, TABLE["cutaway.adjoint"](a)), Tensor(3 * np.eye(a.shape[-1])))


def phaseless(vectors):
    """What does not depend on the phases of columns: the squared sizes of their elements."""
    return pointwise.mul(abs(vectors), abs(vectors))


def in_order(values):
    """The parts of eigenvalues, in sums that have no order."""
    return numbers.view_as_real(c.cat([(values * values).sum((0,), True), (values**3).sum((0,), True)], 0))


def size_products(values, vectors):
    return numbers.view_as_real((values * phaseless(vectors)).sum((1,)))


LINEAR_ALGEBRA = {
    "eigh": lambda a: [c.eigh(hermitian(a), False)[0], phaseless(c.eigh(hermitian(a), False)[1])],
    "svd": lambda a: [c.svd(a, False)[1], phaseless(c.svd(a, False)[0]), phaseless(c.svd(a, False)[2])],
    "svd, both phases": lambda a: [numbers.real(pointwise.mul(c.svd(a, False)[0], c.permute(c.svd(a, False)[2], (1, 0))))],
    "cholesky": lambda a: [numbers.view_as_real(c.cholesky(hermitian(a), False))],
    "cholesky, upper": lambda a: [numbers.view_as_real(c.cholesky(hermitian(a), True))],
    "eig": lambda a: [in_order(c.eig(a)[0]), phaseless(c.eig(a)[1]).sum((0,)), size_products(*c.eig(a))],
    "slogdet": lambda a: [numbers.view_as_real(c.slogdet(a)[0]), c.slogdet(a)[1]],
    "det": lambda a: [numbers.view_as_real(c.det(a))],
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_factorizations_have_gradients_where_phases_are_free(name):
    matrix = drawn(3, 3)
    weights = [RNG.normal(size=part.shape) for part in LINEAR_ALGEBRA[name](matrix)]

    def loss(a):
        parts = [
            pointwise.mul(x, Tensor(w)).sum() for x, w in zip(LINEAR_ALGEBRA[name](a), weights, strict=True)
        ]
        return sum(parts[1:], parts[0])

    (g,) = grad([loss(matrix)], [matrix])
    for _ in range(3):
        along = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
        ends = [loss(Tensor(matrix.detach().numpy() + s * 1e-6 * along)).item() for s in (1, -1)]
        slope = float((np.conj(g.numpy()) * along).real.sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "name", ["floor", "lt", "amax", "argmax", "sort", "iota", "remainder", "erf", "gelu", "lgamma"]
)
def test_what_orders_or_rounds_is_refused(name):
    x = creation.tensor([1 + 2j])
    calls = {
        "lt": lambda: x < 1, "amax": lambda: c.amax(x, (0,)), "argmax": lambda: c.argmax(x, 0),
        "sort": lambda: c.sort(x, 0, False, True), "iota": lambda: creation.arange(3, dtype=dt.complex64),
        "remainder": lambda: x % 2,
    }  # fmt: skip
    call = calls.get(name) or (lambda: TABLE[f"cutaway.{name}"](x))
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        call()
