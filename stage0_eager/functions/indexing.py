"""x[...] read and written: ints, slices, None, Ellipsis, integer arrays and boolean masks, by torch's rules.

Input: a tensor and an index expression. The basic part becomes views; the tensors in it become one gather (or one
scatter) over the indexed dimensions flattened into one, which is all that advanced indexing is.
"""

from __future__ import annotations

import numpy as np

from stage0_eager.functions import inplace
from stage0_eager.functions.shape import SELECTED, builtin_sum, select, unsqueeze
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import quick_view
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, is_traced
from stage_contracts import dtype as dt
from stage_contracts.core_metas import broadcast_shapes
from stage_contracts.symbolic import SymInt


@operator
def getitem(input, index):
    """Views for ints, slices, None and Ellipsis; a copy as soon as a tensor, list or mask is among them.

    Where tensors stand side by side their broadcast dimensions take that place; with a slice or None between them
    they come first. Unlike NumPy's, an int beside a tensor is applied before it, so it never separates tensors.
    Raises IndexError for what is out of range, or for a mask of another shape than what it covers.
    """
    out, arrays = basic(input, index, flat_masks=True)
    if arrays:
        return read(out, arrays)
    return out if out is not input else c.reshape(input, input.shape)


@operator
def setitem(input, index, value):
    """input[index] = value: `value` is broadcast to what the index names, cast, and written to input's storage."""
    part, arrays = basic(input, index, masks=_is_plain(value))
    if not isinstance(value, Tensor):
        value = c.full((), value, input.dtype, input.device)
    if any(i.ndim for _, i in arrays) and not _fills(input, index, value):
        check_destination(input, value)
    if arrays:
        inplace.write(part, written(part, arrays, value))
        return
    if part is input:
        part = c.reshape(input, input.shape)
    inplace.write(part, _without_leading_ones(value, part.ndim))


setitem.mutates = ("input",)


@getitem.quickly
def _getitem(input, index):
    """Ints and slices as one view; on the tape they go step by step, so that each step has its rule."""
    # In one piece: x[0] is to cost no more than the view, and a call of a part of this costs a tenth of it.
    kind = type(index)
    data = input._data
    if kind is int and type(data) is np.ndarray and data.ndim:
        try:
            return quick_view(select, data[index, ...], (input, 0, index), SELECTED)
        except IndexError:  # the body says it in torch's words
            pass
    elif type(data) is np.ndarray and not (input.requires_grad and STATE.grad_enabled):
        items = index if kind is tuple else (index,)
        basic_ = [type(item) is int or (type(item) is slice and _forward(item)) for item in items]
        if kind in (tuple, slice) and all(basic_) and len(items) <= input.ndim:
            try:
                return quick_view(getitem, data[(*items, Ellipsis)], (input, index))
            except IndexError:
                pass
    return getitem.run(input, index)


def _forward(item):
    return item.step is None or (type(item.step) is int and item.step > 0)


def check_destination(input, value):
    """Raises RuntimeError where what tensors of indices name would be written with a value of another dtype."""
    if value.dtype is not input.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{input.dtype.name} for the destination and {value.dtype.name} for the source."
        )


def _fills(input, index, value):
    """Whether one number is written through a mask, which casts it as a slice does."""
    return value.numel() == 1 and any(
        isinstance(i, Tensor) and i.dtype is dt.bool_ for i in _items(input, index)
    )


def _is_plain(value):
    return not isinstance(value, Tensor) or value.ndim == 0


def _without_leading_ones(value, rank):
    extra = value.ndim - rank
    if extra > 0 and all(size == 1 for size in value.shape[:extra]):
        return c.reshape(value, value.shape[extra:])
    return value


# ---- the index expression ------------------------------------------------------------------------------------


