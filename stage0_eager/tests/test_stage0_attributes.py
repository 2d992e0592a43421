"""What a tensor says of itself and makes after its own kind, and the in-place forms that place by index.

Input: small tensors; the wanted values are written out or come from NumPy.
"""

import operator

import numpy as np
import pytest

from stage0_eager.functions.creation import arange, ones, tensor, zeros
from stage0_eager.random.generator import manual_seed
from stage_contracts import dtype as dt

X = np.arange(12.0).reshape(3, 4)


def test_sizes_and_places():
    x = arange(12, dtype=dt.int32).reshape(3, 4)
    row = x[1, 1:]
    assert (x.element_size(), x.itemsize, x.nbytes, x.nelement(), x.ndimension()) == (4, 4, 48, 12, 2)
    assert (x.storage_offset(), row.storage_offset(), x.clone()[2].storage_offset()) == (0, 5, 8)
    assert row.data_ptr() == x.data_ptr() + 20 and x.clone().data_ptr() != x.data_ptr()
    assert x.get_device() == -1 and x.is_cpu and not x.is_sparse and not x.is_complex() and x.is_signed()
    assert not ones(1, dtype=dt.uint8).is_signed() and x.is_same_size(zeros(3, 4)) and not x.is_same_size(row)
    assert tensor([2.0]).is_nonzero() and not tensor(0).is_nonzero()
    with pytest.raises(RuntimeError, match="ambiguous"):
        ones(2).is_nonzero()


@pytest.mark.parametrize("number", [7, -7, True, 7.5])
@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "float64"])
@pytest.mark.parametrize("name", ["floordiv", "mod", "lshift", "rshift", "pow", "truediv"])
def test_a_number_on_the_left_beside_torch(name, dtype, number):
    torch = pytest.importorskip("torch")
    with_number = getattr(operator, name)
    x, theirs = tensor([2, 1, 3], dtype=dtype), torch.tensor([2, 1, 3], dtype=getattr(torch, dtype))
    if name.endswith("shift") and (dtype.startswith("float") or isinstance(number, float)):
        return  # torch shifts these by powers of two
    expected = with_number(number, theirs)
    got = with_number(number, x)
    assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)


def test_type_names_and_casts():
    x = tensor([1.7, -2.2])
    assert x.type() == "torch.FloatTensor" and x.long().type() == "torch.LongTensor"
    assert x.type("torch.DoubleTensor").dtype is dt.float64 and x.type(dt.int16).tolist() == [1, -2]
    assert [f().dtype for f in (x.short, x.char, x.abs().byte)] == [dt.int16, dt.int8, dt.uint8]
    with pytest.raises(ValueError, match="invalid type: 'Float'"):
        x.type("Float")


def test_new_tensors_are_of_the_same_kind():
    x = ones(2, dtype=dt.float64)
    assert x.new_zeros(2, 3).tolist() == [[0] * 3] * 2 and x.new_ones((2,)).dtype is dt.float64
    assert x.new_full((2,), 7, dtype=dt.int64).tolist() == [7, 7] and x.new_empty(0).shape == (0,)
    made = x.new_tensor([1, 2], requires_grad=True)
    assert made.dtype is dt.float64 and made.requires_grad


def test_sum_to_size_undoes_broadcasting():
    x = tensor(X)
    for size, wanted in (((4,), X.sum(0)), ((3, 1), X.sum(1, keepdims=True)), ((1, 1), X.sum().reshape(1, 1)),
                         ((3, 4), X)):  # fmt: skip
        assert x.sum_to_size(*size).tolist() == wanted.tolist()
    for size in ((2,), (1, 3, 4), (3, 2)):
        with pytest.raises(RuntimeError, match="not expandable"):
            x.sum_to_size(size)


