"""Public view and shape functions, by torch's names: bodies over the core views and movements.

Input: tensors. Views share storage as in torch; the variadic method forms (x.view(2, 3)) are in tensor_methods.py.
"""

from __future__ import annotations

from functools import cache, lru_cache, reduce
from typing import Any

from numpy import ndarray

from stage0_eager.functions.index_checks import OUTSIDE, check_fits, long_index, not_negative, size_along
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import quick_view
from stage0_eager.table.numpy_numbers import in_python
from stage0_eager.table.operator import Operator, operator
from stage0_eager.tensor import method
from stage_contracts import core_metas, layouts
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.layouts import order_in_memory
from stage_contracts.memory_format import channels_last_of, inverse, laid_out
from stage_contracts.symbolic import SymInt, statically_known_true
from stage_contracts.unbacked import expect


@operator
def reshape(input, shape):
    """The elements in row-major order under a new shape; a view where strides allow, else a copy."""
    return c.reshape(input, tuple(shape))


@reshape.quickly
def _reshape(input, shape):
    return c.reshape.eager(input, tuple(shape))


@operator
def view(input, shape):
    """As reshape, but raises where only a copy would do."""
    target = core_metas.infer_shape(tuple(in_python(shape)), input.numel())
    possible = (layouts.view_strides(input.meta, target, holds) for holds in (statically_known_true, bool))
    if all(strides is None for strides in possible):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
    return c.reshape(input, target)


@operator
def permute(input, dims):
    """Dimensions in another order."""
    return c.permute(input, tuple(dims))


@method
@operator
def transpose(input, dim0, dim1):
    """Two dimensions swapped."""
    return c.permute(input, _swapped(input.ndim, dim0, dim1))


@cache  # few ranks, few pairs: 0.8 µs less
def _swapped(rank, dim0, dim1):
    order = list(range(rank))
    a, b = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    if rank:
        order[a], order[b] = order[b], order[a]
    return tuple(order)


@method
@operator
def t(input):
    """Transpose of a matrix; a vector or scalar is returned as a view."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return c.permute(input, tuple(reversed(range(input.ndim))))


@operator
def expand(input, size):
    """Size-1 and new leading dimensions repeated, as a view; -1 keeps a size."""
    return c.expand(input, tuple(size))


@method
@operator
def broadcast_to(input, size):
    """As expand."""
    return c.expand(input, tuple(size))


@method
@operator
def unsqueeze(input, dim):
    """A new dimension of size 1 at `dim`."""
    at = wrap_dim(dim, input.ndim + 1)
    return c.reshape(input, (*input.shape[:at], 1, *input.shape[at:]))


@method
@operator
def squeeze(input, dim=None):
    """Dimensions of size 1 removed: all of them, or those named that have size 1."""
    if dim is None:
        chosen = set(range(input.ndim))
    else:
        chosen = {wrap_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim)}
    return c.reshape(input, tuple(s for i, s in enumerate(input.shape) if i not in chosen or s != 1))


@method
@operator
def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions start_dim..end_dim merged into one."""
    if input.ndim == 0:
        return c.reshape(input, (1,))
    first, last = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return (
        c.reshape(input, (*input.shape[:first], -1, *input.shape[last + 1 :]))
        if input.numel()
        else c.reshape(
            input, (*input.shape[:first], _product(input.shape[first : last + 1]), *input.shape[last + 1 :])
        )
    )


def _product(sizes):
    total = 1
    for s in sizes:
        total = total * s
    return total


@method
@operator
def narrow(input, dim, start, length):
    """`length` elements of `dim` from `start` on, as a view."""
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if type(start) is not int or type(length) is not int:
        for holds in (start >= 0, length >= 0, start <= size, start + length <= size):
            expect(holds)
    start = start + size if start < 0 else start
    if not (0 <= start <= size and 0 <= length <= size - start):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return c.slice(input, dim, start, start + length, 1)


@method
@operator
def select(input, dim, index):
    """One position of `dim`, which disappears; a view."""
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    index = index + size if index < 0 else index
    part = c.slice(input, dim, index, index + 1, 1)
    return c.reshape(part, (*input.shape[:dim], *input.shape[dim + 1 :]))


