"""Pooling to a given size, by torch's names: windows from floor(i * size / out) to ceil((i + 1) * size / out).

Input: tensors (N, C, *sizes) or (C, *sizes) and the sizes wanted (None keeps one). Where they divide, windows lie side
by side and a reduction does; else elements are gathered window by window.
"""

from __future__ import annotations

import math

from stage0_eager.functions.nn.pooling import (
    block_sums,
    divides,
    max_over_windows,
    max_places,
    row_major,
    shaped,
    summable,
    taken,
)
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.functions.reductions import in_rows
from stage0_eager.functions.shape import in_format_of
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.symbolic import SymInt


def _output_sizes(name, input, output_size, rank):
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}"
        )
    wanted = (
        (output_size,) * rank
        if isinstance(output_size, (int, SymInt)) or output_size is None
        else tuple(output_size)
    )
    if len(wanted) != rank:
        raise RuntimeError(f"{name}(): output_size must be {rank} sizes, got {list(wanted)}")
    have = tuple(input.shape[-rank:])
    wanted = tuple(size if want is None else want for want, size in zip(wanted, have, strict=True))
    if any(size < 0 for size in wanted):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(wanted)}"
        )
    for i in range(input.ndim - rank, input.ndim):
        if isinstance(input.shape[i], int) and input.shape[i] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {i} being empty"
            )
    return wanted


def _windows(size, count, device):
    """(start (count, 1), end (count, 1), width of the widest) of each window along a dimension."""
    i = c.reshape(c.iota(count, 0, 1, dt.int64, device), (count, 1))
    # there are no windows, but no division by zero
    count = 1 if isinstance(count, int) and count == 0 else count
    start = c.floor_divide(c.mul(i, size), count)
    end = c.floor_divide(c.add(c.mul(c.add(i, 1), size), count - 1), count)
    spans = [-((i + 1) * -size // count) - i * size // count for i in range(count)]
    return start, end, max(spans, default=1)


def _gathered(x, dim, index):
    """(..., size, ...) and an index (count, width) give (..., count, width, ...)."""
    count, width = index.shape
    flat = shaped(c.reshape(index, (count * width,)), dim, x.ndim)
    shape = (*x.shape[:dim], count * width, *x.shape[dim + 1 :])
    picked = c.gather(x, dim, c.expand(flat, shape))
    return c.reshape(picked, (*x.shape[:dim], count, width, *x.shape[dim + 1 :]))


def _average_along(x, dim, count):
    start, end, width = _windows(x.shape[dim], count, x.device)
    index = c.add(start, c.iota(width, 0, 1, dt.int64, x.device))
    inside = c.reshape(c.lt(index, end), (count, width, *[1] * (x.ndim - dim - 1)))
    parts = _gathered(x, dim, c.minimum(index, x.shape[dim] - 1))
    lengths = c.reshape(c.cast(c.sub(end, start), x.dtype), (count, *[1] * (x.ndim - dim - 1)))
    return c.div(c.sum(c.where(inside, parts, 0), (dim + 1,), False), lengths)


def _adaptive_avg_pool(rank, input, output_size):
    wanted = _output_sizes(f"adaptive_avg_pool{rank}d", input, output_size, rank)
    first = input.ndim - rank
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"adaptive_avg_pool{rank}d" not implemented for {input.dtype.name}')
    x = summable(in_rows(input) if rank == 3 else input)
    if all(wanted) and divides(input.shape[first:], wanted):
        kernel = tuple(size // n for size, n in zip(input.shape[first:], wanted, strict=True))
        x = c.div(block_sums(x, wanted, kernel), math.prod(kernel))
    else:
        for i, count in enumerate(wanted):
            x = _average_along(x, first + i, count)
    out = x if x.dtype is input.dtype else c.cast(x, input.dtype)
    return in_format_of(out, input) if rank == 2 else out


@operator
def adaptive_avg_pool1d(input, output_size):
    """(N, C, L) averaged over output_size windows."""
    return _adaptive_avg_pool(1, input, output_size)


@operator
def adaptive_avg_pool2d(input, output_size):
    """(N, C, H, W) averaged over output_size (one number, or two) windows; None keeps a size."""
    return _adaptive_avg_pool(2, input, output_size)


@operator
def adaptive_avg_pool3d(input, output_size):
    """(N, C, D, H, W) averaged over output_size (one number, or three) windows; None keeps a size."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(rank, input, output_size, return_indices):
    needs_floating(f"adaptive_max_pool{rank}d", input)
    wanted = _output_sizes(f"adaptive_max_pool{rank}d", input, output_size, rank)
    first = input.ndim - rank
    if all(wanted) and divides(input.shape[first:], wanted):
        kernel = tuple(size // n for size, n in zip(input.shape[first:], wanted, strict=True))
        apart = (kernel, kernel, (0,) * rank, (1,) * rank)
        out = max_over_windows(input, *apart, False)
        places = max_places(input, out, *apart) if return_indices else None
    else:
        places = _uneven_max_places(input, wanted)
        out = taken(input, places, rank)
    if rank == 2:
        out, places = in_format_of(out, input), places if places is None else in_format_of(places, input)
    return (out, places) if return_indices else out


def _uneven_max_places(input, wanted):
    """Row-major places of the largest elements of windows that differ in width."""
    rank = len(wanted)
    first = input.ndim - rank
    x, indices = input, []
    for i, count in enumerate(wanted):  # each dimension becomes (count, width)
        start, end, width = _windows(input.shape[first + i], count, input.device)
        index = c.add(start, c.iota(width, 0, 1, dt.int64, input.device))
        indices.append(c.minimum(index, c.sub(end, 1)))  # the last one again where a window is narrower
        x = _gathered(x, first + 2 * i, indices[i])
    widths = tuple(x.shape[first + 1 :: 2])
    order = (*range(first), *range(first, x.ndim, 2), *range(first + 1, x.ndim, 2))
    x = c.contiguous(c.permute(x, order))  # of open sizes: whether the windows are a view is hard to say
    x = c.reshape(x, (*input.shape[:first], *wanted, math.prod(widths)))
    chosen = c.argmax(x, x.ndim - 1, False)
    along = {}
    for i in reversed(range(rank)):
        count, width = wanted[i], widths[i]
        within = c.remainder(chosen, width)
        chosen = c.floor_divide(chosen, width)
        table = c.reshape(indices[i], (count * width,))
        flat = c.add(within, shaped(c.iota(count, 0, width, dt.int64, input.device), first + i, input.ndim))
        total = math.prod(flat.shape)
        along[i] = c.reshape(c.gather(table, 0, c.reshape(flat, (total,))), flat.shape)
    return c.contiguous(row_major(along, input.shape[first:]))


@operator
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest element of each of output_size windows of (N, C, L)."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


@operator
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest element of each of output_size (one number, or two) windows of (N, C, H, W)."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


@operator
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest element of each of output_size (one number, or three) windows of (N, C, D, H, W)."""
    return _adaptive_max_pool(3, input, output_size, return_indices)
