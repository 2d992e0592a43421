"""Elements picked and placed by index tensors and masks: index_*, take, masked_*, scatter, nonzero, bincount.

Input: tensors, and int64 (or int32) indices or bool masks. All are compositions of gather, scatter, scatter_add and
scatter_reduce. A function whose result size is the number of true elements runs eagerly only.
"""

from __future__ import annotations

from stage0_eager.functions import indexing
from stage0_eager.functions.index_checks import NAMES, OUTSIDE, expect_fits, not_negative, size_along
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import broadcast_shapes, wrap_dim

# ---- along one dimension -------------------------------------------------------------------------------------


def _vector(name, index):
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got {index.ndim} dimensions")
    return c.reshape(_long(name, index), (index.numel(),))


def _long(name, index):
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index, got {index.dtype.name}")
    return index if index.dtype is dt.int64 else c.cast(index, dt.int64)


@method
@operator
def index_select(input, dim, index):
    """The positions of `dim` that a vector of indices names, in its order; a copy."""
    dim, index = wrap_dim(dim, input.ndim), _vector("index_select", index)
    outside = RuntimeError if dim == 1 else IndexError  # torch has a loop of its own for dimension 1
    index = not_negative(index, size_along(input, dim), outside, OUTSIDE)
    if not input.ndim:
        return c.reshape(c.gather(c.reshape(input, (1,)), 0, index), ())
    return indexing.read(input, [(dim, index)])


def _into(name, move, input, dim, index, source):
    """A copy of input in which the slices of `dim` that index names are moved to from source."""
    dim, index = wrap_dim(dim, input.ndim), _vector(name, index)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) {input.dtype.name} and "
            f"(source) {source.dtype.name}"
        )
    want = (*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :]) if input.ndim else (1,)
    if source.shape != want:
        if not (source.ndim == 0 and want == (1,)):
            kind = IndexError if name == "index_copy" else RuntimeError
            raise kind(f"{name}(): expected a source of shape {list(want)}, got {list(source.shape)}")
        source = c.reshape(source, want)
    whole = input if input.ndim else c.reshape(input, (1,))
    return c.reshape(move(whole, dim, indexing._along(index, whole.shape, dim), source), input.shape)


@method
@operator
def index_add(input, dim, index, source, *, alpha=1):
    """A copy of input with alpha * source added to the slices of `dim` that index names; repeats add up."""
    if alpha != 1:
        source = c.mul(source, alpha)
    index = not_negative(_vector("index_add", index), size_along(input, dim), RuntimeError, OUTSIDE)
    return _into("index_add", c.scatter_add, input, dim, index, source)


@method
@operator
def index_copy(input, dim, index, source):
    """A copy of input with the slices of `dim` that index names replaced by source's."""
    if index.dtype is dt.int32:
        raise RuntimeError("index_copy_(): Expected a long tensor for index, but got Int")
    index = not_negative(_vector("index_copy", index), size_along(input, dim), IndexError, OUTSIDE)
    return _into("index_copy", c.scatter, input, dim, index, source)


@method
@operator
def index_fill(input, dim, index, value):
    """A copy of input with the slices of `dim` that index names filled with a value."""
    wrapped = wrap_dim(dim, input.ndim)
    if index.dtype is not dt.int64:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, got {index.dtype.name}")
    if index.ndim > 1:
        raise RuntimeError("Index is supposed to be a vector")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    value = (
        c.cast(value, input.dtype)
        if isinstance(value, Tensor)
        else c.full((), value, input.dtype, input.device)
    )
    # where, not a scatter: a slice named twice takes the value, and gives it a gradient, once
    none = c.full(input.shape[wrapped : wrapped + 1] or (1,), False, dt.bool_, input.device)
    named = _into(
        "index_fill", c.scatter, none, 0, index, c.full((index.numel(),), True, dt.bool_, input.device)
    )
    shape = tuple(-1 if d == wrapped else 1 for d in range(input.ndim))
    return c.where(c.reshape(named, shape), value, input)


@method
@operator
def index_put(input, indices, values, accumulate=False):
    """A copy of input after input[indices] = values; with accumulate, added, repeats adding up."""
    indexing.check_destination(input, values)
    view, arrays = indexing.basic(input, tuple(slice(None) if i is None else i for i in indices))
    if not arrays:
        raise RuntimeError("index_put: expected at least one index tensor")
    return indexing.written(view, arrays, values, accumulate)


