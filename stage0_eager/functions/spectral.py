"""Windows for signals: Hann, Hamming, Blackman, Bartlett, Kaiser, by torch's names.

Input: a length. `periodic` gives the window of one more point without its last, as a spectrum wants it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stage0_eager.defaults import device_or_default, dtype_or_default
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt


def _window(length: int, periodic: bool, dtype: Any, device: Any, shape: Callable) -> Tensor:
    """`shape(place, last)` on places 0..length-1, computed in float64."""
    if length < 0:
        raise RuntimeError(f"window_length must be non-negative, got {length}")
    wanted = dtype_or_default(dtype)
    if not wanted.is_floating_point:
        raise RuntimeError(f"a window expects floating point dtypes, got: {wanted.name}")
    if length == 1:
        return c.full((1,), 1.0, wanted, device_or_default(device))
    last = max(length if periodic else length - 1, 1)
    out = shape(c.iota(length, 0, 1, dt.float64, device_or_default(device)), last)
    return out if out.dtype is wanted else c.cast(out, wanted)


def _cosines(*weights: float) -> Callable:
    """weights[0] - weights[1] cos(t) + weights[2] cos(2 t) ... over one turn."""

    def shape(place: Any, last: int) -> Any:
        out: Any = None
        for k, weight in enumerate(weights):
            wave = c.mul(c.cos(c.mul(place, 2 * math.pi * k / last)), weight * (-1) ** k)
            out = wave if out is None else c.add(out, wave)
        return out

    return shape


def hann_window(window_length, periodic=True, *, dtype=None, device=None):
    """sin(pi n / N) ** 2."""
    return _window(window_length, periodic, dtype, device, _cosines(0.5, 0.5))


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, device=None):
    """alpha - beta cos(2 pi n / N)."""
    return _window(window_length, periodic, dtype, device, _cosines(alpha, beta))


def blackman_window(window_length, periodic=True, *, dtype=None, device=None):
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    return _window(window_length, periodic, dtype, device, _cosines(0.42, 0.5, 0.08))


def bartlett_window(window_length, periodic=True, *, dtype=None, device=None):
    """A triangle."""
    shape = lambda n, last: c.sub(1, c.abs(c.sub(c.mul(n, 2 / last), 1)))  # noqa: E731
    return _window(window_length, periodic, dtype, device, shape)


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, device=None):
    """i0(beta sqrt(1 - (2 n / N - 1) ** 2)) / i0(beta)."""

    def shape(n, last):
        x = c.sub(c.mul(n, 2 / last), 1)
        edge = c.full((), beta, dt.float64, n.device)
        return c.div(c.i0(c.mul(c.sqrt(c.maximum(c.sub(1, c.mul(x, x)), 0)), beta)), c.i0(edge))

    return _window(window_length, periodic, dtype, device, shape)
