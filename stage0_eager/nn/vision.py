"""Vision and shuffle layers: PixelShuffle, PixelUnshuffle, ChannelShuffle, Upsample and its two short forms.

Input: images (N, C, H, W), or as the function of the same name takes them.
"""

from __future__ import annotations

from stage0_eager.functions import shape
from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module


class PixelShuffle(Module):
    """(..., C r**2, H, W) to (..., C, H r, W r)."""

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H r, W r) to (..., C r**2, H, W)."""

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class Upsample(Module):
    """(N, C, ...) at another size: interpolate, with its options fixed."""

    def __init__(
        self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None
    ):
        super().__init__()
        if isinstance(scale_factor, tuple):
            scale_factor = tuple(float(f) for f in scale_factor)
        elif scale_factor is not None:
            scale_factor = float(scale_factor)
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input):
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        what = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of (N, C, H, W) with mode="nearest"."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of (N, C, H, W) with mode="bilinear" and align_corners=True."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class ChannelShuffle(Module):
    """Channels of (N, C, *) in `groups` groups, dealt out in turn. Zhang et al., "ShuffleNet" (2017)."""

    def __init__(self, groups: int):
        super().__init__()
        if groups <= 0:
            raise ValueError(f"number of groups to divide channels in must be positive, got {groups}")
        self.groups = groups

    def forward(self, input):
        apart = shape.unflatten(input, 1, (self.groups, -1))
        return F.flatten(apart.transpose(1, 2), 1, 2)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
