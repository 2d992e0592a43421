"""interpolate and upsample, by torch's names: one dimension after another, from places computed by operators.

Input: tensors (N, C, *sizes) and the size wanted or a factor. Places and weights are computed in the dtype the
arithmetic is done in, as torch does, so that the same neighbours are picked. See also pixel_shuffle.py.
"""

from __future__ import annotations

import math

from stage0_eager.functions.nn.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from stage0_eager.functions.shape import in_format_of
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.symbolic import SymInt

_MODES = {  # mode: the ranks of the input it takes
    "nearest": (3, 4, 5), "nearest-exact": (3, 4, 5), "area": (3, 4, 5), "linear": (3,), "bilinear": (4,),
    "trilinear": (5,), "bicubic": (4,),
}  # fmt: skip
_ALIGNED = ("linear", "bilinear", "trilinear", "bicubic")
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


@operator
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False,
):  # fmt: skip
    """(N, C, *sizes) at another size: `size`, or sizes times `scale_factor`, rounded down.

    Modes: nearest, nearest-exact, linear (3D), bilinear and bicubic (4D), trilinear (5D), area (adaptive averages).
    align_corners=True lets the outermost elements keep their places; otherwise elements are areas of equal size.
    A factor is used as it is for the places, unless recompute_scale_factor asks for the ratio of the sizes.
    """
    _check(input, mode, align_corners, antialias)
    sizes, factors = _target(input, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return _AREA[input.ndim](input, sizes)
    _check_sizes(input, sizes)
    if mode.startswith("nearest"):
        return in_format_of(_nearest(input, sizes, factors, 0.5 if mode == "nearest-exact" else 0.0), input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'interpolate with mode="{mode}" is not implemented for {input.dtype.name}')
    return in_format_of(_dimension_by_dimension(input, sizes, factors, mode, align_corners), input)


def _check_sizes(input, sizes):
    if any(isinstance(n, int) and n < 1 for n in (*sizes, *input.shape[2:])):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and output "
            f"{list(sizes)}"
        )


