"""Pooling over windows, by torch's names: max, average and power-average, in 1 to 3 dimensions.

Input: tensors (N, C, *sizes) or (C, *sizes). A window is reduced one dimension after another, each as a few slices
combined elementwise, so that compiled code fuses them. The index of the largest element is found in the same way.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from stage0_eager.derivatives.rules import zeros
from stage0_eager.functions.reductions import in_rows
from stage0_eager.functions.shape import in_format_of
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.symbolic import SymInt

# ---- geometry ---------------------------------------------------------------------------------------------------


def window_numbers(name, rank, kernel_size, stride, padding, dilation=1):
    """(kernel, stride, padding, dilation), one number per dimension each, checked."""
    kernel = _numbers(name, "kernel_size", kernel_size, rank)
    given = stride is not None and not (isinstance(stride, list) and not stride)
    stride = _numbers(name, "stride", stride, rank) if given else kernel
    padding, dilation = _numbers(name, "padding", padding, rank), _numbers(name, "dilation", dilation, rank)
    for what, least, values in (("kernel_size", 1, kernel), ("stride", 1, stride), ("dilation", 1, dilation)):
        if any(v < least for v in values):
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {list(values)}")
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} "
                f"and dilation={d}"
            )
    return kernel, stride, padding, dilation


def _numbers(name, what, value, rank):
    if isinstance(value, (int, SymInt)):
        return (value,) * rank
    value = tuple(value)
    if len(value) not in (1, rank):
        raise RuntimeError(
            f"{name}: {what} must either be a single int, or a tuple of {rank} ints, got {value}"
        )
    return value * rank if len(value) == 1 else value


def pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows: with ceil_mode also one that starts inside and reaches over the end."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def _check_rank(name, input, rank):
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(input.shape)}"
        )


def _sizes(name, input, numbers, ceil_mode):
    """The number of windows along each dimension. Raises RuntimeError where there is none."""
    rank = len(numbers[0])
    _check_rank(name, input, rank)
    before = tuple(input.shape[-rank:])
    windows: Any = zip(before, *numbers, strict=True)
    after = tuple(pooled_size(size, k, s, p, d, ceil_mode) for size, k, s, p, d in windows)
    if any(size < 1 for size in after):
        channels = input.shape[-rank - 1]
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (channels, *before)))}). Calculated output size: "
            f"({'x'.join(map(str, (channels, *after)))}). Output size is too small"
        )
    return after


def _parts(x, dim, count, kernel, stride, padding, dilation, fill):
    """For each place of a window along `dim`: that element of all `count` windows, as views of a padded tensor."""
    x = _bordered(x, dim, [(count, kernel, stride, padding, dilation)], fill)
    reach = (count - 1) * stride + 1
    stride = 1 if isinstance(count, int) and count == 1 else stride  # one window: no step that nothing uses
    return [c.slice(x, dim, i * dilation, i * dilation + reach, stride) for i in range(kernel)]


def _bordered(x, first, windows, fill):
    """`fill` around what the windows of dimensions first, first + 1, ... reach; x itself where they stay inside."""
    pads = [(0, 0)] * x.ndim
    for dim, (count, kernel, stride, padding, dilation) in enumerate(windows, start=first):
        over = (count - 1) * stride + dilation * (kernel - 1) + 1 - padding - x.shape[dim]
        pads[dim] = (padding, over if over > 0 else 0)
    return x if all(pair == (0, 0) for pair in pads) else c.constant_pad(x, tuple(pads), fill)


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else dtype.limits[0]


# ---- the largest element ------------------------------------------------------------------------------------------


def _max_gradient(g, input, out, kernel_size, stride, padding, dilation):
    rank = len(kernel_size)
    places = max_places(input, out, kernel_size, stride, padding, dilation)
    sizes = (*input.shape, *out.shape)
    if input.device.type == "cuda" and rank == 2 and all(type(n) is int for n in sizes):
        windows = list(zip(out.shape[-2:], kernel_size, stride, padding, dilation, strict=True))
        if math.prod(sizes) and all(spread == 1 for *_, spread in windows):
            return _gathered_gradient(g, input, places, windows)
    flat = _flat(zeros(input.meta), rank)
    added = c.scatter_add(flat, flat.ndim - 1, _flat(places, rank), _flat(g, rank))
    return c.reshape(added, input.shape)


def _gathered_gradient(g, input, places, windows):
    """The same for a GPU: each element asks the windows that it lies in whether it is their largest. A sum of a few
    numbers has no need of atomic additions, of zeros to add to, or of floats to add up halves in memory."""
    first = input.ndim - len(windows)
    sizes = input.shape[first:]
    along = [shaped(c.iota(n, 0, 1, dt.int32, input.device), i, len(sizes)) for i, n in enumerate(sizes)]
    own, places, total = row_major(along, sizes), c.cast(places, dt.int32), None
    wide = dt.float32 if input.dtype.itemsize == 2 else input.dtype
    for back in itertools.product(*[range(-(-kernel // step)) for _, kernel, step, *_ in windows]):
        hit = c.eq(_asked(places, first, sizes, windows, back, -1), own)
        given = c.cast(_asked(g, first, sizes, windows, back, 0), wide)
        mine = c.where(hit, given, c.full((), 0, wide, input.device))
        total = mine if total is None else c.add(total, mine)
    return c.cast(total, input.dtype)


def _asked(x, first, sizes, windows, back, fill):
    """For each element of an input of `sizes`: what `x` has of the last window that it lies in, or of one `back` steps
    before, per dimension; `fill` where there is none."""
    pads, thin, thick, last = [(0, 0)] * first, list(x.shape[:first]), list(x.shape[:first]), []
    for size, (count, kernel, step, border, _) in zip(sizes, windows, strict=True):
        before = -(-kernel // step) - 1
        length = before + -(-(size + border) // step)
        pads.append((before, length - before - count))
        thin, thick = [*thin, length, 1], [*thick, length, step]
        last.append(length * step)
    x = c.constant_pad(x, tuple(pads), fill)
    x = c.reshape(c.expand(c.reshape(x, tuple(thin)), tuple(thick)), (*x.shape[:first], *last))
    for i, (size, (_, kernel, step, border, _)) in enumerate(zip(sizes, windows, strict=True)):
        start = border + step * (-(-kernel // step) - 1 - back[i])
        x = c.slice(x, first + i, start, start + size)
    return x


@operator
def max_over_windows(input, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window; numbers per dimension. The gradient goes to the first largest one."""
    sizes = _sizes("max_pool", input, (kernel_size, stride, padding, dilation), ceil_mode)
    out, first = input, input.ndim - len(sizes)
    for i, window in enumerate(zip(sizes, kernel_size, stride, padding, dilation, strict=True)):
        parts = _parts(out, first + i, *window, _lowest(input.dtype))
        out = parts[0]
        for part in parts[1:]:
            out = c.maximum(out, part)
    return c.clone(out) if all(k == 1 for k in kernel_size) else out


