"""NumPy's rearrangements of one array: new shapes, orders of axes, copies along an axis.

Input: tensors. What is a view in NumPy is one here, except reversals, which are copies.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import indexing
from stage0_eager.numpy_api import promotion, reductions
from stage0_eager.numpy_api.creation import shape_of
from stage0_eager.numpy_api.rows import (
    NotHere,
    array,
    axes_of,
    axis_of,
    cast,
    flat,
    make_operator,
    numpy_function,
)
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType


@numpy_function("reshape", scalar=False, view=True, method=True)
def reshape(a, shape=None, order="C", *, newshape=None, copy=None):
    """The elements in row-major order under a new shape; -1 stands for what is left."""
    a = array(a)
    if order not in ("C", "A") or (order == "A" and not a.is_contiguous()):
        raise NotHere(f"order={order!r}")
    out = c.reshape(a, shape_of(newshape if shape is None else shape))
    if copy is False:
        raise NotHere("reshape with copy=False")
    return c.clone(out) if copy else out


@numpy_function("ravel", scalar=False, view=True, method=True)
def ravel(a, order="C"):
    """All elements in row-major order: a view where that can be."""
    if order not in ("C", "A"):
        raise NotHere(f"order={order!r}")
    return c.contiguous(flat(array(a)))


def flatten(a, order="C"):
    """All elements in row-major order, copied."""
    if order not in ("C", "A"):
        raise NotHere(f"order={order!r}")
    return c.clone(flat(a))


flatten_operator = make_operator("flatten", flatten)


@numpy_function("transpose", "permute_dims", scalar=False, view=True)
def transpose(a, axes=None):
    """The axes in another order: reversed, if none is given."""
    a = array(a)
    order = range(a.ndim)[::-1] if axes is None else [axis_of(i, a.ndim) for i in axes]
    if len(set(order)) != a.ndim:
        raise NotHere("axes that do not match the array")
    return c.permute(a, tuple(order))


@numpy_function("matrix_transpose", scalar=False, view=True)
def matrix_transpose(x):
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


@numpy_function("swapaxes", scalar=False, view=True, method=True)
def swapaxes(a, axis1, axis2):
    """Two axes exchanged."""
    a = array(a)
    first, second = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return c.permute(a, tuple(order))


@numpy_function("moveaxis", scalar=False, view=True)
def moveaxis(a, source, destination):
    """Axes moved to other places; the rest keep their order."""
    a = array(a)
    before, after = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(before) != len(after):
        raise NotHere("moveaxis with different numbers of sources and destinations")
    order = [d for d in range(a.ndim) if d not in before]
    for place, axis in sorted(zip(after, before, strict=True)):
        order.insert(place, axis)
    return c.permute(a, tuple(order))


@numpy_function("rollaxis", scalar=False, view=True)
def rollaxis(a, axis, start=0):
    """One axis moved back to before `start`."""
    a = array(a)
    axis = axis_of(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    order = [d for d in range(a.ndim) if d != axis]
    order.insert(start - 1 if axis < start else start, axis)
    return c.permute(a, tuple(order))


@numpy_function("squeeze", scalar=False, view=True, method=True)
def squeeze(a, axis=None):
    """Axes of size 1 removed."""
    a = array(a)
    axes = [d for d in range(a.ndim) if a.shape[d] == 1] if axis is None else axes_of(axis, a.ndim)
    if any(a.shape[d] != 1 for d in axes):
        raise NotHere("squeeze of an axis whose size is not one")
    return c.reshape(a, tuple(s for d, s in enumerate(a.shape) if d not in axes))


@numpy_function("expand_dims", scalar=False, view=True)
def expand_dims(a, axis):
    """New axes of size 1."""
    a = array(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = axes_of(axes, a.ndim + len(axes))
    sizes = iter(a.shape)
    return c.reshape(a, tuple(1 if d in places else next(sizes) for d in range(a.ndim + len(axes))))


def _at_least(n: int):
    def body(a):
        a = array(a)
        if a.ndim >= n:
            return a
        shapes = {
            (2, 0): (1, 1), (2, 1): (1, *a.shape), (1, 0): (1,), (3, 0): (1, 1, 1), (3, 1): (1, *a.shape, 1),
            (3, 2): (*a.shape, 1),
        }  # fmt: skip
        return c.reshape(a, shapes[n, a.ndim])

    body.__name__, body.__doc__ = f"atleast_{n}d", f"The array with {n} dimensions or more."
    numpy_function(body.__name__, scalar=False, view=True)(body)


for _n in (1, 2, 3):
    _at_least(_n)


@numpy_function("broadcast_to", scalar=False, view=True)
def broadcast_to(array_, shape):
    """The array repeated along new axes and those of size 1."""
    return c.expand(array(array_), shape_of(shape))


def _reversed(a: Any, axes: tuple[int, ...]) -> Any:
    return c.flip(a, axes)


@numpy_function("flip", scalar=False)
def flip(m, axis=None):
    """The order along axes reversed: a copy here, a view in NumPy."""
    m = array(m)
    return _reversed(m, axes_of(axis, m.ndim))


@numpy_function("flipud", scalar=False)
def flipud(m):
    """The rows in reverse."""
    return flip(m, 0)


@numpy_function("fliplr", scalar=False)
def fliplr(m):
    """The columns in reverse."""
    return flip(m, 1)


@numpy_function("rot90", scalar=False)
def rot90(m, k=1, axes=(0, 1)):
    """The plane of two axes turned by k right angles."""
    m = array(m)
    first, second = axes_of(tuple(axes), m.ndim)
    k = k % 4
    if k == 0:
        return c.clone(m)
    if k == 2:
        return _reversed(m, (first, second))
    turned = _reversed(m, (second,)) if k == 1 else m
    turned = swapaxes(turned, first, second)
    return turned if k == 1 else _reversed(turned, (second,))


@numpy_function("roll", scalar=False)
def roll(a, shift, axis=None):
    """Elements moved along, those beyond the end to the beginning."""
    a = array(a)
    if axis is None:
        return c.reshape(_rolled(flat(a), shift, 0), a.shape)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    pairs = (
        [(s, d) for s in shifts for d in axes] if 1 in (len(shifts), len(axes)) else list(zip(shifts, axes))
    )
    for by, along in pairs:
        a = _rolled(a, by, axis_of(along, a.ndim))
    return a


def _rolled(a: Any, by: Any, axis: int) -> Any:
    size = a.shape[axis]
    if size == 0:
        return c.clone(a)
    cut = size - by % size
    return c.cat([c.slice(a, axis, cut, size, 1), c.slice(a, axis, 0, cut, 1)], axis)


@numpy_function("tile", scalar=False)
def tile(A, reps):
    """The array repeated `reps` times, per axis."""
    a = array(A)
    counts = shape_of(reps)
    n = max(a.ndim, len(counts))
    shape, counts = (*([1] * (n - a.ndim)), *a.shape), (*([1] * (n - len(counts))), *counts)
    spread = tuple(x for size in shape for x in (1, size))
    wide = tuple(x for size, times in zip(shape, counts, strict=True) for x in (times, size))
    full = tuple(size * times for size, times in zip(shape, counts, strict=True))
    return c.clone(c.reshape(c.expand(c.reshape(a, spread), wide), full))


@numpy_function("repeat", scalar=False, method=True)
def repeat(a, repeats, axis=None):
    """Each element `repeats` times after another."""
    a = array(a)
    if isinstance(repeats, (tuple, list)) and len(repeats) == 1:
        (repeats,) = repeats
    if not isinstance(repeats, int):
        raise NotHere("repeat with a count for each element")
    if axis is None:
        a, axis = flat(a), 0
    axis = axis_of(axis, a.ndim)
    shape = a.shape
    wide = c.expand(
        c.reshape(a, (*shape[: axis + 1], 1, *shape[axis + 1 :])),
        (*shape[: axis + 1], repeats, *shape[axis + 1 :]),
    )
    return c.clone(c.reshape(wide, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])))


def _pairs(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, int):
        return [(pad_width, pad_width)] * ndim
    pairs = list(pad_width)
    if all(isinstance(p, int) for p in pairs):
        return [tuple(pairs) if len(pairs) == 2 else (pairs[0], pairs[0])] * ndim
    pairs = [tuple(p) if len(p) == 2 else (p[0], p[0]) for p in pairs]
    return pairs * ndim if len(pairs) == 1 else pairs


@numpy_function("pad", scalar=False)
def pad(array_, pad_width, mode="constant", *, constant_values=0):
    """The array in a frame: of a constant, of its edge, or of itself mirrored or repeated."""
    a = array(array_)
    pairs = _pairs(pad_width, a.ndim)
    if mode == "constant" and isinstance(constant_values, (int, float)):
        value = constant_values if a.dtype.category == 2 else int(constant_values)
        return c.constant_pad(a, tuple(pairs), bool(value) if a.dtype is dt.bool_ else value)
    if mode not in _PLACES:
        raise NotHere(f"pad with mode {mode!r}")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            size = a.shape[axis]
            places = _PLACES[mode](c.iota(before + size + after, -before, 1, dt.int64, a.device), size)
            a = _taken(a, places, axis)
    return a


_PLACES = {
    "edge": lambda i, n: c.minimum(c.maximum(i, 0), n - 1),
    "wrap": lambda i, n: c.remainder(i, n),
    "reflect": lambda i, n: _reflected(i, 2 * (n - 1) if n > 1 else 1),
    "symmetric": lambda i, n: _doubled(i, n),
}


def _reflected(i: Any, period: Any) -> Any:
    """0 1 2 1 0 1 ...: the edge once."""
    i = c.remainder(i, period)
    return c.minimum(i, c.add(c.neg(i), period))


def _doubled(i: Any, n: Any) -> Any:
    """0 1 2 2 1 0 0 ...: the edge twice."""
    i = c.remainder(i, 2 * n)
    return c.minimum(i, c.add(c.neg(i), 2 * n - 1))


def _taken(a: Any, places: Any, axis: int) -> Any:
    return indexing.getitem(a, (*([slice(None)] * axis), places))


def astype(x, dtype, copy=True):
    """The array in another dtype."""
    assert isinstance(dtype, DType)
    return cast(x, dtype) if x.dtype is not dtype else c.clone(x) if copy else x


astype_operator = make_operator("astype", astype)


@numpy_function("real", scalar=False, view=True)
def real(val):
    """The array itself, as it has no imaginary part."""
    return array(val)


@numpy_function("tril", scalar=False)
def tril(m, k=0):
    """What is at or below the k-th diagonal of the last two axes; zeros elsewhere."""
    return _triangle(m, lambda offset: c.le(offset, k))


@numpy_function("triu", scalar=False)
def triu(m, k=0):
    """What is at or above the k-th diagonal of the last two axes; zeros elsewhere."""
    return _triangle(m, lambda offset: c.ge(offset, k))


def _triangle(m: Any, keep: Any) -> Any:
    m = array(m)
    if m.ndim == 1:
        m = c.expand(c.reshape(m, (1, m.shape[0])), (m.shape[0], m.shape[0]))
    n, k = m.shape[-2:]
    rows = c.reshape(c.iota(n, 0, 1, dt.int64, m.device), (n, 1))
    columns = c.reshape(c.iota(k, 0, 1, dt.int64, m.device), (1, k))
    zero = False if m.dtype is dt.bool_ else 0
    return c.where(keep(c.sub(columns, rows)), m, zero)


@numpy_function("diagonal", view=True, scalar=False, method=True)
def diagonal(a, offset=0, axis1=0, axis2=1):
    """The diagonal of two axes, as the last axis."""
    a = array(a)
    return c.diagonal(a, offset, axis_of(axis1, a.ndim), axis_of(axis2, a.ndim))


@numpy_function("diag", scalar=False)
def diag(v, k=0):
    """The k-th diagonal of a matrix, or a matrix with this diagonal."""
    v = array(v)
    if v.ndim == 2:
        return c.clone(c.diagonal(v, k, 0, 1))
    if v.ndim != 1:
        raise NotHere("diag of an array that has neither 1 nor 2 dimensions")
    n = v.shape[0] + abs(k)
    line = c.constant_pad(v, ((max(-k, 0), max(k, 0)),), False if v.dtype is dt.bool_ else 0)
    column = c.reshape(line, (n, 1))
    rows = c.reshape(c.iota(n, 0, 1, dt.int64, v.device), (n, 1))
    columns = c.reshape(c.iota(n, 0, 1, dt.int64, v.device), (1, n))
    on = c.eq(c.sub(columns, rows), k)
    if k > 0:  # row i holds v[i]
        column = c.reshape(c.constant_pad(v, ((0, k),), False if v.dtype is dt.bool_ else 0), (n, 1))
    elif k < 0:
        column = c.reshape(line, (n, 1))
    return c.where(on, column, False if v.dtype is dt.bool_ else 0)


@numpy_function("trace", method=True)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    """The sum of the diagonal."""
    return reductions.sum(diagonal(a, offset, axis1, axis2), -1, dtype or promotion.sum_dtype(array(a).dtype))
