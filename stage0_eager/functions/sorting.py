"""Order: sort and functions that need it, searches in sorted sequences, and sets of values.

Input: tensors; NaN counts as the largest value, as in torch. Everything uses one core operator, sort. Where torch
returns a named tuple, so do these.
"""

from __future__ import annotations

import math

from stage0_eager.functions.index_checks import NAMES
from stage0_eager.functions.promotion import in_common
from stage0_eager.functions.results import ValuesIndices
from stage0_eager.functions.shape import narrow
from stage0_eager.functions.shape import select as select_
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim

# ---- sort and its parts --------------------------------------------------------------------------------------


@method
@operator
def sort(input, dim=-1, descending=False, stable=False):
    """(values, indices) in order along `dim`. Always stable: equal elements keep their order."""
    return ValuesIndices(*c.sort(input, wrap_dim(dim, input.ndim), bool(descending), bool(stable)))


@method
@operator
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices that sort along `dim`."""
    return c.sort(input, wrap_dim(dim, input.ndim), bool(descending), bool(stable))[1]


@method
@operator
def msort(input):
    """Sorted along the first dimension."""
    return c.sort(input, 0, False, False)[0]


@method
@operator
def topk(input, k, dim=-1, largest=True, sorted=True):
    """(values, indices) of the k largest (or smallest) along `dim`, in order."""
    dim = wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    parts = c.sort(input, dim, bool(largest), False)
    return ValuesIndices(*(c.contiguous(c.slice(p, dim, 0, k, 1)) for p in parts) if input.ndim else parts)


@method
@operator
def kthvalue(input, k, dim=-1, keepdim=False):
    """(values, indices) of the k-th smallest along `dim`, counted from 1."""
    dim = wrap_dim(dim, input.ndim)
    if not 1 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    return ValuesIndices(*map(c.contiguous, _at(c.sort(input, dim, False, False), dim, k - 1, keepdim)))


def _at(parts, dim, place, keepdim):
    if not parts[0].ndim:
        return ValuesIndices(*parts)
    pick = (lambda p: narrow(p, dim, place, 1)) if keepdim else (lambda p: select_(p, dim, place))
    return ValuesIndices(*map(pick, parts))


# ---- medians and quantiles -----------------------------------------------------------------------------------


def _median(input, dim, keepdim, ignore_nan):
    if dim is None:
        return median_of_vector(c.reshape(input, (input.numel(),)), ignore_nan)
    dim = wrap_dim(dim, input.ndim)
    if input.ndim and input.shape[dim] == 0:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    values, indices = c.sort(input, dim, False, False)
    if not input.ndim:
        return ValuesIndices(values, indices)
    middle = _middle(values, dim, ignore_nan)
    picked = [c.gather(p, dim, middle) for p in (values, indices)]
    if not keepdim:
        picked = [c.reshape(p, (*p.shape[:dim], *p.shape[dim + 1 :])) for p in picked]
    return ValuesIndices(*picked)


def _middle(values, dim, ignore_nan):
    """The place of the median in ordered values."""
    numbers = c.cast(c.logical_not(c.isnan(values)), dt.int64)
    count = c.sum(numbers, (dim,), True)
    middle = c.maximum(c.floor_divide(c.sub(count, 1), 2), 0)
    if ignore_nan:
        return middle
    # one NaN makes the median NaN: the first of them, which stands after the numbers
    return c.where(c.eq(count, values.shape[dim]), middle, count)


@operator
def median_of_vector(input, ignore_nan):
    """The median of a vector; its gradient is shared by all elements equal to it, as that of max()."""
    if input.shape[0] == 0:
        return c.full((), _of_nothing(input.dtype), input.dtype, input.device)
    values, _ = c.sort(input, 0, False, False)
    return c.reshape(c.gather(values, 0, _middle(values, 0, ignore_nan)), ())


def _of_nothing(dtype):
    """The median of no element: NaN, or where there is none what torch's cast of it gives."""
    return True if dtype is dt.bool_ else float("nan") if dtype.is_floating_point else dtype.limits[0]


def _shared(g, input, out):
    equal = c.logical_or(c.eq(input, out), c.logical_and(c.isnan(input), c.isnan(out)))
    return c.where(equal, c.div(g, c.sum(equal, (0,), False)), 0.0)


median_of_vector.derivative(input=_shared)


@method
@operator
def median(input, dim=None, keepdim=False):
    """The middle value, the lower of two; with `dim`, (values, indices). NaN if any is NaN."""
    return _median(input, dim, keepdim, False)


@method
@operator
def nanmedian(input, dim=None, keepdim=False):
    """As median, of what is not NaN."""
    return _median(input, dim, keepdim, True)


