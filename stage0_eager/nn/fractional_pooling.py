"""FractionalMaxPool2d and 3d: max pooling over windows at drawn places, anew in each call.

Input: (N, C, *sizes) or (C, *sizes).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions.nn import fractional_pooling
from stage0_eager.nn.module import Module


class _FractionalMaxPool(Module):
    function: Any

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            given = "neither" if output_size is None else "both"
            raise ValueError(f"expected output_size or output_ratio, but got {given}")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input):
        return type(self).function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Over (N, C, H, W) or (C, H, W)."""

    function = staticmethod(fractional_pooling.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Over (N, C, T, H, W) or (C, T, H, W)."""

    function = staticmethod(fractional_pooling.fractional_max_pool3d)