def _select_input(g, input_meta, dim, index):
    dim = wrap_dim(dim, input_meta.ndim)
    size = input_meta.shape[dim]
    index = index + size if index < 0 else index
    g = c.reshape(g, (*input_meta.shape[:dim], 1, *input_meta.shape[dim + 1 :]))
    pads = tuple((index, size - index - 1) if i == dim else (0, 0) for i in range(input_meta.ndim))
    return c.constant_pad(g, pads, 0.0)


# One entry on the tape, in eager only: to a tracer select stays a slice and a reshape, views that every pass knows.
SELECTED = Operator("select", "", body=select.body).derivative(input=_select_input)


@select.quickly
def _select(input, dim, index):
    """One view instead of two: 6 µs less when recorded."""
    data = input._data
    rank = data.ndim
    plain = type(data) is ndarray and type(index) is int and type(dim) is int and -rank <= dim < rank
    if not plain or not -data.shape[dim] <= index < data.shape[dim]:
        return select.run(input, dim, index)
    return quick_view(select, data[_at(dim % rank, index)], (input, dim, index), SELECTED)


@lru_cache(maxsize=4096)
def _at(dim, index):
    """x[:, :, index, ...]; the Ellipsis keeps the result of a 1-d array a view."""
    return (*([slice(None)] * dim), index, Ellipsis)


@operator
def flip(input, dims):
    """Order reversed along `dims`; a copy."""
    dims = (dims,) if isinstance(dims, int) else dims
    return c.flip(input, tuple(wrap_dim(d, input.ndim) for d in dims))


