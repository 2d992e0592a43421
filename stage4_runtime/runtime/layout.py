"""Layout arithmetic: how many bytes an array spans, and where it may start.

Input: TensorMetas whose sizes are ints, or expressions of a program's open sizes.
"""

from __future__ import annotations

from typing import Any

from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.layouts import is_dense
from stage_contracts.size_vars import is_open
from stage_contracts.symbolic import SymInt
from stage_contracts.tensor_meta import TensorMeta

# Where a pool slot may start, in bytes: a cache line on the CPU; on the GPU what cudaMalloc itself promises.
SLOT_ALIGNMENT = {"cpu": 64, "cuda": 512}


def slot_alignment(device: Device) -> int:
    return SLOT_ALIGNMENT[device.type]


def round_up(nbytes: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `nbytes`."""
    return -(-nbytes // alignment) * alignment


def span(meta: TensorMeta) -> Any:
    """Bytes from the first element to the end of the last: more than nbytes with gaps, less with stride 0.

    With open sizes an expression of them, which may be negative where one is 0.
    """
    if any(isinstance(size, SymInt) for size in (*meta.shape, *meta.strides)):
        raise Unsupported(f"a size known only at run time ({meta})", code="GB0011")
    if 0 in meta.shape:
        return 0
    if any(map(is_open, meta.shape)) and is_dense(meta.shape, meta.strides):
        return meta.nbytes
    last = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return (last + 1) * meta.dtype.itemsize


def byte_strides(meta: TensorMeta) -> tuple[Any, ...]:
    """Strides in bytes, as NumPy and CuPy count them."""
    return tuple(stride * meta.dtype.itemsize for stride in meta.strides)