max_over_windows.derivative(input=_max_gradient)


def max_places(input, out, kernel_size, stride, padding, dilation):
    """Where each window's largest element, `out`, lies: its row-major place among the last dimensions, int64.

    The first of equal ones; the last NaN, if there is any.
    """
    first = input.ndim - len(kernel_size)
    windows = list(zip(out.shape[first:], kernel_size, stride, padding, dilation, strict=True))
    parts: list[tuple[Any, tuple]] = [(_bordered(input, first, windows, _lowest(input.dtype)), ())]
    for dim, (count, kernel, step, _, spread) in enumerate(windows, start=first):
        parts = [
            (view, (*at, i))
            for part, at in parts
            for i, view in enumerate(_parts(part, dim, count, kernel, step, 0, spread, 0))
        ]
    # Of the places that hold the maximum the first has the highest code; of NaNs, which equal nothing, the last.
    small, n = dt.uint8 if len(parts) < 255 else dt.int32, len(parts)
    code: Any = None
    for k, (part, at) in enumerate(parts):
        hit = c.eq(part, out)
        for dim, (i, (count, _, step, border, spread)) in enumerate(
            zip(at, windows, strict=True), start=first
        ):
            # elsewhere the border, minus infinity, is a neighbour of what it stands for
            if border and spread > 1:
                start = c.iota(count, i * spread - border, step, dt.int64, input.device)
                inside = c.logical_and(c.ge(start, 0), c.lt(start, input.shape[dim]))
                hit = c.logical_and(hit, shaped(inside, dim, input.ndim))
        mine = c.mul(c.cast(hit, small), n - k)
        if input.dtype.is_floating_point:
            mine = c.add(mine, c.mul(c.cast(c.isnan(part), small), k + 1))
        code = mine if code is None else c.maximum(code, mine)
    number = c.sub(n, code)
    if input.dtype.is_floating_point:
        number = c.where(c.isnan(out), c.sub(code, 1), number)
    return _place_of_number(number, input, out, windows)


