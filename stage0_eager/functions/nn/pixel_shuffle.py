"""Moving between channels and pixels, and enlarging by whole factors: reshape, permute and expand only.

Input: images (..., C, H, W); nearest enlarging takes (N, C, ...) and an integer factor per dimension.
"""

from __future__ import annotations

from stage0_eager.functions.shape import in_format_of
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts.breaks import Unsupported


@operator
def pixel_shuffle(input, upscale_factor):
    """(..., C r**2, H, W) to (..., C, H r, W r)."""
    r = upscale_factor
    if input.ndim < 3 or r <= 0 or input.shape[-3] % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but got input of shape {tuple(input.shape)} and upscale_factor={r}"
        )
    *lead, channels, h, w = input.shape
    n = len(lead)
    parts = c.reshape(input, (*lead, channels // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return in_format_of(c.reshape(c.permute(parts, order), (*lead, channels // (r * r), h * r, w * r)), input)


@operator
def pixel_unshuffle(input, downscale_factor):
    """(..., C, H r, W r) to (..., C r**2, H, W)."""
    r = downscale_factor
    if input.ndim < 3 or r <= 0 or input.shape[-1] % r or input.shape[-2] % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got input of shape "
            f"{tuple(input.shape)} and downscale_factor={r}"
        )
    *lead, channels, h, w = input.shape
    n = len(lead)
    parts = c.reshape(input, (*lead, channels, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return in_format_of(c.reshape(c.permute(parts, order), (*lead, channels * r * r, h // r, w // r)), input)


@operator
def upsample_nearest(input, scale_factor):
    """(N, C, d1, d2, ...) with each of d1, d2, ... repeated scale_factor (an int or one per dimension) times."""
    factors = (
        (scale_factor,) * (input.ndim - 2) if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    )
    if any(f != int(f) or f < 1 for f in factors):
        raise Unsupported(f"scale_factor={scale_factor}, which is not a whole number", code="GB0068")
    lead, sizes = tuple(input.shape[:2]), tuple(input.shape[2:])
    split = tuple(s for size in sizes for s in (size, 1))
    spread = tuple(s for size, f in zip(sizes, factors, strict=True) for s in (size, int(f)))
    out = c.expand(c.reshape(input, (*lead, *split)), (*lead, *spread))
    out = c.reshape(out, (*lead, *(size * int(f) for size, f in zip(sizes, factors, strict=True))))
    return in_format_of(out, input)
