"""Padding modules: a border of a constant, of zeros, of mirrored, repeated or wrapped elements.

Input: (N, C, *) or (C, *) with as many spatial dimensions as the name says. Widths are an int, or (before, after) pairs
from the last dimension backwards.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module
from stage0_eager.table.numpy_numbers import for_each


class _Pad(Module):
    rank: int
    mode = "constant"
    value: float = 0.0

    def __init__(self, padding: Any):
        super().__init__()
        widths = for_each(padding, 2 * self.rank)
        if len(widths) != 2 * self.rank:
            raise ValueError(
                f"{type(self).__name__} expects an int or {2 * self.rank} ints, but got {widths}"
            )
        self.padding = widths

    def forward(self, input):
        return F.pad(input, self.padding, self.mode, self.value if self.mode == "constant" else None)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    rank = 1


class ConstantPad2d(_ConstantPad):
    rank = 2


class ConstantPad3d(_ConstantPad):
    rank = 3


class ZeroPad1d(_Pad):
    rank = 1


class ZeroPad2d(_Pad):
    rank = 2


class ZeroPad3d(_Pad):
    rank = 3


class ReflectionPad1d(_Pad):
    rank, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    rank, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    rank, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    rank, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    rank, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    rank, mode = 3, "replicate"


class CircularPad1d(_Pad):
    rank, mode = 1, "circular"


class CircularPad2d(_Pad):
    rank, mode = 2, "circular"


class CircularPad3d(_Pad):
    rank, mode = 3, "circular"
