"""Extrema with their places, norms, counts, spreads, and reductions that skip NaN.

Input: tensors; dims as in reductions.py. Gradients at a zero norm are 0, as in torch, not NaN.
"""

from __future__ import annotations

import math

from stage0_eager.derivatives.rules import adjoint
from stage0_eager.functions.reductions import all_dims, mean, std, var
from stage0_eager.functions.results import MinMax, ValuesIndices
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim


def _some(input):
    if 0 in input.shape:
        raise RuntimeError(
            "Expected reduction dim to be specified for input.numel() == 0. Specify it with `dim`."
        )


def _extremum(input, dim, keepdim, reduce, place, binary):
    if isinstance(dim, Tensor):
        return binary(input, dim)
    if dim is None:
        _some(input)
        return reduce(input, tuple(range(input.ndim)), False)
    dim = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        return ValuesIndices(c.clone(input), c.full((), 0, dt.int64, input.device))
    at = place(input, dim, True)
    values = c.gather(input, dim, at)
    if keepdim:
        return ValuesIndices(values, at)
    shape = (*input.shape[:dim], *input.shape[dim + 1 :])
    return ValuesIndices(c.reshape(values, shape), c.reshape(at, shape))


@method
@operator
def max(input, dim=None, keepdim=False, *, other=None):
    """The largest of all; or (values, indices) along `dim`; or, with a tensor, the elementwise larger.

    NaN wins. The first of equals is the one that `indices` names and that gets the gradient.
    """
    return _extremum(input, dim if other is None else other, keepdim, c.amax, c.argmax, c.maximum)


@method
@operator
def min(input, dim=None, keepdim=False, *, other=None):
    """The smallest of all; or (values, indices) along `dim`; or, with a tensor, the elementwise smaller.

    NaN wins. The first of equals is the one that `indices` names and that gets the gradient.
    """
    return _extremum(input, dim if other is None else other, keepdim, c.amin, c.argmin, c.minimum)


@method
@operator
def aminmax(input, *, dim=None, keepdim=False):
    """(min, max) over `dim`, over all when None."""
    if dim is None:
        _some(input)
    dims = all_dims(input, dim)
    return MinMax(c.amin(input, dims, keepdim), c.amax(input, dims, keepdim))


@method
@operator
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """Sum with NaN taken as 0."""
    if dtype is not None and dtype is not input.dtype:
        input = c.cast(input, dtype)
    if input.is_floating_point():
        input = c.where(c.isnan(input), 0.0, input)
    return c.sum(input, all_dims(input, dim), keepdim)


@method
@operator
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """Mean of what is not NaN; NaN where nothing is left."""
    if dtype is not None and dtype is not input.dtype:
        input = c.cast(input, dtype)
    if not input.is_floating_point():
        raise RuntimeError(
            f"nanmean(): expected input to have floating point dtype but got {input.dtype.name}"
        )
    dims = all_dims(input, dim)
    there = c.logical_not(c.isnan(input))
    return c.div(c.sum(c.where(there, input, 0.0), dims, keepdim), c.sum(there, dims, keepdim))


@method
@operator
def count_nonzero(input, dim=None):
    """How many elements are not 0, over `dim`; NaN counts."""
    return c.sum(c.ne(input, 0), all_dims(input, dim), False)


def _root(power_sum, exponent):
    """power_sum ** (1 / exponent), with a gradient of 0 where that is 0."""
    zero = c.eq(power_sum, 0 if exponent > 0 else math.inf)
    safe = c.where(zero, 1.0, power_sum)
    return c.where(zero, 0.0, c.sqrt(safe) if exponent == 2 else c.pow(safe, 1 / exponent))


def _norm(x, ord, dims, keepdim):
    if x.dtype.is_complex:
        x = c.abs(x)
    if ord == math.inf:
        return c.amax(c.abs(x), dims, keepdim)
    if ord == -math.inf:
        return c.amin(c.abs(x), dims, keepdim)
    if ord == 0:
        return c.cast(c.sum(c.ne(x, 0), dims, keepdim), x.dtype)
    if ord == 1:
        return c.sum(c.abs(x), dims, keepdim)
    if ord == 2:
        return _root(c.sum(c.mul(x, x), dims, keepdim), 2)
    size = c.abs(x)
    zero = c.eq(size, 0)
    powers = c.where(zero, math.inf if ord < 0 else 0.0, c.pow(c.where(zero, 1.0, size), ord))
    return _root(c.sum(powers, dims, keepdim), ord)


@operator
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum |x| ** ord) ** (1 / ord); the largest for inf, the smallest for -inf, how many are not 0 for 0.

    Half precision accumulates in float32.
    """
    if not x.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype.name}"
        )
    wanted = x.dtype if dtype is None else dtype
    dims = all_dims(x, dim)
    empty = any(isinstance(x.shape[d], int) and x.shape[d] == 0 for d in dims)
    if empty and (ord == math.inf or ord < 0):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does "
            "not have an identity"
        )
    wide = dt.float32 if wanted.itemsize == 2 else wanted
    wanted = dt.real_of(wanted)
    out = _norm(x if x.dtype is wide else c.cast(x, wide), ord, dims, keepdim)
    return out if out.dtype is wanted else c.cast(out, wanted)


@method
@operator
def dist(input, other, p=2):
    """The p-norm of input - other."""
    return vector_norm(c.sub(input, other), p)


@operator
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """(variance, mean) over `dim`."""
    spread = var(input, dim, unbiased, keepdim, correction=correction)
    return spread, _mean_beside(input, dim, keepdim)


def _mean_beside(input, dim, keepdim):
    """The mean over the dimensions that `var` takes: var_mean(input, True) has none, its second word is `unbiased`."""
    return mean(input, all_dims(input, None if isinstance(dim, bool) else dim), keepdim)


@operator
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """(standard deviation, mean) over `dim`."""
    spread = std(input, dim, unbiased, keepdim, correction=correction)
    return spread, _mean_beside(input, dim, keepdim)


@method
@operator
def cov(input, *, correction=1):
    """The covariance of the rows of a matrix, whose columns are observations; of one row a number."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    rows = input if input.ndim == 2 else c.reshape(input, (1, input.numel()))
    n = rows.shape[1]
    centred = c.sub(rows, c.div(c.sum(rows, (1,), True), n))
    freedom = n - correction
    product = c.div(c.matmul(centred, adjoint(centred)), freedom if freedom > 0 else 0)
    return c.reshape(product, ()) if rows.shape[0] == 1 else product


@method
@operator
def corrcoef(input):
    """The correlation coefficients of the rows of a matrix, within [-1, 1]."""
    spread = cov(input)
    if spread.ndim == 0:
        return c.div(spread, spread)
    n = spread.shape[0]
    ids = c.iota(n, 0, 1, dt.int64, input.device)
    same = c.eq(c.reshape(ids, (n, 1)), ids)
    root = c.sqrt(c.sum(c.where(same, spread, 0.0), (1,), False))
    scaled = c.div(c.div(spread, c.reshape(root, (n, 1))), root)
    if not input.dtype.is_complex:
        return c.maximum(c.minimum(scaled, 1), -1)
    parts = c.maximum(c.minimum(c.view_as_real(scaled), 1), -1)
    return c.view_as_complex(parts)
