"""Layout arithmetic: how many bytes an array spans, and where it may start.

Input: TensorMetas whose sizes are ints, or expressions of a program's open sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def laid_out(run: Callable[..., tuple], metas: Sequence[TensorMeta]) -> Callable[..., tuple]:
    """`run` for arrays in any layout: those that are not laid out as `metas` say are copied first."""
    wanted = [byte_strides(meta) for meta in metas]
    orders = [sorted(range(meta.ndim), key=lambda d: -meta.strides[d]) for meta in metas]

    def call(*arrays: Any) -> tuple:
        return run(
            *[
                a if a.strides == strides else _in_order(a, order)
                for a, strides, order in zip(arrays, wanted, orders, strict=True)
            ]
        )

    return call


def _in_order(array: Any, order: list[int]) -> Any:
    """A copy whose dimensions lie in memory in this order, the outermost first."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return array.transpose(order).copy(order="C").transpose(back)