def _place_of_number(number, input, out, windows):
    """The row-major place among the last dimensions of what lies at `number` in its window, counted row-major."""
    first = input.ndim - len(windows)
    along, rest = {}, number
    for i, (count, kernel, step, border, spread) in reversed(list(enumerate(windows))):
        within = c.cast(c.remainder(rest, kernel), dt.int64) if kernel > 1 else 0
        rest = c.floor_divide(rest, kernel) if kernel > 1 else rest
        start = shaped(c.iota(count, -border, step, dt.int64, input.device), first + i, input.ndim)
        along[i] = c.add(start, within if kernel == 1 else c.mul(within, spread))
        if border:
            along[i] = c.maximum(along[i], 0)
            if spread > 1:  # a window may lie around all there is
                along[i] = c.minimum(along[i], input.shape[first + i] - 1)
    return c.contiguous(c.expand(row_major(along, input.shape[first:]), out.shape))


def row_major(along, sizes):
    """Places along each dimension as one place in row-major order."""
    flat = along[0]
    for i in range(1, len(sizes)):
        flat = c.add(c.mul(flat, sizes[i]), along[i])
    return flat


def shaped(vector, dim, ndim):
    """A vector along `dim`, to broadcast with tensors of `ndim` dimensions."""
    return c.reshape(vector, (*[1] * dim, vector.shape[0], *[1] * (ndim - dim - 1)))


def _flat(x, rank):
    """The last `rank` dimensions as one."""
    lead = tuple(x.shape[: x.ndim - rank])
    return c.reshape(x, (*lead, math.prod(x.shape[x.ndim - rank :])))


def taken(input, places, rank):
    """The elements at these row-major places among the last dimensions."""
    picked = c.gather(_flat(input, rank), input.ndim - rank, _flat(places, rank))
    return c.reshape(picked, places.shape)


def _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    name = f"max_pool{rank}d"
    _check_rank(name, input, rank)
    if input.dtype is dt.bool_:
        raise NotImplementedError(f'"{name}" not implemented for bool')
    kernel, stride, padding, dilation = window_numbers(name, rank, kernel_size, stride, padding, dilation)
    out = in_format_of(max_over_windows(input, kernel, stride, padding, dilation, ceil_mode), input)
    if not return_indices:
        return out
    return out, in_format_of(max_places(input, out, kernel, stride, padding, dilation), input)


@operator
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of (N, C, L) or (C, L); with return_indices also its place."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operator
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of (N, C, H, W) or (C, H, W); with return_indices also its place in H x W."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operator
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); with return_indices also its place."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_unpool(rank, input, indices, kernel_size, stride, padding, output_size):
    _check_rank(f"max_unpool{rank}d", input, rank)
    kernel, stride, padding, _ = window_numbers(f"max_unpool{rank}d", rank, kernel_size, stride, padding)
    before = tuple(input.shape[-rank:])
    after = tuple(
        (size - 1) * s - 2 * p + k for size, s, p, k in zip(before, stride, padding, kernel, strict=True)
    )
    if output_size is not None:
        wanted = tuple(output_size)[-rank:]
        if any(abs(size - usual) >= s for size, usual, s in zip(wanted, after, stride, strict=True)):
            raise ValueError(
                f"invalid output_size {wanted}: expected sizes that differ from {after} by less than stride {stride}"
            )
        after = wanted
    if indices.shape != input.shape:
        raise RuntimeError(
            f"Expected shape of indices to be: {list(input.shape)} but got: {list(indices.shape)}"
        )
    shape = (*input.shape[: input.ndim - rank], *after)
    blank = _flat(c.full(shape, 0, input.dtype, input.device), rank)
    return c.reshape(c.scatter(blank, blank.ndim - 1, _flat(indices, rank), _flat(input, rank)), shape)


@operator
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the elements of input where max_pool1d's indices say they were."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@operator
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the elements of input where max_pool2d's indices say they were."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@operator
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the elements of input where max_pool3d's indices say they were."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---- averages -----------------------------------------------------------------------------------------------------