@method
@operator
def take(input, index):
    """Elements by their place in the flattened tensor, in the shape of index."""
    if index.dtype is not dt.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {NAMES[index.dtype]}")
    flat, where = c.reshape(input, (input.numel(),)), c.reshape(index, (index.numel(),))
    return c.reshape(c.gather(flat, 0, where), index.shape)


@method
@operator
def take_along_dim(input, indices, dim=None):
    """Elements of `dim` by place, the other dimensions broadcast; of the flattened tensor without `dim`."""
    indices = _long("take_along_dim", indices)
    if dim is None:
        return take(c.reshape(input, (input.numel(),)), c.reshape(indices, (indices.numel(),)))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, input.ndim)
    common = broadcast_shapes(*((*s[:dim], 1, *s[dim + 1 :]) for s in (input.shape, indices.shape)))
    spread = lambda x: c.expand(x, (*common[:dim], x.shape[dim], *common[dim + 1 :]))  # noqa: E731
    return c.gather(spread(input), dim, spread(indices))


# ---- scatter with values and reductions ----------------------------------------------------------------------


@method
@operator
def scatter(input, dim, index, src, *, reduce=None):
    """A copy of input with out[index[i][j]][j] = src[i][j] for dim 0; src may be a number. reduce: add, multiply."""
    dim, index = wrap_dim(dim, input.ndim), _long("scatter", index)
    if not isinstance(src, Tensor):
        src = c.expand(c.full((), src, input.dtype, input.device), index.shape)
    _fits("scatter", input, dim, index, src)
    index = not_negative(index, size_along(input, dim), RuntimeError, OUTSIDE)
    if reduce is None:
        return c.scatter(input, dim, index, src)
    if reduce == "add":
        return c.scatter_add(input, dim, index, src)
    if reduce == "multiply":
        return c.scatter_reduce(input, dim, index, src, "prod")
    raise RuntimeError("reduce argument must be either add or multiply.")


_NEUTRAL = {
    "sum": lambda d: 0,
    "mean": lambda d: 0,
    "prod": lambda d: 1,
    "amax": lambda d: float("-inf") if d.is_floating_point else d.limits[0] if d is not dt.bool_ else False,
    "amin": lambda d: float("inf") if d.is_floating_point else d.limits[1] if d is not dt.bool_ else True,
}


@method
@operator
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """A copy of input with src reduced into the places that index names: sum, prod, mean, amax or amin.

    Without include_self the old values at those places do not count.
    """
    dim, index = wrap_dim(dim, input.ndim), _long("scatter_reduce", index)
    if reduce not in _NEUTRAL:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _fits("scatter_reduce", input, dim, index, src)
    index = not_negative(index, size_along(input, dim), RuntimeError, OUTSIDE)
    start = input
    if not include_self:
        neutral = c.full((), _NEUTRAL[reduce](input.dtype), input.dtype, input.device)
        start = c.scatter(input, dim, index, c.expand(neutral, index.shape))
    if reduce not in ("sum", "mean"):
        return c.scatter_reduce(start, dim, index, src, reduce)
    total = c.scatter_add(start, dim, index, src)
    if reduce == "sum":
        return total
    ones = c.full(index.shape, 1, input.dtype, input.device)
    count = c.scatter_add(c.full(input.shape, int(include_self), input.dtype, input.device), dim, index, ones)
    count = c.maximum(count, 1)
    return c.div(total, count) if input.dtype.is_floating_point else c.floor_divide(total, count)


def _fits(name, input, dim, index, src):
    """index may be smaller than src everywhere, and smaller than input but along dim."""
    if not (index.ndim == src.ndim == input.ndim):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    expect_fits(input, dim, index, src)
    for d, size in enumerate(index.shape):
        if size > src.shape[d] or (d != dim and size > input.shape[d]):
            raise RuntimeError(
                f"{name}: Expected index {list(index.shape)} to be smaller than self {list(input.shape)} apart from "
                f"dimension {dim} and to be smaller size than src {list(src.shape)}"
            )


# ---- masks and what the data decides -------------------------------------------------------------------------


