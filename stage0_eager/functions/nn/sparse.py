"""Bags of embeddings, and normalisation across neighbouring channels.

Input: integer tensors and a table of vectors; or images (N, C, ...).
"""

from __future__ import annotations

import math

from stage0_eager.functions.nn.activations import embedding
from stage0_eager.functions.sorting import searchsorted
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt


@operator
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """The sum, mean or max of the vectors of each bag: a row of a 2-d input, or input[offsets[i]:offsets[i + 1]].

    An empty bag gives zeros; `padding_idx` counts as absent. Gradients are dense, whatever `sparse` says.
    """
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding_bag: max_norm and scale_grad_by_freq are not here")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum or mean")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None, but mode is {mode!r}, not 'sum'"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch"
            )
        bags, size = input.shape
        flat = c.reshape(input, (bags * size,))
        owner = c.floor_divide(c.iota(bags * size, 0, 1, dt.int64, input.device), size or 1)
    elif input.ndim == 1 and offsets is not None:
        flat, bags = input, offsets.shape[0] - bool(include_last_offset)
        starts = c.slice(offsets, 0, 0, bags, 1)
        owner = c.sub(
            searchsorted(starts, c.iota(flat.shape[0], 0, 1, starts.dtype, input.device), right=True), 1
        )
    else:
        raise ValueError("embedding_bag: input has to be 2D, or 1D with offsets")
    kept = (
        c.full(flat.shape, True, dt.bool_, input.device) if padding_idx is None else c.ne(flat, padding_idx)
    )
    rows, width = embedding(flat, weight), weight.shape[1]
    if per_sample_weights is not None:
        rows = c.mul(rows, c.reshape(per_sample_weights, (flat.shape[0], 1)))
    column = c.reshape(kept, (flat.shape[0], 1))
    places = c.expand(c.reshape(owner, (flat.shape[0], 1)), (flat.shape[0], width))
    count = c.scatter_add(c.full((bags,), 0, dt.int64, input.device), 0, owner, c.cast(kept, dt.int64))
    count = c.reshape(count, (bags, 1))
    if mode == "max":
        lowest = c.full((bags, width), -math.inf, weight.dtype, input.device)
        top = c.scatter_reduce(lowest, 0, places, c.where(column, rows, -math.inf), "amax")
        return c.where(c.eq(count, 0), 0.0, top)
    zeros = c.full((bags, width), 0.0, weight.dtype, input.device)
    total = c.scatter_add(zeros, 0, places, c.where(column, rows, 0.0))
    return total if mode == "sum" else c.div(total, c.cast(c.maximum(count, 1), weight.dtype))


@operator
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of squares of `size` neighbouring channels) ** beta. Krizhevsky et al. 2012."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    pads = tuple((size // 2, (size - 1) // 2) if d == 1 else (0, 0) for d in range(input.ndim))
    squares = c.constant_pad(c.mul(input, input), pads, 0.0)
    channels, total = input.shape[1], None
    for i in range(size):
        part = c.slice(squares, 1, i, i + channels, 1)
        total = part if total is None else c.add(total, part)
    return c.div(input, c.pow(c.add(c.mul(total, alpha / size), k), beta))
