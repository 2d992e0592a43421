"""Cumulative operations, distances between rows, histograms, and the most frequent value.

Input: tensors. Running reductions are core operators; the rest is made of sort, scatter and norms.
"""

from __future__ import annotations

from stage0_eager.functions.promotion import same_dtype
from stage0_eager.functions.reductions import reduced_in
from stage0_eager.functions.results import ValuesIndices
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim


@method
@operator
def cumprod(input, dim, *, dtype=None):
    """Running product along `dim`."""
    return reduced_in(c.cumprod, input, dtype, wrap_dim(dim, input.ndim))


@method
@operator
def logcumsumexp(input, dim):
    """log of the running sum of exp along `dim`, without overflow."""
    return c.logcumsumexp(input, wrap_dim(dim, input.ndim))


@method
@operator
def cummax(input, dim):
    """(running largest, the last place where it was met) along `dim`; NaN wins."""
    return ValuesIndices(*c.cummax(input, wrap_dim(dim, input.ndim)))


@method
@operator
def cummin(input, dim):
    """(running smallest, the last place where it was met) along `dim`; NaN wins."""
    return ValuesIndices(*c.cummin(input, wrap_dim(dim, input.ndim)))


@method
@operator
def mode(input, dim=-1, keepdim=False):
    """(values, indices): the most frequent value along `dim`, the smallest of equals, and the last place it has."""
    dim = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        return ValuesIndices(c.clone(input), c.full((), 0, dt.int64, input.device))
    size = input.shape[dim]
    if size == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    values, order = c.sort(input, dim, False, True)
    at = c.reshape(
        c.iota(size, 0, 1, dt.int64, input.device), tuple(-1 if i == dim else 1 for i in range(input.ndim))
    )
    changed = c.ne(c.slice(values, dim, 1, size, 1), c.slice(values, dim, 0, size - 1, 1))
    pads = tuple((1, 0) if i == dim else (0, 0) for i in range(input.ndim))
    start, _ = c.cummax(c.where(c.constant_pad(changed, pads, True), at, 0), dim)
    best = c.argmax(c.sub(at, start), dim, True)  # the end of the first of the longest runs
    found = (c.gather(values, dim, best), c.gather(order, dim, best))
    if keepdim:
        return ValuesIndices(*found)
    shape = (*input.shape[:dim], *input.shape[dim + 1 :])
    return ValuesIndices(*[c.reshape(x, shape) for x in found])


@operator
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances of order p between the rows of x1 (..., m, d) and of x2 (..., n, d): (..., m, n).

    Always by differences, whatever `compute_mode` says: the product form loses digits where rows are close.
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    same_dtype("cdist", x1, x2)
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    left = c.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    right = c.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    return vector_norm(c.sub(left, right), float(p), -1)


@operator
def pdist(input, p=2.0):
    """Distances between all pairs of rows i < j of a matrix, in that order."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    n = input.shape[0]
    rows = [c.sub(c.slice(input, 0, i, i + 1, 1), c.slice(input, 0, i + 1, n, 1)) for i in range(n - 1)]
    if not rows:
        return c.full((0,), 0.0, input.dtype, input.device)
    return vector_norm(c.cat(rows, 0), float(p), -1)


@method
@operator
def histc(input, bins=100, min=0, max=0):
    """How many elements fall into each of `bins` equal bins over [min, max]; over the data's range when both are 0."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if max < min:
        raise RuntimeError("max must be larger than min")
    if not input.is_floating_point():
        raise NotImplementedError(f"histc is not implemented for {input.dtype.name!r}")
    flat = c.reshape(input, (input.numel(),))
    device, dtype = input.device, input.dtype
    low, high = c.full((), min, dtype, device), c.full((), max, dtype, device)
    if min == max and flat.shape[0]:
        low, high = c.amin(flat, (0,), False), c.amax(flat, (0,), False)
    alone = c.eq(low, high)
    low, high = c.where(alone, c.sub(low, 1), low), c.where(alone, c.add(high, 1), high)
    place = c.floor(c.mul(c.div(c.sub(flat, low), c.sub(high, low)), bins))
    inside = c.logical_and(c.ge(flat, low), c.le(flat, high))
    place = c.cast(c.where(inside, c.minimum(place, bins - 1), 0.0), dt.int64)
    return c.scatter_add(c.full((bins,), 0.0, dtype, device), 0, place, c.cast(inside, dtype))
