"""Reads and writes x[...] by NumPy's rules, and the functions that pick elements.

Input: tensors and index expressions. Stage 0's own indexing does the work. This file has what NumPy does differently: a
single element is a copy, a negative step is a reversal, an int beside index arrays counts as one, an index out of range
is an error.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import indexing
from stage0_eager.numpy_api.rows import (
    NotHere,
    array,
    axis_of,
    cast,
    fitted,
    flat,
    make_operator,
    numpy_function,
    operands,
)
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING
from stage_contracts.symbolic import SymInt


def _items(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def _is_array(item: Any) -> bool:
    return isinstance(item, (Tensor, list))


def _is_scalar(item: Any) -> bool:
    return isinstance(item, Tensor) and item.ndim == 0 and item.dtype is not dt.bool_


def _without_ellipsis(items: list, rank: int) -> list:
    """The items with as many whole slices for the Ellipsis (or at the end) as there are axes left."""
    used = sum(0 if i is None or i is Ellipsis else i.ndim if _mask(i) else 1 for i in items)
    if used > rank:
        raise NotHere("too many indices for array")
    places = [k for k, i in enumerate(items) if i is Ellipsis]
    if len(places) > 1:
        raise NotHere("an index can only have a single ellipsis")
    at = places[0] if places else len(items)
    return [*items[:at], *[slice(None)] * (rank - used), *items[at + 1 :]]


def _place(item: Any, x: Any, axis: int, beside_arrays: bool) -> Any:
    """An int of an index; beside index arrays it is one of them."""
    if not -x.shape[axis] <= item < x.shape[axis]:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {x.shape[axis]}")
    return c.full((), item, dt.int64, x.device) if beside_arrays else item


def _index_array(item: Any) -> Any:
    """An array or list of an index, as int64 or as the mask it is."""
    if isinstance(item, bool):
        raise NotHere("a bool as an index")
    if isinstance(item, list):
        item = array(item) if item else c.full((0,), 0, dt.int64, "cpu")
        if item.dtype.category == FLOATING:
            raise NotHere("floats as an index")
        return item
    if not isinstance(item, Tensor):
        raise NotHere(f"a {type(item).__name__} as an index")
    if item.dtype.category == FLOATING:
        raise NotHere("floats as an index")
    # of uint8 too, which torch takes for a mask
    return item if item.dtype is dt.bool_ else cast(item, dt.int64)


def _normal(x: Any, index: Any) -> tuple[Any, tuple, tuple[int, ...]]:
    """(x, an index by our own rules, the axes of the result to reverse) for one of NumPy's."""
    items = _items(index)
    beside_arrays = any(_is_array(i) and not _is_scalar(i) for i in items)
    out: list[Any] = []
    axis, result_axis, reversed_axes = 0, 0, []
    for item in _without_ellipsis(items, x.ndim):
        if item is None:
            out.append(None)
            result_axis += 1
            continue
        if isinstance(item, slice):
            item, backwards = _forward(item, x.shape[axis])
            if backwards:
                reversed_axes.append(result_axis)
            result_axis += 1
        elif isinstance(item, (int, SymInt)) and not isinstance(item, bool):
            item = _place(item, x, axis, beside_arrays)
        else:
            item = _index_array(item)
        axis += item.ndim if _mask(item) else 1
        out.append(item)
    if reversed_axes and any(isinstance(i, Tensor) for i in out):
        raise NotHere("a negative step beside index arrays")
    return x, tuple(out), tuple(reversed_axes)


def _mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype is dt.bool_


def _forward(item: slice, size: Any) -> tuple[slice, bool]:
    """A slice with a positive step that has the same elements, and whether they come in reverse."""
    if item.step is None or item.step > 0:
        return item, False
    start, stop, step = item.indices(int(size))
    count = len(range(start, stop, step))
    if not count:
        return slice(0, 0, 1), False
    last = start + (count - 1) * step
    return slice(last, start + 1, -step), True


def _getitem(x, index):
    """x[index]: a view for ints, slices, None and Ellipsis; a copy for arrays and for a lone element."""
    x, items, backwards = _normal(x, index)
    out = indexing.getitem(x, items)
    if backwards:
        return c.flip(out, backwards)
    alone = out.ndim == 0 and not any(i is Ellipsis for i in _items(index))
    return c.clone(out) if alone and not any(isinstance(i, Tensor) for i in items) else out


def _setitem(x, index, value):
    """x[index] = value, cast to the array's dtype."""
    x, items, backwards = _normal(x, index)
    if backwards:
        raise NotHere("an assignment through a negative step")
    if isinstance(value, (list, tuple)):
        value = array(value)
    if isinstance(value, Tensor):
        value = cast(value, x.dtype)
    else:
        value = fitted(value, x.dtype)
    indexing.setitem(x, items, value)


getitem = make_operator("getitem", _getitem)
setitem = make_operator("setitem", _setitem, mutates=("x",))


def _copyto(dst, src):
    """Write src, broadcast and cast, into dst."""
    src = array(src) if not isinstance(src, Tensor) else src
    return c.copy_(dst, src if src.shape == dst.shape else c.expand(src, dst.shape))


copyto = make_operator("copyto", _copyto, mutates=("dst",))


def _wrapped(index: Any, size: Any) -> Any:
    return c.where(c.lt(index, 0), c.add(index, size), index)


@numpy_function("take", method=True)
def take(a, indices, axis=None, *, mode="raise"):
    """The elements at `indices` along an axis, or of the flattened array."""
    a = array(a)
    if axis is None:
        a, axis = flat(a), 0
    axis = axis_of(axis, a.ndim)
    places = cast(array(indices), dt.int64) if _is_array(indices) else c.full((), indices, dt.int64, a.device)
    if mode == "wrap":
        places = c.remainder(places, a.shape[axis])
    elif mode == "clip":
        places = c.minimum(c.maximum(places, 0), a.shape[axis] - 1)
    return indexing.getitem(a, (*([slice(None)] * axis), places))


@numpy_function("take_along_axis", scalar=False)
def take_along_axis(arr, indices, axis=-1):
    """Along an axis, the elements at places that are given for each line."""
    a, places = array(arr), cast(array(indices), dt.int64)
    if axis is None:
        a, axis = flat(a), 0
    axis = axis_of(axis, a.ndim)
    if a.ndim != places.ndim:
        raise NotHere("`indices` and `arr` must have the same number of dimensions")
    sizes = [
        p if d == axis else (p if s == 1 else s)
        for d, (p, s) in enumerate(zip(places.shape, a.shape, strict=True))
    ]
    places = c.expand(_wrapped(places, a.shape[axis]), tuple(sizes))
    whole = tuple(a.shape[d] if d == axis else s for d, s in enumerate(sizes))
    return c.gather(c.expand(a, whole), axis, places)


@numpy_function("choose", scalar=False)
def choose(a, choices):
    """From several arrays, the element of the one that `a` names."""
    a = array(a)
    picked = operands(*choices)
    out = picked[-1]
    for k in range(len(picked) - 2, -1, -1):
        out = c.where(c.le(a, k), picked[k], out)
    return out


@numpy_function("select", scalar=False)
def select(condlist, choicelist, default=0):
    """The choice of the first condition that holds, else `default`."""
    *choices, out = operands(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        out = c.where(array(condition), choice, out)
    return out
