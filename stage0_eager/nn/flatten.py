"""Modules that only rearrange: Flatten, Unflatten, ChannelShuffle, Unfold, Fold.

Input: tensors; nothing is computed and nothing learned.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import joining
from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module


class Flatten(Module):
    """One dimension in the place of start_dim to end_dim."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return F.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """`dim` as several dimensions of the given sizes."""

    def __init__(self, dim: int, unflattened_size: Any):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input):
        return joining.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class ChannelShuffle(Module):
    """Channels of (N, C, *) in `groups` groups, dealt out in turn. Zhang et al., "ShuffleNet" (2017)."""

    def __init__(self, groups: int):
        super().__init__()
        if groups <= 0:
            raise ValueError(f"number of groups to divide channels in must be positive, got {groups}")
        self.groups = groups

    def forward(self, input):
        apart = joining.unflatten(input, 1, (self.groups, -1))
        return F.flatten(apart.transpose(1, 2), 1, 2)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Module):
    """(N, C, H, W) to (N, C * KH * KW, blocks): the blocks a kernel slides over, as columns."""

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """(N, C * KH * KW, blocks) to (N, C, *output_size): columns added up where their blocks were."""

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
