"""Meta rules of the two convolution operators: the sizes of results, and torch's errors for wrong arguments.

Input: the arguments, with a TensorMeta in place of each tensor. Strides, paddings, dilations and output paddings have
one number per spatial dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.core_metas import common_device
from stage_contracts.tensor_meta import TensorMeta


def convolved_size(size: Any, kernel: Any, stride: int, padding: int, dilation: int) -> Any:
    """How many positions a dilated kernel has in `size` elements with padding on both sides."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def transposed_size(size: Any, kernel: Any, stride: int, padding: int, dilation: int, extra: Any) -> Any:
    """The size of a transposed convolution's result: one in which the kernel has `size` positions. If there are several
    such sizes, `extra` (output_padding) chooses one."""
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + extra


def convolution(
    input: TensorMeta,
    weight: TensorMeta,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    transposed: bool,
    output_padding: tuple[Any, ...],
    groups: int,
) -> TensorMeta:
    """input (N, C, *sizes) and weight (O, C / groups, *kernel), or (C, O / groups, *kernel) when transposed."""
    _check_numbers(stride, padding, dilation, output_padding, groups)
    _check_operands(input, weight)
    first, second, kernel = weight.shape[0], weight.shape[1], weight.shape[2:]
    if first < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    if first % groups != 0:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.shape)} instead"
        )
    wanted, channels = (first, second * groups) if transposed else (second * groups, first)
    if input.shape[1] != wanted:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {given}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have {wanted} "
            f"channels, but got {input.shape[1]} channels instead"
        )
    windows = zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)
    if transposed:
        sizes = tuple(transposed_size(*w, e) for w, e in zip(windows, output_padding, strict=True))
        if any(size < 1 for size in sizes):
            raise RuntimeError(
                f"Given input size per channel: {_times(input.shape[2:])}. Calculated output size per channel: "
                f"{_times(sizes)}. Output size is too small"
            )
    else:
        padded = tuple(size + 2 * pad for size, pad in zip(input.shape[2:], padding, strict=True))
        reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
        if any(size < span for size, span in zip(padded, reach, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: {_times(padded)}. Kernel size: {_times(reach)}. Kernel "
                "size can't be greater than actual input size"
            )
        sizes = tuple(convolved_size(*w) for w in windows)
    return TensorMeta((input.shape[0], channels, *sizes), input.dtype, device=common_device((input, weight)))


def convolution_weight_gradient(
    input: TensorMeta,
    grad: TensorMeta,
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> TensorMeta:
    """input (N, C, *sizes) and grad (N, O, *fewer) give (O, C / groups, *kernel_size)."""
    _check_numbers(stride, padding, dilation, (0,) * len(stride), groups)
    _check_operands(input, grad)
    if input.shape[0] != grad.shape[0] or input.shape[1] % groups != 0 or grad.shape[1] % groups != 0:
        raise RuntimeError(
            f"convolution_weight_gradient: expected equal batches and channels divisible by groups={groups}, got input "
            f"{input.shape} and grad {grad.shape}"
        )
    fits = (
        convolved_size(*w) for w in zip(input.shape[2:], kernel_size, stride, padding, dilation, strict=True)
    )
    if any(have > most for have, most in zip(grad.shape[2:], fits, strict=True)):
        raise RuntimeError(
            f"convolution_weight_gradient: grad {grad.shape} is larger than the convolution's output for input "
            f"{input.shape}"
        )
    shape = (grad.shape[1], input.shape[1] // groups, *kernel_size)
    return TensorMeta(shape, input.dtype, device=common_device((input, grad)))


def _check_numbers(
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[Any],
    groups: int,
) -> None:
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(isinstance(p, int) and p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")


def _check_operands(input: TensorMeta, other: TensorMeta) -> None:
    if input.ndim != other.ndim or input.ndim < 3:
        raise RuntimeError(
            "convolution: expected operands with the same number of dimensions, (N, C, *sizes) and (O, C, *kernel), "
            f"but got {input.shape} and {other.shape}"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype.name}) and weight type ({other.dtype.name}) should be the same"
        )
    if input.dtype is dt.bool_:
        raise NotImplementedError("convolution is not implemented for bool; cast to another dtype first")


def _times(sizes: Sequence[Any]) -> str:
    return f"({' x '.join(map(str, sizes))})"
