"""NumPy's reductions: sum, mean, max and their like, over `axis`, with `keepdims` and `dtype`.

Input: tensors. The dtype of the accumulator is NumPy's (promotion.py): int64 for smaller integers, the array's own for
floats, and the mean of integers in float64.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.numpy_api import promotion
from stage0_eager.numpy_api.rows import (
    NotHere,
    array,
    axes_of,
    axis_of,
    cast,
    count,
    fitted,
    flat,
    numpy_function,
    on_one_device,
    operands,
)
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING


def _start(out: Any, initial: Any, combine: Any) -> Any:
    """A reduction that begins with `initial`."""
    return out if initial is None else combine(out, fitted(initial, out.dtype))


@numpy_function("sum", method=True)
def sum(a, axis=None, dtype=None, keepdims=False, initial=None):
    """The sum over `axis`: integers in int64, floats in their own dtype."""
    a = array(a)
    wanted = promotion.sum_dtype(a.dtype) if dtype is None else dtype
    out = c.sum(cast(a, wanted), axes_of(axis, a.ndim), bool(keepdims))
    return _start(cast(out, wanted), initial, c.add)


@numpy_function("prod", method=True)
def prod(a, axis=None, dtype=None, keepdims=False, initial=None):
    """The product over `axis`."""
    a = array(a)
    wanted = promotion.sum_dtype(a.dtype) if dtype is None else dtype
    out = c.prod(cast(a, wanted), axes_of(axis, a.ndim), bool(keepdims))
    return _start(cast(out, wanted), initial, c.mul)


@numpy_function("mean", method=True)
def mean(a, axis=None, dtype=None, keepdims=False):
    """The mean over `axis`: of integers in float64, of half precision by way of float32."""
    a = array(a)
    axes = axes_of(axis, a.ndim)
    wanted = dtype or (a.dtype if a.dtype.category == FLOATING else dt.float64)
    if wanted.category < FLOATING:
        raise NotHere("a mean with an integer dtype")
    inner = dt.float32 if dtype is None and wanted is dt.float16 else wanted
    out = c.div(c.sum(cast(a, inner), axes, bool(keepdims)), count(a, axes))
    return cast(out, wanted)


def _variance(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, correction: Any) -> Any:
    axes = axes_of(axis, a.ndim)
    wanted = dtype or (a.dtype if a.dtype.category == FLOATING else dt.float64)
    if wanted.category < FLOATING:
        raise NotHere("a variance with an integer dtype")
    inner = dt.float32 if dtype is None and wanted is dt.float16 else wanted
    x, n = cast(a, inner), count(a, axes)
    centred = c.sub(x, c.div(c.sum(x, axes, True), n))
    total = c.sum(c.mul(centred, centred), axes, bool(keepdims))
    freedom = n - (ddof if correction is None else correction)
    return c.div(total, freedom if freedom > 0 else 0), wanted


@numpy_function("var", method=True)
def var(a, axis=None, dtype=None, ddof=0, keepdims=False, *, correction=None):
    """The mean square distance from the mean, divided by n - ddof."""
    out, wanted = _variance(array(a), axis, dtype, ddof, keepdims, correction)
    return cast(out, wanted)


@numpy_function("std", method=True)
def std(a, axis=None, dtype=None, ddof=0, keepdims=False, *, correction=None):
    """The root of the variance."""
    out, wanted = _variance(array(a), axis, dtype, ddof, keepdims, correction)
    return cast(c.sqrt(out), wanted)


def _extremum(a: Any, axis: Any, keepdims: bool, initial: Any, reduce: Any, pick: Any) -> Any:
    a = array(a)
    axes = axes_of(axis, a.ndim)
    if initial is None and any_empty(a, axes):
        raise NotHere("the minimum or maximum of an empty array")
    return _start(reduce(a, axes, bool(keepdims)), initial, pick)


def any_empty(x: Any, axes: tuple[int, ...]) -> bool:
    """Whether an axis to reduce has no elements."""
    return any_of(x.shape[d] == 0 for d in axes)


any_of = any


@numpy_function("max", "amax", method=True)
def max(a, axis=None, keepdims=False, initial=None):
    """The largest over `axis`; NaN if any is."""
    return _extremum(a, axis, keepdims, initial, c.amax, c.maximum)


@numpy_function("min", "amin", method=True)
def min(a, axis=None, keepdims=False, initial=None):
    """The smallest over `axis`; NaN if any is."""
    return _extremum(a, axis, keepdims, initial, c.amin, c.minimum)


@numpy_function("ptp")
def ptp(a, axis=None, keepdims=False):
    """The largest less the smallest."""
    a = array(a)
    if a.dtype is dt.bool_:
        raise NotHere("not defined for bools")
    return c.sub(max(a, axis, keepdims), min(a, axis, keepdims))


@numpy_function("any", method=True)
def any(a, axis=None, keepdims=False):
    """Whether any is nonzero."""
    a = array(a)
    return c.any(a, axes_of(axis, a.ndim), bool(keepdims))


@numpy_function("all", method=True)
def all(a, axis=None, keepdims=False):
    """Whether all are nonzero."""
    a = array(a)
    return c.all(a, axes_of(axis, a.ndim), bool(keepdims))


@numpy_function("count_nonzero")
def count_nonzero(a, axis=None, *, keepdims=False):
    """How many are nonzero."""
    a = array(a)
    return c.sum(c.cast(c.ne(a, 0), dt.int64), axes_of(axis, a.ndim), bool(keepdims))


def _place(a: Any, axis: Any, keepdims: bool, find: Any) -> Any:
    a = array(a)
    if axis is None:
        if any_empty(a, tuple(range(a.ndim))):
            raise NotHere("argmin or argmax of an empty array")
        out = find(flat(a), 0, False)
        return c.reshape(out, (1,) * a.ndim) if keepdims else out
    axis = axis_of(axis, a.ndim)
    if any_empty(a, (axis,)):
        raise NotHere("argmin or argmax of an empty array")
    return find(a, axis, bool(keepdims))


@numpy_function("argmax", method=True)
def argmax(a, axis=None, *, keepdims=False):
    """Where the first largest is; the first NaN counts as that."""
    return _place(a, axis, keepdims, c.argmax)


@numpy_function("argmin", method=True)
def argmin(a, axis=None, *, keepdims=False):
    """Where the first smallest is; the first NaN counts as that."""
    return _place(a, axis, keepdims, c.argmin)


# ---- without the NaNs -------------------------------------------------------------------------------------------


def _without_nans(a: Any, value: Any) -> tuple[Any, Any]:
    """(the array with `value` where it is NaN, which are not NaN)."""
    a = array(a)
    there = c.logical_not(c.isnan(a))
    return (c.where(there, a, value) if a.dtype.category == FLOATING else a), there


@numpy_function("nansum")
def nansum(a, axis=None, dtype=None, keepdims=False):
    """The sum of those that are not NaN."""
    return sum(_without_nans(a, 0.0)[0], axis, dtype, keepdims)


@numpy_function("nanprod")
def nanprod(a, axis=None, dtype=None, keepdims=False):
    """The product of those that are not NaN."""
    return prod(_without_nans(a, 1.0)[0], axis, dtype, keepdims)


@numpy_function("nanmean")
def nanmean(a, axis=None, dtype=None, keepdims=False):
    """The mean of those that are not NaN."""
    if array(a).dtype.category < FLOATING:
        return mean(a, axis, dtype, keepdims)
    kept, there = _without_nans(a, 0.0)
    total = sum(kept, axis, dtype, keepdims)
    n = sum(there, axis, None, keepdims)
    return c.div(total, cast(n, total.dtype))


# ---- cumulative ----------------------------------------------------------------------------------------------


def _running(a: Any, axis: Any, dtype: Any, scan: Any) -> Any:
    a = array(a)
    wanted = promotion.sum_dtype(a.dtype) if dtype is None else dtype
    if axis is None:
        a, axis = flat(a), 0
    return cast(scan(cast(a, wanted), axis_of(axis, a.ndim)), wanted)


@numpy_function("cumsum", method=True)
def cumsum(a, axis=None, dtype=None):
    """The running sum along `axis`, or of all in row-major order."""
    return _running(a, axis, dtype, c.cumsum)


@numpy_function("cumprod", method=True)
def cumprod(a, axis=None, dtype=None):
    """The running product along `axis`, or of all in row-major order."""
    return _running(a, axis, dtype, c.cumprod)


@numpy_function("diff")
def diff(a, n=1, axis=-1):
    """Each less the one before it, n times."""
    a = array(a)
    axis = axis_of(axis, a.ndim)
    for _ in range(n):
        later = c.slice(a, axis, 1, a.shape[axis], 1)
        before = c.slice(a, axis, 0, a.shape[axis] - 1, 1)
        a = c.ne(later, before) if a.dtype is dt.bool_ else c.sub(later, before)
    return a


@numpy_function("trapezoid")
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral along an axis by the trapezoidal rule."""
    y = array(y)
    axis = axis_of(axis, y.ndim)
    n = y.shape[axis]
    if y.dtype is dt.bool_:
        raise NotHere("trapezoid of bools")
    step = dx
    if x is not None:
        x = array(x)
        step = diff(x, axis=axis if x.ndim > 1 else -1)
        if x.ndim == 1:
            step = c.reshape(step, tuple(step.shape[0] if d == axis else 1 for d in range(y.ndim)))
    both = c.add(c.slice(y, axis, 1, n, 1), c.slice(y, axis, 0, n - 1, 1))
    left, right = operands(step, both)
    area = c.mul(left, right)
    area = area if area.dtype.category == FLOATING else cast(area, dt.float64)
    return sum(c.div(area, 2.0), axis)


@numpy_function("average")
def average(a, axis=None, weights=None, *, keepdims=False):
    """The mean, weighted by `weights` of the array's shape (or of its length along `axis`)."""
    a = array(a)
    if weights is None:
        return mean(a, axis, None, keepdims)
    a, w = on_one_device([a, array(weights)])[1]
    wanted = promotion.result_type([a.dtype, w.dtype] + ([1.0] if a.dtype.category < FLOATING else []))
    if w.shape != a.shape:
        if w.ndim != 1 or not isinstance(axis, int):
            raise NotHere("weights whose shape differs from the array's")
        shape = [1] * a.ndim
        shape[axis_of(axis, a.ndim)] = w.shape[0]
        w = c.expand(c.reshape(w, tuple(shape)), a.shape)
    w = cast(w, wanted)
    scale = sum(w, axis, None, keepdims)
    return c.div(sum(c.mul(cast(a, wanted), w), axis, None, keepdims), scale)
