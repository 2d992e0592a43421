"""NumPy's functions that put arrays together or take one apart.

Input: sequences of tensors. Views in NumPy (split) are views here.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.numpy_api import promotion, shapes
from stage0_eager.numpy_api.rows import (
    NotHere,
    array,
    axis_of,
    cast,
    flat,
    kind_of,
    numpy_function,
    on_one_device,
)
from stage0_eager.table.core import core as c


def _together(arrays: Any, dtype: Any) -> list[Any]:
    parts = list(arrays)
    wanted = dtype or promotion.result_type(map(kind_of, map(array, parts)))
    return [cast(p, wanted) for p in on_one_device([array(p) for p in parts])[1]]


@numpy_function("concatenate", "concat", scalar=False)
def concatenate(arrays, axis=0, *, dtype=None):
    """Arrays one after another along an axis; flattened where that is None."""
    parts = _together(arrays, dtype)
    if axis is None:
        parts, axis = [flat(p) for p in parts], 0
    if any(p.ndim == 0 for p in parts):
        raise NotHere("zero-dimensional arrays cannot be concatenated")
    return c.cat(parts, axis_of(axis, parts[0].ndim))


@numpy_function("stack", scalar=False)
def stack(arrays, axis=0, *, dtype=None):
    """Arrays of one shape along a new axis."""
    parts = _together(arrays, dtype)
    if len({p.shape for p in parts}) != 1:
        raise NotHere("all input arrays must have the same shape")
    at = axis_of(axis, parts[0].ndim + 1)
    return c.cat([c.reshape(p, (*p.shape[:at], 1, *p.shape[at:])) for p in parts], at)


@numpy_function("vstack", scalar=False)
def vstack(tup, *, dtype=None):
    """Arrays on top of each other, as rows."""
    return concatenate([_rows(a) for a in tup], 0, dtype=dtype)


def _rows(a: Any) -> Any:
    a = array(a)
    return a if a.ndim > 1 else c.reshape(a, (1, a.numel()))


@numpy_function("hstack", scalar=False)
def hstack(tup, *, dtype=None):
    """Arrays side by side: along the first axis of vectors, the second of others."""
    parts = [_line(a) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


def _line(a: Any) -> Any:
    a = array(a)
    return a if a.ndim else c.reshape(a, (1,))


@numpy_function("dstack", scalar=False)
def dstack(tup):
    """Arrays behind each other, along the third axis."""
    parts = []
    for a in map(array, tup):
        shape = {0: (1, 1, 1), 1: (1, *a.shape, 1), 2: (*a.shape, 1)}.get(a.ndim, a.shape)
        parts.append(c.reshape(a, shape))
    return concatenate(parts, 2)


@numpy_function("column_stack", scalar=False)
def column_stack(tup):
    """Vectors as the columns of a matrix."""
    parts = [array(a) for a in tup]
    return concatenate([p if p.ndim > 1 else c.reshape(p, (p.numel(), 1)) for p in parts], 1)


@numpy_function("append", scalar=False)
def append(arr, values, axis=None):
    """Values behind an array."""
    return concatenate([arr, values], axis)


@numpy_function("array_split", scalar=False, view=True)
def array_split(ary, indices_or_sections, axis=0):
    """Views of the pieces; the first ones are longer where it does not come out even."""
    a = array(ary)
    axis = axis_of(axis, a.ndim)
    size = a.shape[axis]
    if isinstance(indices_or_sections, (tuple, list)):
        edges = [0, *indices_or_sections, size]
    else:
        n = indices_or_sections
        whole, extra = divmod(int(size), n)
        edges = [0]
        for i in range(n):
            edges.append(edges[-1] + whole + (i < extra))
    return [c.slice(a, axis, low, high, 1) for low, high in zip(edges, edges[1:])]


@numpy_function("split", scalar=False, view=True)
def split(ary, indices_or_sections, axis=0):
    """Views of equal pieces, or of those between the given places."""
    a = array(ary)
    if isinstance(indices_or_sections, int) and a.shape[axis_of(axis, a.ndim)] % indices_or_sections:
        raise NotHere("array split does not result in an equal division")
    return array_split(a, indices_or_sections, axis)


@numpy_function("hsplit", scalar=False, view=True)
def hsplit(ary, indices_or_sections):
    """split along the columns."""
    return split(ary, indices_or_sections, 0 if array(ary).ndim == 1 else 1)


@numpy_function("vsplit", scalar=False, view=True)
def vsplit(ary, indices_or_sections):
    """split along the rows."""
    return split(ary, indices_or_sections, 0)


@numpy_function("broadcast_arrays", scalar=False, view=True)
def broadcast_arrays(args):
    """Arrays under their common shape; capture gives them as one tuple."""
    from stage_contracts.core_metas import broadcast_shapes

    parts = [array(a) for a in args]
    shape = broadcast_shapes(*(p.shape for p in parts))
    return tuple(shapes.broadcast_to(p, shape) for p in parts)
