"""histogram and histogramdd: how much of the data falls between edges, in one dimension and in several.

Input: floating tensors, and edges, or how many bins of equal width; weights, if not every element counts 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stage0_eager.functions import creation, gather_scatter, results, sorting
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt

_counted = range


def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> results.Histogramdd:
    """(hist, bin_edges) of points (..., D): bins holds D numbers of bins, or D tensors of rising edges.

    range: the least and the largest edge of each dimension, in one sequence; else those of the data. density: divided
    by the sum and by each bin's volume.
    """
    if not input.is_floating_point():
        raise RuntimeError(
            f"histogramdd: expected a floating-point input, but got {input.dtype.name}; cast it first"
        )
    points = input.reshape(-1, input.shape[-1])
    dims = points.shape[1]
    every = list(_counted(dims))  # `range` is torch's name of an argument here
    several = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(several) != dims:
        raise RuntimeError(f"histogramdd: expected {dims} sequences of bins, but got {len(several)}")
    ends = [None] * dims if range is None else [range[2 * d : 2 * d + 2] for d in every]
    edges = [_edges(points[:, d], several[d], ends[d]) for d in every]
    counts = [edge.shape[0] - 1 for edge in edges]
    place, inside = _place(points[:, 0], edges[0])
    for d in every[1:]:
        following, holds = _place(points[:, d], edges[d])
        place, inside = place * counts[d] + following, inside & holds
    amount = points.new_ones(points.shape[0]) if weight is None else weight.reshape(-1)
    amount = gather_scatter.where(inside, amount, 0.0)
    total = points.new_zeros(math.prod(counts)).scatter_add(0, gather_scatter.where(inside, place, 0), amount)
    hist = total.reshape(counts)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).reshape([-1 if e == d else 1 for e in every])
    return results.Histogramdd(hist, edges)


@method
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> results.Histogram:
    """(hist, bin_edges) of all elements; bins is a number of bins or a tensor of rising edges."""
    found = histogramdd(input.reshape(-1, 1), [bins], range=range, weight=weight, density=density)
    return results.Histogram(found.hist, found.bin_edges[0])


def _edges(x: Tensor, bins: Any, ends: Any) -> Tensor:
    if isinstance(bins, Tensor):
        return bins
    if ends is None:
        low, high = x.min(), x.max()
    else:
        low, high = (creation.tensor(float(end), dtype=x.dtype) for end in ends)
    alone = low == high
    low, high = gather_scatter.where(alone, low - 0.5, low), gather_scatter.where(alone, high + 0.5, high)
    steps = creation.arange(bins + 1, dtype=x.dtype)
    return gather_scatter.where(steps < bins, low + steps * ((high - low) / bins), high)


def _place(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Which bin each element falls into, and whether into any; the last bin has its upper edge too."""
    last = edges.shape[0] - 2
    found = sorting.searchsorted(edges, x.contiguous(), right=True) - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    return found.clamp(0, last).to(dt.int64), inside
