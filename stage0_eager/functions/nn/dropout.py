"""Dropout: of single elements, of whole channels, and the one that keeps what selu normalizes.

Input: tensors and a probability.
"""

from __future__ import annotations

import math

from stage0_eager.functions.shape import in_layout_of
from stage0_eager.random.generator import uniform
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator


@operator
def dropout_channels(input, p, rank):
    """Whole channels of (N, C, *) or (C, *), with `rank` spatial dimensions, zeroed with probability p."""
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"dropout{rank}d: Expected {rank + 1}D or {rank + 2}D input, but received a {input.ndim}D input."
        )
    lead = tuple(input.shape[: input.ndim - rank])
    mask = dropout(c.full((*lead, *([1] * rank)), 1.0, input.dtype, input.device), p, True)
    return c.mul(input, mask)


@operator
def alpha_dropout(input, p=0.5, training=False):
    """Dropout that keeps mean 0 and variance 1 after selu.

    Klambauer et al., "Self-Normalizing Neural Networks" (2017).
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return _saturated(input, p, input.shape)


@operator
def alpha_dropout_channels(input, p):
    """The same for whole channels of (N, C, ...)."""
    return _saturated(input, p, (*input.shape[:2], *[1] * (input.ndim - 2)))


def _saturated(input, p, shape):
    """input with selu's lowest value where a draw of this shape says so, scaled back to mean 0 and variance 1."""
    low = -1.7580993408473766  # selu at minus infinity
    if p == 1:
        return c.mul(input, 0)
    scale = 1 / math.sqrt((1 - p) * (1 + p * low * low))
    kept = c.ge(uniform(shape, device=input.device), p)
    return c.add(c.mul(c.where(kept, input, low), scale), -scale * low * p)


@operator
def dropout(input, p=0.5, training=True):
    """Each element zeroed with probability p and the rest scaled by 1 / (1 - p); input itself when not training."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return c.mul(input, 0)
    kept = in_layout_of(c.ge(uniform(input.shape, device=input.device), p), input)
    return c.where(kept, c.mul(input, 1 / (1 - p)), 0)