def basic(input, index, masks=False, flat_masks=False):
    """The view that the basic part of an index names, and the (dimension, tensor) pairs left to apply to it.

    A mask becomes the integer arrays of its true places, one per dimension; a lone one stays a mask if `masks`. With
    `flat_masks`, the dimensions that a mask covers become one, perhaps of a copy: for what is only read.
    """
    items = _items(input, index)
    keep_mask = masks and builtin_sum(isinstance(i, Tensor) for i in items) == 1
    out, dim = input, 0
    arrays: list[tuple[int, Tensor]] = []
    for item in items:
        if item is None:
            out, dim = unsqueeze(out, dim), dim + 1
        elif isinstance(item, slice):
            out, dim = _sliced(out, dim, item), dim + 1
        elif isinstance(item, Tensor) and item.dtype is dt.bool_:
            out, item = _covered(out, dim, item, flat_masks)
            out, dim = _mask(out, dim, item, arrays, keep_mask)
        elif isinstance(item, Tensor):
            arrays.append((dim, item))
            dim += 1
        else:
            out = select(out, dim, item)
    return out, arrays


def _items(input, index):
    """The items of an index, with a whole slice for each dimension that the Ellipsis (or the end) leaves."""
    items = [_normal(item, input.device) for item in (index if isinstance(index, tuple) else (index,))]
    used = builtin_sum(_uses(i) for i in items)
    if used > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim}")
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    return [*items[:at], *([slice(None)] * (input.ndim - used)), *items[at + 1 :]]


def _sliced(input, dim, item):
    if item.step == 0:
        raise ValueError("slice step cannot be zero")
    if item == slice(None):
        return input
    return c.slice(input, dim, item.start, item.stop, 1 if item.step is None else item.step)


def _normal(item, device):
    """One item of an index as None, Ellipsis, a slice, an int, a bool tensor or an int64 tensor."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return c.full((), bool(item), dt.bool_, device)
    if isinstance(item, (int, SymInt, np.integer)):
        return item
    if isinstance(item, (list, np.ndarray)):
        array = np.asarray(item)
        item = _listed(
            array.astype(np.int64) if array.size == 0 or array.dtype.kind == "i" else array, device
        )
    if not isinstance(item, Tensor):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None, lists and integer or bool tensors are valid indices "
            f"(got {type(item).__name__})"
        )
    if item.dtype in (dt.bool_, dt.int64):
        return item
    if item.dtype is dt.uint8:  # torch's old masks
        return c.ne(item, 0)
    if item.dtype.is_floating_point:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return c.cast(item, dt.int64)


def _listed(array, device):
    """A list's tensor; while tracing it is made of constants, as a graph has no place for data of its own."""
    if STATE.interpreter is None or array.dtype.kind not in "bi" or not array.size:
        item = Tensor(array)
        return item if item.device == device else c.to_device(item, device)
    dtype = dt.dtype_of(array.dtype)
    return c.reshape(c.cat([c.full((1,), v, dtype, device) for v in array.ravel().tolist()], 0), array.shape)