def _checked_q(name, input, q, interpolation):
    """q as a tensor of input's dtype. Raises RuntimeError for what torch refuses."""
    if input.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = c.full((), q, input.dtype, input.device)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    return q


def _quantile(name, input, q, dim, keepdim, interpolation, ignore_nan):
    q = _checked_q(name, input, q, interpolation)
    rank = input.ndim
    if dim is None:
        input, at = c.reshape(input, (input.numel(),)), 0
    else:
        at = wrap_dim(dim, rank)
        input = input if rank else c.reshape(input, (1,))
    values, place = _places_of(input, q, at, interpolation, ignore_nan)
    out = _read_between(values, place, at, interpolation)
    order = (at, *(d for d in range(out.ndim) if d != at))
    out = c.permute(out, order)  # q first
    kept = [1] * rank if dim is None else [1 if d == at else s for d, s in enumerate(input.shape[:rank])]
    rest = kept if keepdim else [] if dim is None else [s for d, s in enumerate(kept) if d != at]
    return c.reshape(out, (*([q.shape[0]] if q.ndim else []), *rest))


def _places_of(input, q, at, interpolation, ignore_nan):
    """(input sorted along `at`, the places to read there, one per q: no whole number between two)."""
    values, _ = c.sort(input, at, False, False)
    size = values.shape[at]
    count = c.sum(c.logical_not(c.isnan(values)), (at,), True)
    # the places to read, one per q along `at`, the other dimensions as the input's
    ranks = c.reshape(q, (*[1] * at, q.numel(), *[1] * (values.ndim - at - 1)))
    last = (
        c.maximum(c.sub(count, 1), 0) if ignore_nan else c.full(count.shape, size - 1, dt.int64, input.device)
    )
    place = c.mul(ranks, c.cast(last, input.dtype))
    if not ignore_nan:
        place = c.where(c.eq(count, size), place, float(size - 1))  # NaN, sorted last
    if interpolation in ("lower", "higher", "nearest"):
        place = {"lower": c.floor, "higher": c.ceil, "nearest": c.round}[interpolation](place)
    return values, place


def _read_between(values, place, at, interpolation):
    below = c.floor(place)
    weight = (
        c.full((), 0.5, values.dtype, values.device) if interpolation == "midpoint" else c.sub(place, below)
    )
    low = c.gather(values, at, c.cast(below, dt.int64))
    high = c.gather(values, at, c.cast(c.ceil(place), dt.int64))
    out = c.add(low, c.mul(weight, c.sub(high, low)))
    return c.where(c.eq(c.sub(high, low), 0), low, c.where(c.eq(weight, 0), low, out))  # no inf - inf


@method
@operator
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles q (0 to 1) over `dim` or all elements; a vector q gives a leading dimension. NaN if any is NaN."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@method
@operator
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """As quantile, of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# ---- searches ------------------------------------------------------------------------------------------------


@operator
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None):
    """Where in the sorted last dimension each value would go: before equal ones, or after them if `right`.

    By bisection: one gather per bit of the length. The leading dimensions of both must match, unless the sequence
    is a vector.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites")
    right = right or side == "right"
    if not sorted_sequence.ndim:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension")
    if not isinstance(input, Tensor):
        input = c.full((), input, sorted_sequence.dtype, sorted_sequence.device)
    shape = input.shape
    if sorted_sequence.ndim == 1:
        values = c.reshape(input, (input.numel(),))
    elif sorted_sequence.shape[:-1] == shape[:-1]:
        values = input
    else:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and "
            f"input value tensor {list(shape)}"
        )
    size = sorted_sequence.shape[-1]
    place = c.full(values.shape, 0, dt.int64, values.device)
    for bit in reversed(range(int(size).bit_length())):
        further = c.add(place, 1 << bit)
        there = c.gather(sorted_sequence, -1, c.sub(c.minimum(further, size), 1))
        beyond = c.logical_not(c.gt(there, values) if right else c.ge(there, values))  # so that NaN goes last
        place = c.where(c.logical_and(c.le(further, size), beyond), further, place)
    place = c.reshape(place, shape)
    return c.cast(place, dt.int32) if out_int32 else place


@operator
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """Which of the intervals between sorted boundaries each value is in."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@method
@operator
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among test_elements. NaN is in nothing."""
    if not isinstance(test_elements, Tensor):
        test_elements = c.full((), test_elements, dt.scalar_dtype(test_elements), elements.device)
    if not isinstance(elements, Tensor):
        elements = c.full((), elements, dt.scalar_dtype(elements), test_elements.device)
    for x in (elements, test_elements):
        if x.dtype is dt.bool_ or x.dtype.is_complex:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {NAMES[x.dtype]}")
    elements, test_elements = in_common(elements, test_elements)
    some = c.reshape(test_elements, (test_elements.numel(),))
    found = _is_one_of(elements, some) if some.shape[0] <= FEW else _is_in_order(elements, some)
    return c.logical_not(found) if invert else found