def _check_mask(name, mask):
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"{name}: expected BoolTensor for mask, got {mask.dtype.name}")


@method
@operator
def masked_select(input, mask):
    """The elements where a broadcast mask is true, as a vector. Its size depends on data: eager only."""
    _check_mask("masked_select", mask)
    shape = broadcast_shapes(input.shape, mask.shape)
    input, mask = c.expand(input, shape), c.expand(mask, shape)
    return indexing.getitem(
        input if shape else c.reshape(input, (1,)), mask if shape else c.reshape(mask, (1,))
    )


@method
@operator
def masked_scatter(input, mask, source):
    """A copy of input with its elements where mask is true replaced by source's, in order."""
    _check_mask("masked_scatter", mask)
    if source.dtype is not input.dtype:
        raise RuntimeError("masked_scatter: expected self and source to have same dtypes")
    shape = broadcast_shapes(input.shape, mask.shape)
    mask = (
        c.reshape(c.expand(mask, shape), (-1,))
        if 0 not in shape
        else c.full((0,), False, dt.bool_, mask.device)
    )
    place = c.where(mask, c.sub(c.cumsum(mask, 0), 1), 0)
    flat = c.reshape(c.expand(input, shape), mask.shape)
    if mask.numel() == 0:
        return c.clone(c.reshape(flat, shape))
    picked = c.gather(c.reshape(source, (source.numel(),)), 0, place)
    return c.reshape(c.where(mask, picked, flat), shape)


def _places(input):
    """A row for each; of a number, which has no dimensions, a row is empty."""
    return c.nonzero(input) if input.ndim else c.slice(c.nonzero(c.reshape(input, (1,))), 1, 0, 0, 1)


@method
@operator
def nonzero(input, *, as_tuple=False):
    """The places of nonzero elements: a row each, or one vector per dimension. Eager only."""
    if not as_tuple:
        return _places(input)
    places = c.nonzero(input if input.ndim else c.reshape(input, (1,)))
    return tuple(
        c.reshape(c.slice(places, 1, d, d + 1, 1), (places.shape[0],)) for d in range(places.shape[1])
    )


def _as_condition(mask):
    """torch's old masks, of uint8, as bool."""
    if mask.dtype is not dt.uint8:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {NAMES[mask.dtype]}"
        )
    return c.ne(mask, 0)


@operator
def where(condition, input=None, other=None):
    """input where condition holds, else other. Of a condition alone: the places where it holds, as nonzero has them."""
    if input is not None and other is not None:
        for number, beside in ((input, other), (other, input)):
            if type(number) is int and isinstance(beside, Tensor):  # other numbers decide the result's dtype
                dt.check_number(number, beside.dtype)
        if condition.dtype is not dt.bool_:
            condition = _as_condition(condition)
        return c.where(condition, input, other)
    if input is not None or other is not None:
        raise TypeError("where: expected a condition alone, or condition, input and other")
    return nonzero(condition, as_tuple=True)


@method
@operator
def argwhere(input):
    """As nonzero, a row for each place. Eager only."""
    return _places(input)


@method
@operator
def bincount(input, weights=None, minlength=0):
    """How often each of 0, 1, ... occurs in a vector, or the sum of the weights there. Eager only."""
    if input.ndim != 1 or input.dtype.is_floating_point or input.dtype is dt.bool_:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    length = minlength
    if input.numel():
        if c.amin(input, (0,)).item() < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        length = max(length, c.amax(input, (0,)).item() + 1)
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    places = c.cast(input, dt.int64)
    if weights is None:
        weights = c.full(input.shape, 1, dt.int64, input.device)
    elif weights.dtype is not dt.float32:
        weights = c.cast(weights, dt.float64)
    return c.scatter_add(c.full((length,), 0, weights.dtype, input.device), 0, places, weights)


@operator
def unravel_index(indices, shape):
    """The places of flat indices in an array of `shape`, one tensor per dimension."""
    if indices.dtype.is_floating_point or indices.dtype is dt.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype.name}")
    places = []
    for size in reversed((shape,) if isinstance(shape, int) else tuple(shape)):
        places.append(c.remainder(indices, size))
        indices = c.floor_divide(indices, size)
    return tuple(reversed(places))
