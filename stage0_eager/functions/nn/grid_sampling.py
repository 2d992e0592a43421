"""grid_sample and affine_grid: reading images at places given by a tensor (Jaderberg et al. 2015).

Input: images (N, C, H, W) or (N, C, D, H, W), and places (N, ..., 2 or 3) with -1 and 1 at the edges, x first.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from stage0_eager.functions.nn.interpolation import cubic_weights
from stage0_eager.functions.shape import stack
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt

_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


@operator
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The image at each place of grid, between its elements by `mode`, outside of it by `padding_mode`.

    input (N, C, H, W) and grid (N, OH, OW, 2) give (N, C, OH, OW); one dimension more likewise (not bicubic).
    -1 and 1 are the centres of the outermost elements with align_corners, else their outer edges.
    """
    _check(input, grid, mode, padding_mode)
    rank, sizes = input.ndim - 2, input.shape[2:]
    places = []
    # the grid's last dimension is x, y, ...: the last dimension of the image first
    for i, size in enumerate(sizes):
        x = c.slice(grid, grid.ndim - 1, rank - 1 - i, rank - i, 1)
        x = c.reshape(x, (grid.shape[0], 1, math.prod(grid.shape[1:-1])))
        places.append(_unnormalised(x, size, align_corners))
    if mode != "bicubic":
        places = [_settled(x, n, padding_mode, align_corners) for x, n in zip(places, sizes, strict=True)]
    neighbours = {"nearest": _nearest, "bilinear": _linear, "bicubic": _cubic}[mode]
    choices = [neighbours(x) for x in places]
    if mode == "bicubic":
        choices = [
            [(_settled(at, n, padding_mode, align_corners), weight) for at, weight in choice]
            for choice, n in zip(choices, sizes, strict=True)
        ]
    flat = c.reshape(input, (*input.shape[:2], math.prod(sizes)))
    total = None
    for corner in product(*choices):
        term = _read(flat, [at for at, _ in corner], sizes)
        for _, weight in corner:
            term = term if weight is None else c.mul(term, weight)
        total = term if total is None else c.add(total, term)
    return c.reshape(total, (*input.shape[:2], *grid.shape[1:-1]))


def _check(input, grid, mode, padding_mode):
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}"
        )
    if padding_mode not in _BORDERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"{padding_mode!r}"
        )
    sizes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got {sizes}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {sizes}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    if mode == "bicubic" and input.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if grid.dtype is not input.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype.name} "
            f"and grid has {grid.dtype.name}"
        )


def _unnormalised(x, size, align_corners):
    """From -1..1 to element numbers."""
    if align_corners:
        return c.mul(c.add(x, 1), (size - 1) / 2)
    return c.div(c.sub(c.mul(c.add(x, 1), size), 1), 2)


def _settled(x, size, padding_mode, align_corners):
    """Places outside brought inside, as the border asks for; with zeros they stay where they are."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        if span == 0:
            x = c.mul(x, 0.0)
        else:
            away = c.abs(c.sub(x, low))
            extra = c.fmod(away, span)
            even = c.eq(c.remainder(c.floor(c.div(away, span)), 2), 0)
            x = c.add(c.where(even, extra, c.sub(span, extra)), low)
    x = c.where(c.le(x, 0), 0.0, x)  # at the bounds the gradient is 0, as torch's
    return c.where(c.ge(x, size - 1), float(size - 1), x)


def _nearest(x):
    return [(c.round(x), None)]


def _linear(x):
    low = c.floor(x)
    high = c.sub(x, low)
    return [(low, c.sub(1.0, high)), (c.add(low, 1), high)]


def _cubic(x):
    low = c.floor(x)
    weights = cubic_weights(c.sub(x, low))
    return [(c.add(low, k), weight) for k, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _read(flat, places, sizes):
    """(N, C, P): the elements at whole-numbered places (N, 1, P) along each dimension; 0 outside."""
    index: Any = None
    inside: Any = None
    for x, size in zip(places, sizes, strict=True):
        here = c.logical_and(c.ge(x, 0), c.le(x, size - 1))
        whole = c.minimum(c.maximum(c.cast(x, dt.int64), 0), size - 1)
        inside = here if inside is None else c.logical_and(inside, here)
        index = whole if index is None else c.add(c.mul(index, size), whole)
    shape = (*flat.shape[:2], index.shape[2])
    return c.where(inside, c.gather(flat, 2, c.expand(index, shape)), 0.0)


@operator
def affine_grid(theta, size, align_corners=None):
    """The grid that reads the image through an affine map: theta (N, 2, 3) for size (N, C, H, W) gives (N, H, W, 2).

    Or theta (N, 3, 4) for size (N, C, D, H, W), giving (N, D, H, W, 3).
    """
    size = tuple(size)
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype.name}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    rank = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got "
            f"{list(theta.shape)}."
        )
    if any(n <= 0 for n in size):
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    sizes, axes = size[2:], []
    for i in reversed(range(rank)):
        n = sizes[i]
        x = c.iota(n, 0, 1, theta.dtype, theta.device)
        if align_corners:
            x = c.sub(c.mul(x, 2 / (n - 1)), 1) if n > 1 else x
        else:
            x = c.sub(c.div(c.add(c.mul(x, 2), 1), n), 1)
        axes.append(c.expand(c.reshape(x, (n, *[1] * (rank - 1 - i))), sizes))
    axes.append(c.full(sizes, 1, theta.dtype, theta.device))
    base = c.reshape(stack(axes, -1), (1, math.prod(sizes), rank + 1))
    out = c.matmul(base, c.permute(theta, (0, 2, 1)))
    return c.reshape(out, (theta.shape[0], *sizes, rank))
