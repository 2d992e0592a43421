"""Flatten and Unflatten: a range of dimensions as one, and one as several.

Input: tensors.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import shape
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
        return shape.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
