"""The expected value of a guard on a tensor or array with open sizes: everything about it that is not open.

Input: capture makes one from the sizes of a call and the policy that leaves some of them open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.tensor_meta import contiguous_strides


@dataclass(frozen=True)
class OpenMeta:
    """What is fixed about a tensor with open sizes. `sizes` has None for an open size.

    order: its dimensions from the largest stride to the smallest. The strides are those of a dense array in this order.
    """

    dtype: DType
    device: Device
    requires_grad: bool
    sizes: tuple[int | None, ...]
    order: tuple[int, ...]

    @cached_property
    def fitting(self) -> dict[int, Any]:
        """Metas that were found to fit, by their places. Metas of arrays are cached, so the next call of these sizes
        has the same object; while it is held here no other object has its place."""
        return {}

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.sizes)
        return f"{self.dtype.name}[{sizes}]" + " requires_grad" * self.requires_grad

    def strides(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The strides of a dense array of this shape, in elements."""
        strides: list[Any] = [0] * len(shape)
        for dim, stride in zip(self.order, contiguous_strides([shape[d] for d in self.order]), strict=True):
            strides[dim] = stride
        return tuple(strides)