def test_scatters_of_views_are_copies_with_a_gradient():
    x, part = tensor(X, requires_grad=True), tensor([9.0, 8.0, 7.0], requires_grad=True)
    wanted = X.copy()
    wanted[:, 2] = [9, 8, 7]
    out = x.select_scatter(part, 1, 2)
    assert out.tolist() == wanted.tolist() and x.tolist() == X.tolist()
    (out * tensor(X)).sum().backward()
    assert (
        part.grad.tolist() == X[:, 2].tolist()
        and x.grad.tolist() == np.where(np.arange(4) == 2, 0, X).tolist()
    )
    wanted = X.copy()
    wanted[:, 1::2] = 1
    assert tensor(X).slice_scatter(ones(3, 2, dtype=dt.float64), 1, 1, None, 2).tolist() == wanted.tolist()


def test_bernoulli_draws_with_each_elements_probability():
    manual_seed(0)
    p = tensor([0.0, 1.0, 0.25]).expand(4000, 3)
    draws = p.bernoulli()
    assert set(draws.flatten().tolist()) == {0.0, 1.0}
    assert np.allclose(draws.numpy().mean(0), [0, 1, 0.25], atol=0.03)


INDEX = tensor([2, 0, 2])

# name -> (call on a 3x4 float64 tensor, what it leaves, by NumPy)
PLACED = {
    "index_add_": (lambda x, s: x.index_add_(0, INDEX, s), lambda a, s: np.add.at(a, [2, 0, 2], s)),
    "index_copy_": (lambda x, s: x.index_copy_(0, tensor([2, 0, 1]), s), lambda a, s: a.__setitem__([2, 0, 1], s)),
    "index_fill_": (lambda x, s: x.index_fill_(1, tensor([3, 0]), 5.0), lambda a, s: a.__setitem__((slice(None), [3, 0]), 5)),
    "index_put_": (lambda x, s: x.index_put_((INDEX, tensor([1, 1, 3])), s[0, :3]), lambda a, s: a.__setitem__(([2, 0, 2], [1, 1, 3]), s[0, :3])),
    "masked_scatter_": (lambda x, s: x.masked_scatter_(x > 5, s), lambda a, s: a.__setitem__(a > 5, s.ravel()[:6])),
    "scatter_reduce_": (lambda x, s: x.scatter_reduce_(0, INDEX.reshape(3, 1), s, "sum"), lambda a, s: np.add.at(a, ([2, 0, 2], 0), s[:, 0])),
    "scatter_": (lambda x, s: x.scatter_(1, INDEX.reshape(3, 1), s), lambda a, s: np.put_along_axis(a, np.array([[2], [0], [2]]), s[:, :1], 1)),
    "scatter_ of a value": (lambda x, s: x.scatter_(1, INDEX.reshape(3, 1), value=7), lambda a, s: np.put_along_axis(a, np.array([[2], [0], [2]]), 7, 1)),
    "scatter_add_": (lambda x, s: x.scatter_add_(0, INDEX.reshape(3, 1), s), lambda a, s: np.add.at(a, ([2, 0, 2], 0), s[:, 0])),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_placing_in_place(name):
    call, reference = PLACED[name]
    source = np.arange(12.0).reshape(3, 4) * 10 + 100
    wanted = X.copy()
    reference(wanted, source)
    x = tensor(X)
    alias = x.view(12)
    assert call(x, tensor(source)) is x
    assert x.tolist() == wanted.tolist() and alias.tolist() == wanted.ravel().tolist() and x.version == 1


def test_placing_in_place_is_on_the_tape():
    leaf, source = zeros(3, 2).requires_grad_(), ones(2, 2).requires_grad_()
    x = leaf * 2
    x.index_add_(0, tensor([0, 2]), source)
    (x * tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert source.grad.tolist() == [[1, 2], [5, 6]] and leaf.grad.tolist() == [[2, 4], [6, 8], [10, 12]]


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (7, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape, wrap):
    wanted = np.zeros(shape)
    np.fill_diagonal(wanted, 1, wrap=wrap)
    assert zeros(*shape).fill_diagonal_(1, wrap).tolist() == wanted.tolist()


def test_fill_diagonal_of_a_cube_and_refusals():
    assert np.argwhere(zeros(3, 3, 3).fill_diagonal_(2).numpy()).tolist() == [[i] * 3 for i in range(3)]
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        zeros(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="equal length"):
        zeros(3, 3, 2).fill_diagonal_(1)
