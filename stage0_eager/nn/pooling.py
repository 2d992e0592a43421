"""Pooling as modules, with torch's constructor arguments and printing: the function of the same name, options fixed.

Input: as the function takes it, (N, C, *sizes) or (C, *sizes).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module
from stage0_eager.table.numpy_numbers import for_each


class _Pool(Module):
    """Options as attributes; `shown` names those that are printed."""

    shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaxPool(_Pool):
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def _options(self) -> tuple:
        return (
            self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPool):
    """max_pool1d with its options fixed."""

    def forward(self, input):
        return F.max_pool1d(input, *self._options())


class MaxPool2d(_MaxPool):
    """max_pool2d with its options fixed."""

    def forward(self, input):
        return F.max_pool2d(input, *self._options())


class MaxPool3d(_MaxPool):
    """max_pool3d with its options fixed."""

    def forward(self, input):
        return F.max_pool3d(input, *self._options())


class _MaxUnpool(_Pool):
    shown = ("kernel_size", "stride", "padding")
    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            for_each(v, self.rank) for v in (kernel_size, kernel_size if stride is None else stride, padding)
        )


class MaxUnpool1d(_MaxUnpool):
    """Zeros with the elements of input back where MaxPool1d's indices found them."""

    rank = 1

    def forward(self, input, indices, output_size=None):
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """Zeros with the elements of input back where MaxPool2d's indices found them."""

    rank = 2

    def forward(self, input, indices, output_size=None):
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    """Zeros with the elements of input back where MaxPool3d's indices found them."""

    rank = 3

    def forward(self, input, indices, output_size=None):
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPool(_Pool):
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def _options(self) -> tuple:
        return self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad


class AvgPool1d(_AvgPool):
    """avg_pool1d with its options fixed; one number each, kept as a tuple of one."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        stride = kernel_size if stride is None else stride
        kernel_size, stride, padding = (for_each(v, 1) for v in (kernel_size, stride, padding))
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, input):
        return F.avg_pool1d(input, *self._options())


class AvgPool2d(_AvgPool):
    """avg_pool2d with its options fixed."""

    def forward(self, input):
        return F.avg_pool2d(input, *self._options(), self.divisor_override)


class AvgPool3d(_AvgPool):
    """avg_pool3d with its options fixed."""

    def forward(self, input):
        return F.avg_pool3d(input, *self._options(), self.divisor_override)


class _LPPool(_Pool):
    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def _options(self) -> tuple:
        return float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode


class LPPool1d(_LPPool):
    """lp_pool1d with its options fixed."""

    def forward(self, input):
        return F.lp_pool1d(input, *self._options())


class LPPool2d(_LPPool):
    """lp_pool2d with its options fixed."""

    def forward(self, input):
        return F.lp_pool2d(input, *self._options())


class LPPool3d(_LPPool):
    """lp_pool3d with its options fixed."""

    def forward(self, input):
        return F.lp_pool3d(input, *self._options())


class _AdaptivePool(_Pool):
    shown = ("output_size",)

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptivePool):
    """adaptive_avg_pool1d to a fixed size."""

    def forward(self, input):
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """adaptive_avg_pool2d to a fixed size."""

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """adaptive_avg_pool3d to a fixed size."""

    def forward(self, input):
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """adaptive_max_pool1d to a fixed size."""

    def forward(self, input):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """adaptive_max_pool2d to a fixed size."""

    def forward(self, input):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """adaptive_max_pool3d to a fixed size."""

    def forward(self, input):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
