"""Meta rules of the views with an index map over several dimensions: diagonal, unfold, as_strided.

Input: the arguments, with a TensorMeta in place of each tensor. The rules must refuse a wrong index, because eager
would read memory outside of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage_contracts.core_metas import wrap_dim
from stage_contracts.tensor_meta import TensorMeta


def diagonal_window(shape: Sequence[Any], offset: int, dim1: int, dim2: int) -> tuple[int, int, Any]:
    """The two dimensions as non-negative numbers, and the length of the diagonal."""
    first, second = wrap_dim(dim1, len(shape)), wrap_dim(dim2, len(shape))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    below, right = max(-offset, 0), max(offset, 0)
    return first, second, max(min(shape[first] - below, shape[second] - right), 0)


def diagonal(input: TensorMeta, offset: int, dim1: int, dim2: int) -> TensorMeta:
    first, second, length = diagonal_window(input.shape, offset, dim1, dim2)
    rest = [d for d in range(input.ndim) if d not in (first, second)]
    step = input.strides[first] + input.strides[second]
    shape = (*(input.shape[d] for d in rest), length)
    strides = (*(input.strides[d] for d in rest), step)
    return input.with_(shape=shape, strides=strides, requires_grad=False)


def unfold(input: TensorMeta, dim: int, size: int, step: int) -> TensorMeta:
    dim = wrap_dim(dim, input.ndim)
    available = input.shape[dim] if input.ndim else 1
    if size < 0 or size > available:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {available} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not input.ndim:
        return input.with_(shape=(size,), strides=(1,), requires_grad=False)
    shape, strides = list(input.shape), list(input.strides)
    shape[dim], strides[dim] = (available - size) // step + 1, strides[dim] * step
    return input.with_(shape=(*shape, size), strides=(*strides, input.strides[dim]), requires_grad=False)


def as_strided(
    input: TensorMeta, shape: tuple[Any, ...], strides: tuple[Any, ...], offset: Any
) -> TensorMeta:
    if len(shape) != len(strides):
        raise RuntimeError(f"mismatch in length of strides and shape: {tuple(strides)}, {tuple(shape)}")
    if any(n < 0 for n in (*shape, *strides)) or offset < 0:
        raise RuntimeError(
            f"as_strided: expected sizes, strides and offset of 0 or more, but got size={tuple(shape)}, "
            f"stride={tuple(strides)} and storage_offset={offset}"
        )
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if all(n > 0 for n in shape) and last >= input.numel:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} are out of bounds for "
            f"storage of {input.numel} elements"
        )
    return input.with_(shape=tuple(shape), strides=tuple(strides), requires_grad=False)
