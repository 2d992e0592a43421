"""How a tensor's elements lie in memory, by torch's names: row by row, or with the channels beside each other.

Input: a rank, and for `is_laid_out` the sizes and strides. Channels last means that (N, C, H, W) lies in memory as a
row-major (N, H, W, C): the shape stays, the strides differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stage_contracts.tensor_meta import TensorMeta

_ORDERS = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


@dataclass(frozen=True)
class MemoryFormat:
    """`name` is contiguous_format, preserve_format, channels_last or channels_last_3d."""

    name: str

    def order(self, rank: int) -> tuple[int, ...] | None:
        """The dimensions from the outermost in memory to the innermost; None for row-major and for as it was.

        Raises RuntimeError for a rank that the format is not defined for.
        """
        order = _ORDERS.get(self.name)
        if order is not None and len(order) != rank:
            raise RuntimeError(
                f"required rank {len(order)} tensor to use {self.name} format, but got rank {rank}"
            )
        return order

    def __repr__(self) -> str:
        return f"cutaway.{self.name}"


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def laid_out(meta: TensorMeta, memory_format: MemoryFormat | None = None) -> bool:
    """Whether the tensor is dense in this order; None: row-major. Strides of dimensions of size 1 do not matter."""
    order = _ORDERS.get(memory_format.name) if memory_format is not None else None
    if order is None:
        return meta.is_contiguous
    if len(order) != meta.ndim:
        return False
    shape, strides = (tuple(pair[d] for d in order) for pair in (meta.shape, meta.strides))
    return meta.with_(shape=shape, strides=strides).is_contiguous


def channels_last_of(meta: TensorMeta) -> MemoryFormat | None:
    """The channels-last format that the tensor is in, where it is not row-major as well."""
    if meta.is_contiguous:
        return None
    return next((form for form in FORMATS.values() if form.name in _ORDERS and laid_out(meta, form)), None)


FORMATS = {
    name: MemoryFormat(name)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
