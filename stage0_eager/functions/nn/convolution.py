"""conv1d/2d/3d and conv_transpose1d/2d/3d, by torch's names: arguments made uniform, one core operator, the bias.

Input: tensors (N, C, *sizes), or (C, *sizes) for one image, and numbers per dimension or one number for all.
"""

from __future__ import annotations

from stage0_eager.functions.in_float32 import in_float32, is_half_on_cpu
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts.symbolic import SymInt


@operator
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """input (N, C, L) or (C, L) with weight (O, C / groups, K); `padding` may be "same" or "valid"."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@operator
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """input (N, C, H, W) or (C, H, W) with weight (O, C / groups, KH, KW); `padding` may be "same" or "valid"."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@operator
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """input (N, C, D, H, W) or (C, D, H, W) with weight (O, C / groups, KD, KH, KW)."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


@operator
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv1d: input (N, C, L) with weight (C, O / groups, K)."""
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@operator
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv2d: input (N, C, H, W) with weight (C, O / groups, KH, KW)."""
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@operator
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv3d: input (N, C, D, H, W) with weight (C, O / groups, KD, KH, KW)."""
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolve(rank, input, weight, bias, stride, padding, dilation, groups):
    _check(f"conv{rank}d", rank, input, weight)
    stride, dilation = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    x = input if input.ndim == rank + 2 else c.reshape(input, (1, *input.shape))
    if isinstance(padding, str):
        x, padding = _pad_by_name(x, weight, padding, stride, dilation)
    padding = per_dimension("padding", padding, rank)
    how = (stride, padding, dilation, False, (0,) * rank, groups)
    return _finish(x, how, input, weight, bias, weight.shape[0], rank)


def _transpose(rank, input, weight, bias, stride, padding, output_padding, groups, dilation):
    _check(f"conv_transpose{rank}d", rank, input, weight)
    if isinstance(padding, str):
        raise TypeError(f"conv_transpose{rank}d(): argument 'padding' must be tuple of ints, not str")
    stride, dilation = per_dimension("stride", stride, rank), per_dimension("dilation", dilation, rank)
    padding = per_dimension("padding", padding, rank)
    extra = per_dimension("output_padding", output_padding, rank)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding={extra}, "
            f"stride={stride}, dilation={dilation}"
        )
    x = input if input.ndim == rank + 2 else c.reshape(input, (1, *input.shape))
    how = (stride, padding, dilation, True, extra, groups)
    return _finish(x, how, input, weight, bias, weight.shape[1] * groups, rank)


def _finish(x, how, input, weight, bias, channels, rank):
    """The convolution, bias added, and the batch dimension taken away again where there was none."""
    if bias is None:
        out = c.convolution(x, weight, *how)
    else:
        if bias.ndim != 1 or bias.shape[0] != channels:
            raise RuntimeError(
                f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {channels} "
                f"elements, but got bias of size {list(bias.shape)} instead"
            )
        if bias.dtype is not input.dtype:
            raise RuntimeError(
                f"Input type ({input.dtype.name}) and bias type ({bias.dtype.name}) should be the same"
            )
        add = _sum_in_float32 if is_half_on_cpu(x) else _sum
        out = add(x, weight, c.reshape(bias, (1, channels, *[1] * rank)), how)
    return out if input.ndim == rank + 2 else c.reshape(out, out.shape[1:])


def _sum(x, weight, bias, how):
    return c.add(c.convolution(x, weight, *how), bias)


_sum_in_float32 = in_float32(_sum)


def _pad_by_name(x, weight, name, stride, dilation):
    """(input, padding) for "valid" and "same"; an odd total has its extra zero at the end."""
    rank = len(stride)
    if name == "valid":
        return x, (0,) * rank
    if name != "same":
        raise RuntimeError(f"Invalid padding string: {name!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        x = c.constant_pad(x, ((0, 0), (0, 0), *((0, total % 2) for total in totals)), 0)
    return x, tuple(total // 2 for total in totals)


def per_dimension(name, value, rank):
    """A tuple with one number per spatial dimension, from one number, a list of one, or the list itself."""
    if isinstance(value, (int, SymInt)):
        return (value,) * rank
    value = tuple(value)
    value = value * rank if len(value) == 1 else value
    if len(value) != rank:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
            f"dimensions, but got {name}={list(value)}"
        )
    return value


def _check(name, rank, input, weight):
    if weight.ndim != rank + 2:
        raise RuntimeError(
            f"{name}: expected weight of {rank + 2} dimensions, (channels, channels, *kernel), got {list(weight.shape)}"
        )
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
