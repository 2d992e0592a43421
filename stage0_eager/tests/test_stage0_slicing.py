"""Pieces, blocks, windows, second names, and methods that change a tensor's view in place, against NumPy and SciPy.

Input: small tensors; gradients against finite differences where a body is not a plain view.
"""

import numpy as np
import pytest
import scipy.linalg
import scipy.signal.windows as sw

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import other_operations
from stage0_eager.functions import slicing as P
from stage0_eager.functions import spectral as W
from stage0_eager.functions.creation import tensor
from stage0_eager.table.registry import TABLE
from stage0_eager.tests.numeric import check_gradients, value

X = np.random.default_rng(0).normal(size=(4, 4, 2))
M = X[:, :, 0]


def T(name):
    return TABLE[f"cutaway.{name}"]


def replaced(x, where, src):
    out = x.copy()
    out[where] = src
    return out


# called, reference, arguments
CALLS = {
    "slice_scatter": (lambda x, s: T("slice_scatter")(x, s, 0, 1, None, 2), lambda x, s: replaced(x, np.s_[1::2], s), [M, X[:2, :, 1].copy()]),
    "select_scatter": (lambda x, s: T("select_scatter")(x, s, 1, -1), lambda x, s: replaced(x, np.s_[:, -1], s), [M, X[:, 0, 1].copy()]),
    "diagonal_scatter": (lambda x, s: T("diagonal_scatter")(x, s, 1), lambda x, s: x - np.diag(np.diag(x, 1), 1) + np.diag(s, 1), [M, X[:3, 0, 1].copy()]),
    "diagflat": (T("diagflat"), lambda x: np.diagflat(x), [X[:2, 0]]),
    "block_diag": (other_operations.block_diag, scipy.linalg.block_diag, [M, X[0], X[0, 0]]),
    "combinations": (other_operations.combinations, lambda x: np.array([[x[i], x[j]] for i in range(4) for j in range(i + 1, 4)]), [M[0]]),
    "combinations with replacement": (lambda x: other_operations.combinations(x, 3, True), lambda x: np.array(
        [[x[i], x[j], x[k]] for i in range(4) for j in range(i, 4) for k in range(j, 4)]), [M[0]]),
    "renorm": (lambda x: T("renorm")(x, 2, 0, 1.0), lambda x: x * np.minimum(
        1, np.where(np.sqrt((x * x).sum((1, 2), keepdims=True)) > 1, 1 / (np.sqrt((x * x).sum((1, 2), keepdims=True)) + 1e-7), 1)), [X]),
    "gradient": (lambda x: other_operations.gradient(x)[0], lambda x: np.gradient(x)[0], [M]),
    "gradient with spacing": (lambda x: other_operations.gradient(x, spacing=0.5, dim=1)[0], lambda x: np.gradient(x, 0.5, axis=1), [X]),
    "narrow_copy": (lambda x: T("narrow_copy")(x, 1, 1, 2), lambda x: x[:, 1:3], [M]),
    "concat": (lambda x, y: T("concat")([x, y], 1), lambda x, y: np.concatenate([x, y], 1), [M, M[:, :1].copy()]),
    "trapz": (T("trapz"), lambda x: np.trapezoid(x), [M]),
    "vdot": (T("vdot"), np.vdot, [M[0].copy(), M[1].copy()]),
    "ger": (T("ger"), np.outer, [M[0].copy(), X[0, 0]]),
    "angle": (T("angle"), lambda x: np.angle(x), [M]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name):
    function, reference, args = CALLS[name]
    got = function(*[Tensor(a.copy()) for a in args])
    np.testing.assert_allclose(value(got), reference(*args), rtol=1e-12, atol=1e-14)
    if name != "angle":
        check_gradients(function, args)


def test_splits_are_views():
    x = tensor(np.arange(24.0).reshape(4, 3, 2))
    for parts, want in [
        (P.hsplit(x, 3), np.hsplit(x.numpy(), 3)), (P.vsplit(x, (1, 3)), np.vsplit(x.numpy(), (1, 3))),
        (x.dsplit(2), np.dsplit(x.numpy(), 2)), (x.split_with_sizes([1, 2], 1), np.split(x.numpy(), [1], 1)),
        (x.unsafe_chunk(2), np.split(x.numpy(), 2)), (x.vsplit(1, 2), np.vsplit(x.numpy(), (1, 2))),
    ]:  # fmt: skip
        assert [p.tolist() for p in parts] == [w.tolist() for w in want]
        assert all(p._base is x for p in parts)
    with pytest.raises(RuntimeError, match="not divisible by the split_size 5"):
        P.hsplit(x, 5)
    with pytest.raises(RuntimeError, match="at least 3 dimensions"):
        P.dsplit(tensor([1.0]), 1)


def test_places_of_flat_indices():
    rows, columns = T("unravel_index")(tensor([[5, 0], [11, 7]]), (3, 4))
    assert rows.tolist() == [[1, 0], [2, 1]] and columns.tolist() == [[1, 0], [3, 3]]
    with pytest.raises(TypeError, match="integer dtype"):
        T("unravel_index")(tensor([1.0]), (3,))


def test_shapes_and_tensors_are_broadcast():
    assert other_operations.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    x, y = other_operations.broadcast_tensors(tensor([[1], [2]]), tensor([3, 4, 5]))
    assert x.tolist() == [[1, 1, 1], [2, 2, 2]] and y.shape == (2, 3)


def test_real_tensors_are_their_conjugates():
    x = tensor([1.0, -1.0])
    assert x.conj() is x and x.resolve_conj() is x and T("real")(x) is x and x.real is x
    assert x.conj_physical().tolist() == x.tolist() and not x.is_conj()
    found = T("angle")(tensor([1.0, -1.0, float("nan"), -0.0])).numpy()
    np.testing.assert_allclose(found, [0, np.pi, np.nan, 0], rtol=1e-6)
    assert T("angle")(tensor([-1, 2])).tolist()[1] == 0


WINDOWS = {
    "hann_window": sw.hann, "hamming_window": sw.hamming, "blackman_window": sw.blackman, "bartlett_window": sw.bartlett,
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_windows(name, length):
    make = getattr(W, name)
    want = WINDOWS[name](length, sym=False) if length > 1 else np.ones(1)
    np.testing.assert_allclose(value(make(length, dtype="float64")), want, atol=1e-14)
    want = WINDOWS[name](length)
    np.testing.assert_allclose(value(make(length, False, dtype="float64")), want, atol=1e-14)
    assert make(length).dtype.name == "float32" and make(0).shape == (0,)


def test_kaiser_window_and_what_a_window_refuses():
    np.testing.assert_allclose(
        value(W.kaiser_window(9, False, 5.0, dtype="float64")), sw.kaiser(9, 5.0), rtol=1e-12
    )
    with pytest.raises(RuntimeError, match="floating point"):
        W.hann_window(3, dtype="int64")
    with pytest.raises(RuntimeError, match="non-negative"):
        W.hann_window(-1)


def test_views_taken_in_place():
    x = tensor(np.arange(6.0).reshape(2, 3))
    memory = x._data
    assert x.t_() is x and x.shape == (3, 2) and x.unsqueeze_(0).shape == (1, 3, 2)
    assert (
        x.transpose_(0, 2).shape == (2, 3, 1)
        and x.squeeze_().shape == (2, 3)
        and x.swapaxes_(0, 1).shape == (3, 2)
    )
    x[0, 0] = 9
    assert memory[0, 0] == 9  # the same memory all along
    assert x.t_().contiguous().as_strided_((2, 2), (1, 2)).shape == (2, 2)


def test_views_taken_in_place_are_on_the_tape():
    leaf = Tensor(M.copy(), True)
    x = leaf * 2
    x.t_().mul_(Tensor(np.arange(4.0)))
    (g,) = grad([x.sum()], [leaf])
    np.testing.assert_allclose(value(g), 2 * np.arange(4.0)[:, None] * np.ones(4))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.t_()


def test_resizing_keeps_the_elements_in_order():
    x = tensor([[1, 2, 3], [4, 5, 6]])
    assert x.resize_(2, 2).tolist() == [[1, 2], [3, 4]] and x.resize_((5,)).tolist() == [1, 2, 3, 4, 0]
    assert x.resize_as_(tensor([[0]])).tolist() == [[1]]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        tensor([1.0], requires_grad=True).resize_(3)


def test_the_transpose_of_the_field():
    x = tensor(np.arange(6).reshape(2, 3))
    assert x.H.tolist() == x.mH.tolist() == x.T.tolist()
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        _ = tensor([1]).H
