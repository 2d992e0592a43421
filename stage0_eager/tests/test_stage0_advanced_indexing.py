"""Integer arrays and masks as indices, read and written, against NumPy on random indices; and functions by index.

Input: index expressions drawn at random (an int beside an array is left out: there torch's rule is not NumPy's), and
the functions of picking.py on small arrays.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_eager import TABLE, Tensor
from stage0_eager.functions import gather_scatter
from stage0_eager.functions.creation import tensor

BASE = np.arange(60.0).reshape(3, 4, 5)


@st.composite
def indices(draw):
    items, dim = [], 0
    common = draw(st.sampled_from([(), (2,), (3,), (2, 3), (0,)]))
    while dim < 3 and draw(st.integers(0, 5)):
        kind = draw(st.sampled_from(["slice", "array", "array", "mask", "none"]))
        if kind == "slice":
            items.append(slice(draw(st.sampled_from([None, 1, -2])), None, draw(st.integers(1, 2))))
        elif kind == "none" and len(items) < 4:
            items.append(None)
            continue
        elif kind == "mask" and not any(isinstance(i, np.ndarray) for i in items):
            items.append(np.array(draw(st.lists(st.booleans(), min_size=4, max_size=4)))[: BASE.shape[dim]])
            if items[-1].size != BASE.shape[dim]:
                items[-1] = np.resize(items[-1], BASE.shape[dim])
            common = None
        elif common is not None:
            size = BASE.shape[dim]
            count = int(np.prod(common))
            places = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            items.append(np.array(places, np.int64).reshape(common))
        else:
            items.append(slice(None))
        dim += 1
    return tuple(items)


def ours(index):
    return tuple(Tensor(i) if isinstance(i, np.ndarray) else i for i in index)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(indices())
def test_reading_as_numpy(index):
    for base in (BASE, np.asfortranarray(BASE)):
        out, want = Tensor(base)[ours(index)], base[index]
        assert out.shape == want.shape and out.tolist() == want.tolist()


@settings(max_examples=200, derandomize=True, deadline=None)
@given(indices())
def test_writing_as_numpy(index):
    for value in (7.0, None):
        want, x = BASE.copy(), Tensor(BASE.copy())
        alias = x.reshape(60)
        unique = len({*np.arange(60).reshape(3, 4, 5)[index].ravel().tolist()}) == want[index].size
        if value is None and not unique:
            continue  # which of several writes to one place stays is not promised
        value = np.arange(float(want[index].size)).reshape(want[index].shape) if value is None else value
        want[index] = value
        x[ours(index)] = Tensor(value) if isinstance(value, np.ndarray) else value
        assert x.tolist() == want.tolist() == alias.reshape(3, 4, 5).tolist()


def test_an_int_beside_arrays_is_applied_first():
    x = Tensor(BASE)
    assert x[0, :, tensor([1, 2])].tolist() == BASE[0][:, [1, 2]].tolist()  # NumPy alone gives the transpose
    assert x[[0, 2]].tolist() == BASE[[0, 2]].tolist() and x[True].shape == (1, 3, 4, 5)
    assert x[Tensor(BASE > 30)].tolist() == BASE[BASE > 30].tolist() and x[False].shape == (0, 3, 4, 5)


def test_gradients_reach_what_was_read_and_written():
    x = Tensor(BASE.copy(), True)
    x[tensor([0, 0, 1]), tensor([1, 1, 2])].sum().backward()
    want = np.zeros_like(BASE)
    np.add.at(want, ([0, 0, 1], [1, 1, 2]), 1)
    assert x.grad.tolist() == want.tolist()
    base, v = Tensor(BASE.copy(), True), Tensor(np.ones((2, 5)), True)
    y = base * 2
    y[tensor([0, 1]), tensor([1, 2])] = v
    y.sum().backward()
    want = np.full_like(BASE, 2)
    want[[0, 1], [1, 2]] = 0
    assert base.grad.tolist() == want.tolist() and v.grad.tolist() == np.ones((2, 5)).tolist()


I, S = np.array([2, 0]), np.arange(40.0).reshape(2, 4, 5)


def put(change):
    out = BASE.copy()
    change(out)
    return out


def scattered(name, include):
    x, src, index = np.array([1.0, 2, 3]), np.array([5.0, -1, 4, 2]), np.array([0, 0, 2, 2])
    out = Tensor(x).scatter_reduce(0, Tensor(index), Tensor(src), name, include_self=include)
    f = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min}[name]
    want = [
        f([*([v] if include or i not in index else []), *src[index == i]]) if i in index else v
        for i, v in enumerate(x)
    ]
    assert out.tolist() == want


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include", [True, False])
def test_scatter_reduce(name, include):
    scattered(name, include)


CASES = {
    "index_select": (lambda x: x.index_select(0, tensor(I)), BASE[I]),
    "index_add": (lambda x: x.index_add(0, tensor(I), Tensor(S), alpha=2), put(lambda o: np.add.at(o, I, 2 * S))),
    "index_copy": (lambda x: x.index_copy(0, tensor(I), Tensor(S)), put(lambda o: o.__setitem__(I, S))),
    "index_fill": (lambda x: x.index_fill(0, tensor(I), 9), put(lambda o: o.__setitem__(I, 9))),
    "index_put": (
        lambda x: x.index_put((tensor([0, 0]), tensor([1, 1])), tensor(1.0, dtype="float64"), accumulate=True),
        put(lambda o: np.add.at(o, ([0, 0], [1, 1]), 1)),
    ),
    "take": (lambda x: x.take(tensor([[0, -1], [7, 8]])), BASE.take([[0, -1], [7, 8]])),
    "take_along_dim": (
        lambda x: x.take_along_dim(x.argsort(1, descending=True), 1), BASE[:, ::-1],
    ),
    "masked_select": (lambda x: x.masked_select(x[0] > 3), BASE[np.broadcast_to(BASE[0] > 3, BASE.shape)]),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 50, -x), put(lambda o: o.__setitem__(BASE > 50, -np.arange(9.0))),
    ),
    "nonzero": (lambda x: (x > 50).nonzero(), np.argwhere(BASE > 50)),
    "argwhere": (lambda x: (x > 90).argwhere(), np.zeros((0, 3))),
    "bincount": (lambda x: tensor([1, 3, 1]).bincount(minlength=6), [0, 2, 0, 1, 0, 0]),
    "weighted": (lambda x: tensor([1, 0, 1]).bincount(tensor([0.5, 2, 1])), [2, 1.5]),
    "scatter": (lambda x: tensor([1.0, 2, 3]).scatter(0, tensor([2, 0]), 9.0), [9, 2, 9]),
    "multiply": (lambda x: tensor([1.0, 2, 3]).scatter(0, tensor([2, 2]), 2.0, reduce="multiply"), [1, 2, 12]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_by_index(name):
    function, want = CASES[name]
    for base in (BASE, np.asfortranarray(BASE)):
        assert function(Tensor(base.copy())).tolist() == np.asarray(want).tolist()


WRONG = {
    "vector": (lambda x: x.index_select(0, tensor([[0]])), IndexError),
    "place": (lambda x: x.index_select(0, tensor([3])), IndexError),
    "place in dimension 1": (lambda x: x.index_select(1, tensor([9])), RuntimeError),
    "two places": (lambda x: x[tensor([0]), tensor([4])], IndexError),
    "take": (lambda x: x.take(tensor([60])), IndexError),
    "index dtype": (lambda x: x.take(tensor([1.0])), RuntimeError),
    "source": (lambda x: x.index_add(0, tensor([0]), tensor([1])), RuntimeError),
    "reduce": (lambda x: x.scatter_reduce(0, tensor([[[0]]]), x, "max"), RuntimeError),
    "mask": (lambda x: x.masked_select(x), RuntimeError),
    "count": (lambda x: tensor([-1]).bincount(), RuntimeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    action, kind = WRONG[name]
    with pytest.raises(kind):
        action(Tensor(BASE.copy()))


def test_all_are_in_the_table():
    assert TABLE["cutaway.index_put"] is gather_scatter.index_put
