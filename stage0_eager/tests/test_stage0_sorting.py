"""Sorting, medians, quantiles, searches and sets of values against NumPy, with NaN, ties, dtypes and gradients.

Input: small arrays with repeats and NaN, in several layouts. Equal elements must keep their order.
"""

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.functions import sorting as s
from stage0_eager.functions.creation import tensor, zeros
from stage0_eager.tests.layouts import DTYPES, layouts

NAN = float("nan")
RAGGED = np.array([[3.0, NAN, 1, 3, -2], [0, 5, 5, -1, 2], [NAN, NAN, 1, 0, 7]])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_sort_in_every_layout(dtype):
    for x in layouts(dtype).values():
        for dim in range(-x.ndim, x.ndim):
            values, order = s.sort(Tensor(x), dim)
            want = np.argsort(x.astype(np.float64), axis=dim, kind="stable")
            assert order.tolist() == want.tolist()
            assert values.tolist() == np.take_along_axis(x, want, dim).tolist()
            down = s.argsort(Tensor(x), dim, descending=True)
            assert down.tolist() == np.argsort(-x.astype(np.float64), axis=dim, kind="stable").tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("shape, dim", [((9000,), 0), ((300, 40), 1), ((40, 300), 0), ((1, 12000, 1), 1)])
def test_many_elements_keep_the_order_of_equals(dtype, shape, dim):
    rng = np.random.default_rng(3)
    x = (rng.integers(-4, 5, shape) * rng.choice([1, -1], shape)).astype(np.float64).astype(dtype.numpy)
    if dtype.is_floating_point:
        x *= rng.choice([-0.0, 1.0], shape).astype(x.dtype)  # zeros of both signs are equal
        x[rng.random(shape) < 0.05] = NAN
        x[rng.random(shape) < 0.05] = np.copysign(NAN, -1)
        x[rng.random(shape) < 0.05] = -np.inf
        x[rng.random(shape) < 0.05] = np.inf
    keys = x.astype(np.float64)
    last = shape[dim] - 1
    up = np.argsort(keys, axis=dim, kind="stable")
    down = np.flip(last - np.argsort(np.flip(keys, dim), axis=dim, kind="stable"), dim)
    for descending, want in ((False, up), (True, down)):
        values, order = s.sort(Tensor(x), dim, descending)
        np.testing.assert_array_equal(order.numpy(), want)
        assert values._data.tobytes() == np.take_along_axis(x, want, dim).tobytes()


def test_nan_is_the_largest():
    x = Tensor(RAGGED)
    np.testing.assert_array_equal(x.sort(1).values.numpy(), np.sort(RAGGED, 1))
    np.testing.assert_array_equal(x.sort(1, descending=True)[0].numpy(), np.sort(RAGGED, 1)[:, ::-1])
    np.testing.assert_array_equal(x.topk(2).values.numpy(), np.sort(RAGGED, 1)[:, ::-1][:, :2])
    np.testing.assert_array_equal(x.kthvalue(2).values.numpy(), np.sort(RAGGED, 1)[:, 1])
    np.testing.assert_array_equal(x.msort().numpy(), np.sort(RAGGED, 0))


def test_medians_and_quantiles():
    x = Tensor(RAGGED)
    values, places = x.median(1)
    np.testing.assert_array_equal(values.numpy(), [NAN, 2, NAN])
    assert places.tolist() == [1, 4, 0] and x.nanmedian(1).values.tolist() == [1, 2, 1]
    assert tensor([4, 1, 3, 2]).median().item() == 2 and np.isnan(x.median().item())
    for q in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(x.quantile(q, 1).numpy(), np.quantile(RAGGED, q, 1))
        np.testing.assert_allclose(
            x.nanquantile(q, 1, keepdim=True).numpy(), np.nanquantile(RAGGED, q, 1, keepdims=True)
        )
    clean, q = np.nan_to_num(RAGGED), np.array([0.1, 0.5, 0.9])
    for way in ("linear", "lower", "higher", "midpoint", "nearest"):
        out = Tensor(clean).quantile(Tensor(q), 0, interpolation=way)
        np.testing.assert_allclose(out.numpy(), np.quantile(clean, q, 0, method=way))
    np.testing.assert_allclose(Tensor(clean).quantile(Tensor(q)).numpy(), np.quantile(clean, q))


@pytest.mark.parametrize("right", [False, True])
def test_searches(right):
    side = "right" if right else "left"
    for size in (0, 1, 2, 7, 8):
        line, values = np.sort(np.arange(size) // 2 * 1.0), np.array([[-1.0, 0, 0.5], [1, 3, NAN]])
        if not size:
            continue
        out = s.searchsorted(Tensor(line), Tensor(values), right=right)
        assert out.tolist() == np.searchsorted(line, values, side).tolist()
        assert s.bucketize(Tensor(values), Tensor(line), right=right).tolist() == out.tolist()
    rows = np.array([[1.0, 2, 3], [2, 4, 6]])
    out = s.searchsorted(Tensor(rows), Tensor(rows), right=right)
    assert out.tolist() == [np.searchsorted(r, r, side).tolist() for r in rows]


def test_sets_of_values():
    x = np.array([[3, 1, 1], [2, 3, 3]])
    for got, want in zip(
        s.unique(Tensor(x), return_inverse=True, return_counts=True),
        np.unique(x, return_inverse=True, return_counts=True),
        strict=True,
    ):
        assert got.numpy().ravel().tolist() == want.ravel().tolist()
    assert s.unique(zeros(0)).tolist() == [] and s.unique(tensor(4)).tolist() == [4]
    assert s.unique_consecutive(tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert s.isin(Tensor(x), tensor([1, 2])).tolist() == np.isin(x, [1, 2]).tolist()
    assert s.isin(Tensor(x), tensor([1, 2]), invert=True).tolist() == (~np.isin(x, [1, 2])).tolist()


def test_gradients():
    x = Tensor(np.array([[3.0, 1, 2], [0, 5, 4]]), True)
    (x.sort(1).values * Tensor(np.array([1.0, 10, 100]))).sum().backward()
    assert x.grad.tolist() == [[100, 1, 10], [1, 100, 10]]
    y = Tensor(np.array([3.0, 1, 2]), True)
    (y.topk(2).values.sum() + y.median()).backward()
    assert y.grad.tolist() == [1, 0, 2]


WRONG = {
    "dim": (lambda x: x.sort(5), IndexError),
    "k": (lambda x: x.topk(9), RuntimeError),
    "kth": (lambda x: x.kthvalue(0), RuntimeError),
    "q": (lambda x: x.quantile(1.5), RuntimeError),
    "q dtype": (lambda x: x.quantile(tensor([0.5])), RuntimeError),
    "integers": (lambda x: tensor([1]).quantile(0.5), RuntimeError),
    "side": (lambda x: s.searchsorted(x, x, right=True, side="left"), RuntimeError),
    "rows": (lambda x: s.searchsorted(x, zeros(2, 2)), RuntimeError),
    "isin": (lambda x: s.isin(x, tensor([1j])), RuntimeError),
    "unique": (lambda x: x.reshape(-1)[:0].reshape(2, 0).unique(dim=0), RuntimeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    action, kind = WRONG[name]
    with pytest.raises(kind):
        action(Tensor(RAGGED))
