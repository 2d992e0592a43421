"""NumPy's statistics beyond reductions: quantiles, correlation, slopes, reductions that leave NaN out, polynomials.

Input: tensors, and plain numbers for the question (which quantile, how wide a step).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.functions import pointwise_composed, special
from stage0_eager.numpy_api import promotion, reductions, sorting
from stage0_eager.numpy_api.rows import (
    NotHere,
    array,
    axes_of,
    axis_of,
    cast,
    flat,
    numpy_function,
    operands,
)
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING


def _at(values: Any, axis: int, q: Any) -> Any:
    """The q-quantile of sorted values, between neighbours as far as q says: NumPy's method "linear"."""
    kind = values.dtype.numpy.type
    place = (int(values.shape[axis]) - 1) * kind(q)
    low = int(np.floor(place))
    high = min(low + 1, int(values.shape[axis]) - 1)
    part = float(place - kind(low))
    below = c.slice(values, axis, low, low + 1, 1)
    above = c.slice(values, axis, high, high + 1, 1)
    apart = c.sub(above, below)
    if part >= 0.5:
        return c.sub(above, c.mul(apart, float(kind(1 - part))))
    return c.add(below, c.mul(apart, part))


def _quantile(a: Any, q: Any, axis: Any, keepdims: bool, scale: float) -> Any:
    listed = isinstance(q, (list, tuple))
    a = _of_quantiles(array(a), listed)
    line, along = (flat(a), 0) if axis is None else (a, axis_of(axis, a.ndim))
    several = list(q) if listed else [q]
    if not all(isinstance(x, (int, float)) and 0 <= x <= scale for x in several) or line.shape[along] == 0:
        raise NotHere("quantiles that are not plain numbers in their range, or of an empty array")
    values = sorting.sort(line, along)
    last = c.slice(values, along, line.shape[along] - 1, line.shape[along], 1)
    kind = a.dtype.numpy.type
    out = [_at(values, along, kind(x) / kind(scale)) for x in several]
    out = [c.where(c.isnan(last), last, x) for x in out]
    shape = _shape_without(a.shape, None if axis is None else along, keepdims)
    out = [c.reshape(x, shape) for x in out]
    return c.cat([c.reshape(x, (1, *shape)) for x in out], 0) if listed else out[0]


def _of_quantiles(a: Any, listed: bool) -> Any:
    """The array as floats that NumPy's quantiles have, too. Raises NotHere where they have other dtypes."""
    if a.dtype is dt.bool_ or a.dtype is dt.float16:
        raise NotHere(f"quantiles of {a.dtype.name}")
    a = a if a.dtype.category == FLOATING else cast(a, dt.float64)
    if listed and a.dtype is not dt.float64:
        raise NotHere("several quantiles of an array that is not float64")
    return a


def _shape_without(shape: tuple, axis: int | None, keepdims: bool) -> tuple:
    """The shape of a reduction over `axis` (None: over all)."""
    if axis is None:
        return (1,) * len(shape) if keepdims else ()
    return tuple(1 if d == axis else s for d, s in enumerate(shape) if keepdims or d != axis)


@numpy_function("quantile")
def quantile(a, q, axis=None, *, keepdims=False):
    """The value below which the share q of the elements lies."""
    return _quantile(a, q, axis, keepdims, 1.0)


@numpy_function("percentile")
def percentile(a, q, axis=None, *, keepdims=False):
    """The value below which q per cent of the elements lie."""
    return _quantile(a, q, axis, keepdims, 100.0)


@numpy_function("corrcoef", scalar=False)
def corrcoef(x, *, rowvar=True):
    """The correlation matrix of the rows (or columns)."""
    both = sorting.cov(x, rowvar=rowvar)
    spread = c.sqrt(c.diagonal(both, 0, 0, 1))
    n = spread.shape[0]
    out = c.div(c.div(both, c.reshape(spread, (n, 1))), c.reshape(spread, (1, n)))
    return c.minimum(c.maximum(out, -1.0), 1.0)


@numpy_function("gradient", scalar=False)
def gradient(f, *, spacing=(), axis=None):
    """Slopes by differences to both sides; capture gives the step widths as one tuple."""
    f = array(f)
    if f.dtype is dt.bool_:
        raise NotHere("gradient of bools")
    f = f if f.dtype.category == FLOATING else cast(f, dt.float64)
    axes = axes_of(axis, f.ndim)
    steps = list(spacing) * len(axes) if len(spacing) == 1 else list(spacing) or [1.0] * len(axes)
    if len(steps) != len(axes) or not all(isinstance(s, (int, float)) for s in steps):
        raise NotHere("gradient with coordinates instead of one step for each axis")
    out = [_slope(f, along, step) for along, step in zip(axes, steps, strict=True)]
    return out[0] if len(out) == 1 else tuple(out)


