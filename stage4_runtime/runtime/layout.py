"""Layout arithmetic: how many bytes an array spans, and where it may start.

Input: TensorMetas whose sizes are plain ints (one program per set of sizes).
"""

from __future__ import annotations

from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.tensor_meta import TensorMeta

# Where a pool slot may start, in bytes: a cache line on the CPU; on the GPU what cudaMalloc itself promises.
SLOT_ALIGNMENT = {"cpu": 64, "cuda": 512}


def slot_alignment(device: Device) -> int:
    return SLOT_ALIGNMENT[device.type]


def round_up(nbytes: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `nbytes`."""
    return -(-nbytes // alignment) * alignment


def span(meta: TensorMeta) -> int:
    """Bytes from the first element to the end of the last: more than nbytes with gaps, less with stride 0."""
    if not all(type(size) is int for size in (*meta.shape, *meta.strides)):
        raise Unsupported(f"a size known only at run time ({meta})", hint="compile once per shape")
    if 0 in meta.shape:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return (last + 1) * meta.dtype.itemsize


def byte_strides(meta: TensorMeta) -> tuple[int, ...]:
    """Strides in bytes, as NumPy and CuPy count them."""
    return tuple(stride * meta.dtype.itemsize for stride in meta.strides)