def _slice_sums(total, first, windows):
    """The sum over windows, dimension by dimension, slice by slice."""
    for dim, (count, kernel, step, border, spread) in enumerate(windows, start=first):
        parts = _parts(total, dim, count, kernel, step, border, spread, 0)
        total = parts[0]
        for part in parts[1:]:
            total = c.add(total, part)
    return total


def _avg_pool(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
    name = f"avg_pool{rank}d"
    _check_rank(name, input, rank)
    kernel, stride, padding, dilation = window_numbers(name, rank, kernel_size, stride, padding)
    if rank == 3 and any(size < k for size, k in zip(input.shape[-3:], kernel, strict=True)):
        # torch's rule
        raise RuntimeError(f"input image {tuple(input.shape[-3:])} smaller than kernel size {kernel}")
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    sizes = _sizes(name, input, (kernel, stride, padding, dilation), ceil_mode)
    first = input.ndim - rank
    x = summable(input)
    apart = kernel == stride and not any(padding) and divides(input.shape[first:], kernel)
    if apart and math.prod(kernel) >= 16:  # fewer elements are added up faster slice by slice
        total = block_sums(x, sizes, kernel)
    else:
        total = _slice_sums(x, first, zip(sizes, kernel, stride, padding, dilation, strict=True))
    if divisor_override is not None:
        divisor = divisor_override
    elif ceil_mode or (any(padding) and not count_include_pad):
        divisor = _window_lengths(input, sizes, kernel, stride, padding, count_include_pad)
    else:
        divisor = math.prod(kernel)
    out = c.div(total, divisor)
    return out if out.dtype is input.dtype else c.cast(out, input.dtype)


def summable(x):
    return c.cast(x, dt.float32) if x.dtype.name in ("float16", "bfloat16") else x


def divides(sizes, kernel):
    return all(isinstance(size, int) and size % k == 0 for size, k in zip(sizes, kernel, strict=True))


def block_sums(x, sizes, kernel):
    """Sums over windows that lie side by side: the dimensions split, then a reduction."""
    first = x.ndim - len(sizes)
    split = tuple(n for pair in zip(sizes, kernel, strict=True) for n in pair)
    blocks = c.reshape(x, (*x.shape[:first], *split))
    return c.sum(blocks, tuple(range(first + 1, blocks.ndim, 2)), False)


def _window_lengths(input, sizes, kernel, stride, padding, count_include_pad):
    """How many elements each window averages: those inside, or inside the padded input."""
    lengths = None
    for i, (count, k, s, p) in enumerate(zip(sizes, kernel, stride, padding, strict=True)):
        dim = input.ndim - len(sizes) + i
        start = c.iota(count, -p, s, dt.int64, input.device)
        end = c.minimum(c.add(start, k), input.shape[dim] + (p if count_include_pad else 0))
        length = shaped(c.sub(end, start if count_include_pad else c.maximum(start, 0)), dim, input.ndim)
        lengths = length if lengths is None else c.mul(lengths, length)
    return c.cast(lengths, input.dtype) if input.dtype.is_floating_point else lengths


@operator
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The average of each window of (N, C, L) or (C, L)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@operator
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The average of each window of (N, C, H, W) or (C, H, W); or its sum divided by divisor_override."""
    out = _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return in_format_of(out, input)


@operator
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The average of each window of (N, C, D, H, W) or (C, D, H, W); or its sum divided by divisor_override."""
    input = in_rows(input)
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(rank, input, norm_type, kernel_size, stride, ceil_mode):
    kernel, stride, padding, _ = window_numbers(f"lp_pool{rank}d", rank, kernel_size, stride, 0)
    mean = _avg_pool(rank, c.pow(input, norm_type), kernel, stride, padding, ceil_mode, True)
    mean = in_format_of(mean, input) if rank == 2 else mean
    # a mean of 0 has no gradient; a root of a negative one is NaN, as in torch
    there = c.where(c.ne(mean, 0), mean, 0.0)
    return c.pow(c.mul(there, math.prod(kernel)), 1.0 / norm_type)


@operator
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x ** norm_type) ** (1 / norm_type) over each window of (N, C, L)."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@operator
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x ** norm_type) ** (1 / norm_type) over each window of (N, C, H, W)."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@operator
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x ** norm_type) ** (1 / norm_type) over each window of (N, C, D, H, W)."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