FEW = 32  # elements that are compared with each sooner than they are put in order


def _is_one_of(elements, some):
    return c.any(c.eq(c.reshape(elements, (*elements.shape, 1)), some), (elements.ndim,), False)


def _is_in_order(elements, some):
    """By bisection: whether an element is at the place where it would go."""
    nan = c.isnan(some) if some.dtype.is_floating_point else None
    if nan is not None:  # NaN has no place in an order: another one again, infinity if there is none
        some = c.where(nan, c.amin(c.where(nan, math.inf, some), (0,), True), some)
    among = c.sort(some, 0, False, False)[0]
    values = c.reshape(elements, (elements.numel(),))
    place = c.minimum(searchsorted(among, values), some.shape[0] - 1)
    found = c.reshape(c.eq(c.gather(among, 0, place), values), elements.shape)
    if nan is not None:
        found = c.logical_and(found, c.ne(c.amin(c.cast(nan, dt.uint8), (0,), False), 1))
    return found


# ---- sets of values ------------------------------------------------------------------------------------------


def _runs(rows, order, return_inverse, return_counts):
    """The first of each run of equal rows, (n, width); where each is among them; how often each occurs.

    `order` says where the rows come from, None: they are as they came.
    """
    size, width = rows.shape
    group, count = c.full((size,), 0, dt.int64, rows.device), min(size, 1)
    if size > 1:
        differ = c.ne(c.slice(rows, 0, 1, None, 1), c.slice(rows, 0, 0, size - 1, 1))
        changed = c.amax(c.cast(differ, dt.int64), (1,), False)
        group = c.cumsum(c.constant_pad(changed, ((1, 0),), 0), 0)
        count = select_(group, 0, -1).item() + 1
    places = c.expand(c.reshape(group, (size, 1)), (size, width))
    values = c.scatter(c.full((count, width), 0, rows.dtype, rows.device), 0, places, rows)
    inverse = group if order is None else c.scatter(group, 0, order, group)
    ones = c.full((size,), 1, dt.int64, rows.device)
    counts = c.scatter_add(c.full((count,), 0, dt.int64, rows.device), 0, group, ones)
    return values, (inverse if return_inverse else None), (counts if return_counts else None)


def _in_order(rows):
    """(the rows sorted by their first column, then by the second, ...; where they come from)."""
    size, width = rows.shape
    order = c.iota(size, 0, 1, dt.int64, rows.device)
    for at in reversed(range(width)):  # the last column first: each sort keeps the order of what is equal
        column = c.gather(select_(rows, 1, at), 0, order)
        order = c.gather(order, 0, c.sort(column, 0, False, True)[1])
    return c.gather(rows, 0, c.expand(c.reshape(order, (size, 1)), (size, width))), order


def _distinct(input, dim, ordered, return_inverse, return_counts):
    """What unique gives: of all elements, or of the parts along `dim`."""
    if dim is None:
        at, shape, rows = 0, (), c.reshape(input, (input.numel(), 1))
    else:
        at = wrap_dim(dim, input.ndim)
        others = tuple(d for d in range(input.ndim) if d != at)
        shape, width = tuple(input.shape[d] for d in others), math.prod(input.shape[d] for d in others)
        if width == 0:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
            )
        rows = c.reshape(c.permute(input, (at, *others)), (input.shape[at], width))
    rows, order = _in_order(rows) if ordered else (rows, None)
    values, inverse, counts = _runs(rows, order, return_inverse, return_counts)
    values = c.reshape(values, (values.shape[0], *shape))
    if at:
        values = c.permute(values, (*range(1, at + 1), 0, *range(at + 1, input.ndim)))
    if inverse is not None and dim is None:
        inverse = c.reshape(inverse, input.shape)
    out = tuple(r for r in (values, inverse, counts) if r is not None)
    return out if len(out) > 1 else values


@method
@operator
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct values in ascending order, or the distinct parts along `dim`; also where each is among them, and
    how often each occurs. Each NaN is distinct. The data decides the size.
    """
    return _distinct(input, dim, True, return_inverse, return_counts)


@method
@operator
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first of each run of equal elements of the flattened tensor, or of equal parts along `dim`."""
    return _distinct(input, dim, False, return_inverse, return_counts)