def _dimension_by_dimension(input, sizes, factors, mode, align_corners):
    half = input.dtype.name in ("float16", "bfloat16")
    out = c.cast(input, dt.float32) if half else input
    along = _cubic if mode == "bicubic" else _linear
    for i, (size_, factor) in enumerate(zip(sizes, factors, strict=True)):
        if size_ != input.shape[2 + i] or (factor is not None and not align_corners):
            out = along(out, 2 + i, size_, factor, bool(align_corners))
    out = c.cast(out, input.dtype) if half else out
    return c.clone(out) if out is input else out


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """As interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def _check(input, mode, align_corners, antialias):
    if mode not in _MODES:
        raise NotImplementedError(f"interpolate: unknown mode {mode!r}; expected one of {', '.join(_MODES)}")
    if input.ndim not in _MODES[mode]:
        ranks = " or ".join(f"{r}D" for r in _MODES[mode])
        raise NotImplementedError(f"interpolate: mode {mode!r} takes {ranks} input, got {input.ndim}D")
    if align_corners is not None and mode not in _ALIGNED:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not supported; use mode='area' to shrink")


def _target(input, size, scale_factor, recompute):
    """(sizes, factors): what is wanted, and per dimension the factor that places are computed with, or None."""
    rank = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
    given = size if size is not None else scale_factor
    single = isinstance(given, (int, float, SymInt))
    values = (given,) * rank if single else tuple(given)
    if len(values) != rank:
        raise ValueError(
            f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {'size' if scale_factor is None else 'scale_factor'} of {list(values)}"
        )
    if size is not None:
        if any(isinstance(n, float) for n in values):
            raise TypeError(f"interpolate: expected integers as size, got {given}")
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return values, (None,) * rank
    sizes = tuple(_scaled(n, factor) for n, factor in zip(input.shape[2:], values, strict=True))
    return sizes, (None,) * rank if recompute else values


def _scaled(size, factor):
    above, below = float(factor).as_integer_ratio()
    if max(abs(above), below) <= 2**20:  # such as 1.5: the product is exact, also of an open size
        return size * above // below
    return math.floor(int(size) * factor)  # an open size is fixed: sympy rounds 0.6 * 6 otherwise than Python


# ---- one dimension ------------------------------------------------------------------------------------------------


def _pick(x, dim, index):
    """x[..., index, ...] for a vector of places along `dim`."""
    index = c.reshape(index, (*[1] * dim, index.shape[0], *[1] * (x.ndim - dim - 1)))
    shape = tuple(index.shape[dim] if d == dim else s for d, s in enumerate(x.shape))
    return c.gather(x, dim, c.expand(index, shape))


def _nearest(x, sizes, factors, shift):
    for dim, (size, factor) in enumerate(zip(sizes, factors, strict=True), start=2):
        have = x.shape[dim]
        if x.ndim == 4 and not shift and size in (have, 2 * have):
            factor = None  # torch takes the plain ratio here, whatever the factor
        if size == have and factor in (None, 1):
            continue
        if (
            isinstance(size, int)
            and isinstance(have, int)
            and size % have == 0
            and factor in (None, size // have)
        ):
            wide = c.reshape(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]))
            wide = c.expand(wide, (*x.shape[: dim + 1], size // have, *x.shape[dim + 1 :]))
            x = c.reshape(wide, (*x.shape[:dim], size, *x.shape[dim + 1 :]))
            continue
        step = have / size if factor is None else 1.0 / factor
        place = c.mul(c.add(c.iota(size, 0, 1, dt.float32, x.device), shift), step)
        x = _pick(x, dim, c.minimum(c.cast(c.floor(place), dt.int64), have - 1))
    return c.clone(x)


def _places(x, size, have, factor, align_corners):
    """Where each new element lies among the old ones, in the dtype of `x`."""
    i = c.iota(size, 0, 1, x.dtype, x.device)
    if align_corners:
        return c.mul(i, (have - 1) / (size - 1) if size > 1 else 0.0)
    return c.sub(c.mul(c.add(i, 0.5), have / size if factor is None else 1.0 / factor), 0.5)


def _beside(vector, dim, ndim):
    return c.reshape(vector, (*vector.shape, *[1] * (ndim - dim - 1)))


def _linear(x, dim, size, factor, align_corners):
    have = x.shape[dim]
    place = c.maximum(_places(x, size, have, factor, align_corners), 0.0)
    low = c.minimum(c.cast(c.floor(place), dt.int64), have - 1)
    high = c.minimum(c.add(low, 1), have - 1)
    weight = _beside(c.minimum(c.sub(place, low), 1.0), dim, x.ndim)
    return c.add(c.mul(_pick(x, dim, low), c.sub(1.0, weight)), c.mul(_pick(x, dim, high), weight))


def cubic_weights(t):
    """Of the neighbours at -1, 0, 1 and 2, for a place `t` in 0..1 between the middle ones: Keys 1981, a = -0.75."""
    a = -0.75

    def near(d):  # |d| <= 1
        return c.add(c.mul(c.mul(c.sub(c.mul(d, a + 2), a + 3), d), d), 1)

    def far(d):  # 1 < |d| < 2
        return c.sub(c.mul(c.add(c.mul(c.sub(c.mul(d, a), 5 * a), d), 8 * a), d), 4 * a)

    rest = c.sub(1.0, t)
    return far(c.add(t, 1)), near(t), near(rest), far(c.add(rest, 1))


def _cubic(x, dim, size, factor, align_corners):
    """Over the four neighbours; the outermost ones are repeated."""
    have = x.shape[dim]
    place = _places(x, size, have, factor, align_corners)
    base = c.floor(place)
    weights = cubic_weights(c.sub(place, base))
    base = c.cast(base, dt.int64)
    total = None
    for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
        index = c.minimum(c.maximum(c.add(base, offset), 0), have - 1)
        term = c.mul(_pick(x, dim, index), _beside(weight, dim, x.ndim))
        total = term if total is None else c.add(total, term)
    return total