@operator
def cat(tensors, dim=0):
    """Tensors one after another along `dim`. Beside tensors of more dimensions, one of shape (0,) gives only its
    dtype."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if any(t.ndim != tensors[0].ndim for t in tensors):
        kept = [t for t in tensors if t.ndim != 1 or t.shape[0] != 0]
        dtype = reduce(dt.promote, [t.dtype for t in tensors])
        tensors = [t if t.dtype is dtype else c.cast(t, dtype) for t in kept]
    return c.cat(tensors, wrap_dim(dim, tensors[0].ndim))


@operator
def stack(tensors, dim=0):
    """Tensors of one shape side by side along a new dimension."""
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for other in tensors[1:]:
        if other.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} and {list(other.shape)}"
            )
    return c.cat([unsqueeze(x, dim) for x in tensors], wrap_dim(dim, tensors[0].ndim + 1))


@method
@operator
def split(tensor, split_size_or_sections, dim=0):
    """Pieces of `dim`: of one size (the last may be smaller), or of the sizes given. Views."""
    dim = wrap_dim(dim, tensor.ndim)
    size = tensor.shape[dim]
    if isinstance(split_size_or_sections, SymInt) or (
        isinstance(size, SymInt) and isinstance(split_size_or_sections, int)
    ):
        step: Any = split_size_or_sections  # how many pieces there are is asked, their sizes stay open
        count = max(int(-(-size // step)), 1)
        sections: list[Any] = [step] * (count - 1) + [size - step * (count - 1)]
    elif isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        if step < 0 or (not step and size):
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got {step} and {size}")
        sections = [min(step, size - at) for at in range(0, size, step or 1)] or [0]
    else:
        sections = list(split_size_or_sections)
        if builtin_sum(sections) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size}, got {sections}"
            )
    pieces: list[Any] = []
    at: Any = 0
    for length in sections:
        if type(length) is not int:
            for holds in (length >= 0, length <= size, at + length <= size):
                expect(holds)
        pieces.append(c.slice(tensor, dim, at, at + length, 1))
        at += length
    return tuple(pieces)


def builtin_sum(values):
    total = 0
    for v in values:
        total = total + v
    return total


@method
@operator
def chunk(input, chunks, dim=0):
    """At most `chunks` pieces of equal size (the last may be smaller). Views."""
    if chunks < 1:
        raise RuntimeError("chunk expects `chunks` to be greater than 0")
    size = input.shape[wrap_dim(dim, input.ndim)]
    if size == 0:  # as many pieces as asked for, none of them with an element
        return tuple(split(input, [0] * chunks, dim))
    return split(input, max(-(-size // chunks), 1), dim)


@method
@operator
def gather(input, dim, index):
    """out[i][j] = input[index[i][j]][j] for dim 0."""
    dim, index = wrap_dim(dim, input.ndim), long_index("gather", index)
    check_fits("gather", input, dim, index)
    return c.gather(input, dim, not_negative(index, size_along(input, dim), RuntimeError, OUTSIDE))


@method
@operator
def scatter_add(input, dim, index, src):
    """A copy of input with src added at the places index names; repeats add up."""
    dim, index = wrap_dim(dim, input.ndim), long_index("scatter_add", index)
    check_fits("scatter_add", input, dim, index, src)
    return c.scatter_add(input, dim, not_negative(index, size_along(input, dim), RuntimeError, OUTSIDE), src)


@method
@operator
def clone(input, *, memory_format=None):
    """A copy in new storage, laid out as input is, or as the memory format says."""
    if memory_format is None or memory_format.name == "preserve_format":
        return c.clone(input)
    out = contiguous(input, memory_format=memory_format)
    return c.clone(out) if laid_out(input.meta, memory_format) else out


@method
@operator
def contiguous(input, *, memory_format=None):
    """Row-major, or laid out as the memory format says; input itself when it already is."""
    if memory_format is None:
        return input if input.meta.is_contiguous else c.contiguous(input)
    order = memory_format.order(input.ndim)
    return input if laid_out(input.meta, memory_format) else _laid_out(input, order)


def _laid_out(input, order):
    """A copy whose dimensions lie in memory in this order; None: row-major."""
    if order is None:
        return c.contiguous(input)
    return c.permute(c.contiguous(c.permute(input, order)), inverse(order))


@operator
def in_layout_of(input, other):
    """A copy whose dimensions lie in memory in the order of `other`'s, which has as many; where that is row-major
    `input` itself."""
    if other.meta.is_contiguous:
        return input
    return c.clone(_laid_out(input, order_in_memory(other.meta)))


def in_format_of(out, input):
    """`out` with its channels last in memory if those of `input` are."""
    form = channels_last_of(input.meta)
    if form is None or input.ndim != out.ndim or laid_out(out.meta, form):
        return out
    return c.clone(_laid_out(out, form.order(out.ndim)))


@method
@operator
def detach(input):
    """The same storage, cut off the tape."""
    return c.detach(input)


@operator
def to_device(input, device, non_blocking=False):
    """On another device; input itself when it is there. non_blocking: as `Tensor.to` has it."""
    return input if input.device == device else c.to_device(input, device, non_blocking)


@method
@operator
def tril(input, diagonal=0):
    """The lower triangle of the last two dimensions; zero elsewhere."""
    return c.where(_below("tril", input, diagonal), input, _zero(input))


@method
@operator
def triu(input, diagonal=0):
    """The upper triangle of the last two dimensions; zero elsewhere."""
    return c.where(_below("triu", input, diagonal - 1), _zero(input), input)


def _zero(input):
    return False if input.dtype is dt.bool_ else 0


def _below(name, input, diagonal):
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    rows, columns = input.shape[-2:]
    i = c.reshape(c.iota(rows, 0, 1, dt.int64, input.device), (rows, 1))
    j = c.iota(columns, 0, 1, dt.int64, input.device)
    return c.le(j, c.add(i, diagonal))


@method
@operator
def unflatten(input, dim, sizes):
    """One dimension as several whose product it is; one of `sizes` may be -1. A view where strides allow."""
    dim = wrap_dim(dim, input.ndim)
    sizes = tuple(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        sizes = core_metas.infer_shape(sizes, input.shape[dim])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({input.shape[dim]}) in the input tensor"
        ) from None
    return c.reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


@method
@operator
def expand_as(input, other):
    """Expanded to other's shape."""
    return c.expand(input, other.shape)


@method
@operator
def view_as(input, other):
    """A view with other's shape."""
    return view(input, other.shape)


@method
@operator
def reshape_as(input, other):
    """Reshaped to other's shape."""
    return c.reshape(input, other.shape)


@method
@operator
def ravel(input):
    """As one dimension; a view where strides allow."""
    return c.reshape(input, (input.numel(),))
