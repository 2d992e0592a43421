"""Conv1d/2d/3d and ConvTranspose1d/2d/3d, with torch's constructor arguments, initial values and printing.

Input: channels and sizes; forward takes (N, C, *sizes) or (C, *sizes).
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.table.numpy_numbers import for_each

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What all have in common: the arguments, a weight and a bias, uniform in +-1/sqrt(fan in)."""

    rank: int
    transposed = False
    padding: Any  # a size for each dimension, or 'same', or 'valid'

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
        padding_mode, device, dtype,
    ):  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = self._each(kernel_size), self._each(stride)
        self.dilation, self.output_padding = self._each(dilation), self._each(output_padding)
        self.padding: Any = padding if isinstance(padding, str) else self._each(padding)
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(creation.empty(first, second // groups, *self.kernel_size, **where))
        self.bias = Parameter(creation.empty(out_channels, **where)) if bias else None
        self.reset_parameters()

    def _each(self, value: Any) -> tuple[int, ...]:
        return for_each(value, self.rank)

    def reset_parameters(self) -> None:
        if not self.weight.numel():
            return
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(init.fans(self.weight)[0])
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zero, one = (0,) * self.rank, (1,) * self.rank
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        shown = {"padding": zero, "dilation": one, "output_padding": zero, "groups": 1}
        text += "".join(
            f", {name}={getattr(self, name)}" for name, usual in shown.items() if getattr(self, name) != usual
        )
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class _Conv(_Convolution):
    function: Any

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, device,
            dtype,
        )  # fmt: skip

    def forward(self, input):
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._border(), self.padding_mode), 0
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _border(self) -> tuple[int, ...]:
        """(before, after) of each dimension, the last one first, as pad takes it."""
        if self.padding == "valid":
            return (0,) * (2 * self.rank)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return tuple(n for total in reversed(totals) for n in (total // 2, total - total // 2))
        return tuple(p for p in reversed(self.padding) for _ in range(2))


class _ConvTranspose(_Convolution):
    transposed = True
    function: Any

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input, output_size=None):
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives `output_size`: one of the `stride` sizes that have so many windows."""
        wanted, sizes = tuple(output_size)[-self.rank :], input.shape[-self.rank :]
        least = tuple(
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(
                sizes, self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )
        if len(wanted) != self.rank or any(
            not low <= size < low + s for low, size, s in zip(least, wanted, self.stride, strict=True)
        ):
            most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
            raise ValueError(
                f"requested an output size of {list(wanted)}, but valid sizes range from {list(least)} to {most} "
                f"(for an input of {list(sizes)})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class Conv1d(_Conv):
    """conv1d with weight (out_channels, in_channels / groups, K)."""

    rank, function = 1, F.conv1d


class Conv2d(_Conv):
    """conv2d with weight (out_channels, in_channels / groups, KH, KW)."""

    rank, function = 2, F.conv2d


class Conv3d(_Conv):
    """conv3d with weight (out_channels, in_channels / groups, KD, KH, KW)."""

    rank, function = 3, F.conv3d


class ConvTranspose1d(_ConvTranspose):
    """conv_transpose1d with weight (in_channels, out_channels / groups, K)."""

    rank, function = 1, F.conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """conv_transpose2d with weight (in_channels, out_channels / groups, KH, KW)."""

    rank, function = 2, F.conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """conv_transpose3d with weight (in_channels, out_channels / groups, KD, KH, KW)."""

    rank, function = 3, F.conv_transpose3d
