"""NumPy's sorting, searching and statistics that sort.

Input: tensors. NaN is largest; order among equals is the stable one.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.numpy_api import reductions
from stage0_eager.numpy_api.rows import NotHere, array, axis_of, cast, flat, numpy_function, operands
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    a = array(a)
    return (flat(a), 0) if axis is None else (a, axis_of(axis, a.ndim))


@numpy_function("sort", scalar=False)
def sort(a, axis=-1, kind=None):
    """The elements in order along an axis."""
    a, axis = _along(a, axis)
    return c.sort(a, axis, False, True)[0]


@numpy_function("argsort", scalar=False)
def argsort(a, axis=-1, kind=None):
    """The places that put the elements in order, equals as they were: NumPy leaves that open but for kind="stable"."""
    a, axis = _along(a, axis)
    return c.sort(a, axis, False, True)[1]


@numpy_function("median")
def median(a, axis=None, *, keepdims=False):
    """The middle element in order, or the mean of the two; NaN if any is."""
    a = array(a)
    line, along = _along(a, axis)
    n = line.shape[along]
    if n == 0:
        raise NotHere("the median of an empty array")
    values, _ = c.sort(line, along, False, True)
    inner = cast(values, dt.float64 if values.dtype.category < FLOATING else values.dtype)
    middle = c.slice(inner, along, (n - 1) // 2, n // 2 + 1, 1)
    out = reductions.mean(middle, along, None, True)
    if inner.dtype.category == FLOATING:
        last = c.slice(inner, along, n - 1, n, 1)
        out = c.where(c.isnan(last), last, out)
    if axis is None:
        return c.reshape(out, (1,) * a.ndim if keepdims else ())
    return out if keepdims else c.reshape(out, (*line.shape[:along], *line.shape[along + 1 :]))


@numpy_function("searchsorted", scalar=True)
def searchsorted(a, v, side="left"):
    """Where each v goes into the sorted a: before its equals, or behind them."""
    a, v = operands(a, v)
    before = c.lt if side == "left" else c.le
    at = c.reshape(v, (*v.shape, 1))
    if a.dtype.category == FLOATING:
        raise NotHere("searchsorted of floats, which may contain NaN")
    return c.sum(c.cast(before(a, at), dt.int64), (v.ndim,), False)


@numpy_function("isin", scalar=False)
def isin(element, test_elements, *, invert=False):
    """Which elements are among the others."""
    x, tests = operands(element, test_elements)
    found = c.any(c.eq(c.reshape(x, (*x.shape, 1)), flat(tests)), (x.ndim,), False)
    return c.logical_not(found) if invert else found


@numpy_function("cov", scalar=False)
def cov(m, *, rowvar=True, bias=False, ddof=None):
    """The covariance matrix of the rows (or columns)."""
    x = array(m)
    x = cast(x, dt.float64) if x.dtype is not dt.float64 else x
    if x.ndim != 2:
        raise NotHere("cov of an array that does not have 2 dimensions")
    x = x if rowvar else c.permute(x, (1, 0))
    n = x.shape[1]
    x = c.sub(x, c.div(c.sum(x, (1,), True), n))
    freedom = n - ((0 if bias else 1) if ddof is None else ddof)
    return c.mul(c.matmul(x, c.permute(x, (1, 0))), 1 / freedom)


@numpy_function("nonzero", scalar=False)
def nonzero(a):
    """The places of what is not zero, one array per axis."""
    a = array(a)
    places = c.nonzero(a)
    return tuple(c.reshape(c.slice(places, 1, d, d + 1, 1), (places.shape[0],)) for d in range(a.ndim))