def _slope(f: Any, axis: int, step: Any) -> Any:
    n = f.shape[axis]
    if n < 2:
        raise NotHere("gradient along an axis with fewer than two elements")
    step, twice = array(step, f.dtype), array(2.0 * step, f.dtype)
    part = lambda low, high: c.slice(f, axis, low, high, 1)  # noqa: E731
    inside = c.div(c.sub(part(2, n), part(0, n - 2)), twice)
    first, last = c.sub(part(1, 2), part(0, 1)), c.sub(part(n - 1, n), part(n - 2, n - 1))
    return c.cat([c.div(first, step), inside, c.div(last, step)], axis)


@numpy_function("polyval")
def polyval(p, x):
    """p[0] * x ** (n - 1) + ... + p[n - 1]."""
    p, x = array(p), array(x)
    wanted = promotion.promote(p.dtype, x.dtype)
    if p.ndim != 1 or wanted is dt.bool_:
        raise NotHere("polyval with coefficients that are bools or not one-dimensional")
    out = c.full(x.shape, 0, x.dtype, x.device)
    for i in range(int(p.shape[0])):
        factor = c.reshape(c.slice(p, 0, i, i + 1, 1), ())
        left, right, term = operands(out, x, factor, dtype=wanted)
        out = c.add(c.mul(left, right), term)
    return out


# ---- without the NaNs -------------------------------------------------------------------------------------------


def _extremum(name: str, reduce: Any, worst: float) -> None:
    def body(a, axis=None, keepdims=False):
        a = array(a)
        axes = axes_of(axis, a.ndim)
        if reductions.any_empty(a, axes):
            raise NotHere("the minimum or maximum of an empty array")
        if a.dtype.category < FLOATING:
            return reduce(a, axes, bool(keepdims))
        missing = c.isnan(a)
        found = reduce(c.where(missing, worst, a), axes, bool(keepdims))
        return c.where(c.all(missing, axes, bool(keepdims)), float("nan"), found)

    body.__name__, body.__doc__ = name, f"np.{name}: of those that are not NaN."
    numpy_function(name)(body)


_extremum("nanmax", c.amax, float("-inf"))
_extremum("nanmin", c.amin, float("inf"))


@numpy_function("nanvar")
def nanvar(a, axis=None, dtype=None, ddof=0, keepdims=False):
    """The variance of those that are not NaN."""
    a = array(a)
    if a.dtype.category < FLOATING:
        return reductions.var(a, axis, dtype, ddof, keepdims)
    if dtype is not None or a.dtype is dt.float16:
        raise NotHere("nanvar with a dtype")
    axes, there = axes_of(axis, a.ndim), c.logical_not(c.isnan(a))
    n = c.cast(c.sum(c.cast(there, dt.int64), axes, True), a.dtype)
    kept = c.where(there, a, 0.0)
    apart = c.where(there, c.sub(kept, c.div(c.sum(kept, axes, True), n)), 0.0)
    total = c.sum(c.mul(apart, apart), axes, bool(keepdims))
    freedom = c.sub(c.reshape(n, total.shape), ddof)
    return c.where(c.le(freedom, 0), float("nan"), c.div(total, freedom))


@numpy_function("nanstd")
def nanstd(a, axis=None, dtype=None, ddof=0, keepdims=False):
    """The standard deviation of those that are not NaN."""
    return c.sqrt(nanvar(a, axis, dtype, ddof, keepdims))


# ---- more of integers -------------------------------------------------------------------------------------------


def _of_integers(name: str, op: Any) -> None:
    def body(x1, x2):
        x, y = operands(x1, x2)
        if x.dtype.category != 1:
            raise NotHere("not defined for bools and floats")
        return op(x, y)

    body.__name__, body.__doc__ = name, f"np.{name}: of integers."
    numpy_function(name, ufunc=True)(body)


_of_integers("gcd", special.gcd)
_of_integers("lcm", special.lcm)


@numpy_function("logaddexp2", ufunc=True)
def logaddexp2(x1, x2):
    """log2(2 ** x1 + 2 ** x2) without overflow."""
    wanted = promotion.FLOAT_FOR[promotion.result_type([getattr(x, "dtype", x) for x in (x1, x2)])]
    return pointwise_composed.logaddexp2(*operands(x1, x2, dtype=wanted))