def _uses(item):
    """How many dimensions of the input an item is for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is dt.bool_ else 1


def _covered(out, dim, mask, flat):
    """The tensor and a mask that fits it, of at least one dimension; of one if `flat`."""
    if mask.ndim == 0:  # a scalar mask keeps everything or nothing, along a new dimension
        return unsqueeze(out, dim), c.reshape(mask, (1,))
    for i, size in enumerate(mask.shape):
        if size != out.shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of the indexed tensor "
                f"{list(out.shape)} at index {dim + i}"
            )
    if flat and mask.ndim > 1:
        shape = (*out.shape[:dim], mask.numel(), *out.shape[dim + mask.ndim :])
        return c.reshape(out, shape), c.reshape(mask, (mask.numel(),))
    return out, mask


def _mask(out, dim, mask, arrays, keep):
    if keep:
        arrays.append((dim, mask))
    else:
        places = c.nonzero(mask)
        for i in range(mask.ndim):
            column = c.slice(places, 1, i, i + 1, 1)
            arrays.append((dim + i, c.reshape(column, (places.shape[0],))))
    return out, dim + mask.ndim


# ---- the tensors in it ---------------------------------------------------------------------------------------


def read(x, arrays):
    """x indexed by the tensors of `arrays`, a list of (dimension, int64 tensor)."""
    moved, flat, (before, shape, after) = _flattened(x, arrays)
    picked = c.gather(moved, len(before), _along(flat, moved.shape, len(before)))
    return c.reshape(picked, (*before, *shape, *after))


def written(x, arrays, value, accumulate=False):
    """A copy of x in which what `arrays` name is `value` (or has it added, repeats adding up)."""
    value = value if value.dtype is x.dtype else c.cast(value, x.dtype)
    if arrays[0][1].dtype is dt.bool_:  # one mask and one value: no need to know how many are true
        ((dim, mask),) = arrays
        mask = c.reshape(mask, (*mask.shape, *([1] * (x.ndim - dim - mask.ndim))))
        return c.where(mask, value, x)
    moved, flat, (before, shape, after) = _flattened(x, arrays)
    places = _along(flat, moved.shape, len(before))
    target = (*before, *shape, *after)
    value = c.reshape(c.expand(_without_leading_ones(value, len(target)), target), places.shape)
    move = c.scatter_add if accumulate else c.scatter
    out = move(moved, len(before), places, value)
    order = _order(x.ndim, arrays)
    out = c.reshape(out, tuple(x.shape[d] for d in order))
    return c.permute(out, tuple(order.index(d) for d in range(x.ndim)))


def _order(rank, arrays):
    """The dimensions with the indexed ones together: where they are if they are neighbours, else in front."""
    dims = [d for d, _ in arrays]
    rest = [d for d in range(rank) if d not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return [*rest[:at], *dims, *rest[at:]]


def _flattened(x, arrays):
    """x with the indexed dimensions as one, the places in it (1-d), and the shapes before, of, and after them."""
    dims = [d for d, _ in arrays]
    try:
        shape = broadcast_shapes(*(i.shape for _, i in arrays))
    except RuntimeError:
        seen = ", ".join(str(list(i.shape)) for _, i in arrays)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {seen}"
        ) from None
    order = _order(x.ndim, arrays)
    at = order.index(dims[0])
    before = tuple(x.shape[d] for d in order[:at])
    after = tuple(x.shape[d] for d in order[at + len(dims) :])
    if len(arrays) == 1:
        flat, total = arrays[0][1], x.shape[dims[0]]
        moved = x
    else:
        flat, total = _linear(x, arrays)
        moved = c.reshape(c.permute(x, tuple(order)), (*before, total, *after))
    return moved, c.reshape(c.expand(flat, shape), (_product(shape),)), (before, shape, after)


def _linear(x, arrays):
    """Several index tensors as one into their dimensions in row-major order; what is out of range stays so."""
    flat, total, good = None, 1, None
    for dim, index in arrays:
        size = x.shape[dim]
        _check(index, dim, size)
        inside = c.logical_and(c.ge(index, -size), c.lt(index, size))
        good = inside if good is None else c.logical_and(good, inside)
        index = c.where(c.lt(index, 0), c.add(index, size), index)
        flat = index if flat is None else c.add(c.mul(flat, size), index)
        total = total * size
    return c.where(good, flat, total), total


def _check(index, dim, size):
    """Name the dimension where the data can be seen; gather and scatter refuse a bad place in any case."""
    if is_traced(index) or not index.numel() or index.device.type != "cpu":
        return
    for bad in (int(index._data.min()), int(index._data.max())):
        if not -size <= bad < size:
            raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _along(flat, shape, dim):
    """Places in dimension `dim` spread over the other dimensions of `shape`, as gather and scatter want them."""
    count = flat.shape[0]
    flat = c.reshape(flat, (*([1] * dim), count, *([1] * (len(shape) - dim - 1))))
    return c.expand(flat, (*shape[:dim], count, *shape[dim + 1 :]))


def _product(sizes):
    total = 1
    for size in sizes:
        total = total * size
    return total
