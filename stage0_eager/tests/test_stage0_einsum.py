"""einsum and the products beside it against NumPy, with gradients by finite differences and errors.

Input: small float64 arrays, one per letter group of the equation.
"""

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.creation import randn
from stage0_eager.functions.linalg import einsum as E
from stage0_eager.functions.nn.pixel_shuffle import pixel_shuffle, pixel_unshuffle, upsample_nearest
from stage0_eager.tests.numeric import check_gradients, tensors, value

RNG = np.random.default_rng(7)


def array(*shape):
    return RNG.normal(size=shape)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk", (2, 3, 4), (2, 4, 5)), ("i,j->ij", (2,), (3,)), ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij,jk->ik", (2, 2, 3), (3, 2)), ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("i,ij,j->", (2,), (2, 3), (3,)), ("ij,kj,lj->ikl", (2, 3), (4, 3), (2, 3)),
    ("b...,b->...", (2, 3, 2), (2,)), ("ij,ij->ij", (2, 3), (2, 3)), ("ab,cd->", (2, 2), (3, 2)), ("bi,ijk,bk->bj", (2, 3), (3, 4, 2), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case):
    equation, *shapes = case
    args = [array(*s) for s in shapes]
    out = value(E.einsum(equation, *tensors(args)))
    np.testing.assert_allclose(out, np.einsum(equation, *args), rtol=1e-10, atol=1e-12)
    check_gradients(lambda *a: E.einsum(equation, list(a)), args)


def test_einsum_errors():
    with pytest.raises(RuntimeError, match="does not match the number of dimensions"):
        E.einsum("ijk->i", randn(2, 3))
    with pytest.raises(ValueError, match="operands"):
        E.einsum("ij,jk", randn(2, 3))
    with pytest.raises(RuntimeError, match="does not appear in the equation"):
        E.einsum("ij->k", randn(2, 3))
    with pytest.raises(RuntimeError, match="do not broadcast"):
        E.einsum("ij,jk", randn(2, 3), randn(2, 3))
    with pytest.raises(ValueError, match="invalid subscript"):
        E.einsum("i1->i", randn(2, 3))


def test_products():
    a, b, v, batch = array(3, 3), array(3, 3), array(3), array(2, 3, 3)
    cases = [
        (E.mv, (a, v), a @ v), (E.inner, (batch, b), np.inner(batch, b)), (E.kron, (a, v), np.kron(a, v)),
        (E.trace, (a,), np.trace(a)), (E.tensordot, (batch, a, 1), np.tensordot(batch, a, 1)),
        (E.tensordot, (batch, batch, ((0, 1), (0, 2))), np.tensordot(batch, batch, ((0, 1), (0, 2)))),
        (E.matrix_power, (a, 5), np.linalg.matrix_power(a, 5)), (E.matrix_power, (batch, 0), np.stack([np.eye(3)] * 2)),
        (E.baddbmm, (b, batch, batch), b + batch @ batch), (E.addbmm, (b, batch, batch), b + (batch @ batch).sum(0)),
        (E.addmv, (v, a, v), v + a @ v), (E.addr, (a, v, v), a + np.outer(v, v)),
    ]  # fmt: skip
    for function, args, expected in cases:
        np.testing.assert_allclose(
            value(function(*tensors(args))), expected, rtol=1e-10, err_msg=function.name
        )
        if not (function is E.matrix_power and args[1] == 0):
            check_gradients(function, args)
    np.testing.assert_allclose(value(E.addmv(*tensors((v, a, v)), beta=2, alpha=3)), 2 * v + 3 * a @ v)
    for function, args in (
        (E.mv, (a, a)),
        (E.trace, (batch,)),
        (E.tensordot, (a, array(2, 2))),
        (E.matrix_power, (array(2, 3), 2)),
    ):
        with pytest.raises(RuntimeError):
            function(*tensors(args))


def test_bilinear():
    layer = nn.Bilinear(3, 2, 4).double()
    assert list(layer.state_dict()) == ["weight", "bias"]
    x, y = array(5, 2, 3), array(5, 2, 2)
    expected = np.einsum("...i,kij,...j->...k", x, value(layer.weight), y) + value(layer.bias)
    np.testing.assert_allclose(value(layer(*tensors((x, y)))), expected, rtol=1e-10)
    check_gradients(E.bilinear, (x[:, 0], y[:, 0], array(4, 3, 2), array(4)))
    with pytest.raises(RuntimeError, match="do not match weight size"):
        layer(Tensor(y), Tensor(x))


def test_pixels():
    x = array(2, 8, 3, 5)
    out = pixel_shuffle(Tensor(x), 2)
    expected = x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 10)
    assert (value(out) == expected).all() and (value(pixel_unshuffle(out, 2)) == x).all()
    assert (value(upsample_nearest(Tensor(x), (2, 3))) == x.repeat(2, 2).repeat(3, 3)).all()
    with pytest.raises(RuntimeError, match="divisible"):
        pixel_shuffle(Tensor(x), 3)
