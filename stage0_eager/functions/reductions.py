"""Public reductions, by torch's names: dims may be None, an int or a tuple, counted from the end too.

Input: tensors. Bodies bring the dims into normal form and call core reductions; means and variances are
written in their numerically sound forms.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stage0_eager.derivatives.rules import spread
from stage0_eager.functions.in_float32 import in_float32, narrowed, widened
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import on_array
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.half_numbers import HALVES


def all_dims(input, dim):
    """`dim` (None, int, tuple) as a tuple of non-negative dims."""
    return _all_dims(input.ndim, tuple(dim) if type(dim) is list else dim)


@lru_cache(maxsize=1024)  # few ranks, few dims: 0.5 µs less
def _all_dims(rank, dim):
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if rank == 0:
        return tuple(wrap_dim(d, 0) for d in dims)[:0]
    return tuple(wrap_dim(d, rank) for d in dims)


def count(input, dims):
    """How many elements a reduction over `dims` combines into one."""
    total = 1
    for d in dims:
        total = total * input.shape[d]
    return total


def any_empty(input, dims):
    """Whether a dimension to reduce is known to have no elements."""
    return 0 in [input.shape[d] for d in dims if isinstance(input.shape[d], int)]


def _truth(result, input):
    """any and all of uint8 are uint8, as in torch."""
    return c.cast(result, dt.uint8) if input.dtype is dt.uint8 else result


def reduced_in(reduction, input, dtype, *args):
    """reduction(input, *args) of elements of `dtype`, where one is given, and in it: small integers wrap around."""
    if dtype is None:
        return reduction(input, *args)
    return c.cast(reduction(c.cast(input, dtype), *args), dtype)


@method
@operator
def sum(input, dim=None, keepdim=False, *, dtype=None):
    """Sum over `dim` (all when None). Integers and bools give int64 unless `dtype` says otherwise."""
    return reduced_in(c.sum, input, dtype, all_dims(input, dim), keepdim)


@sum.quickly
def _sum(input, dim=None, keepdim=False, *, dtype=None):
    if dtype is None and type(dim) is not list:
        return c.sum.eager(input, _all_dims(input._data.ndim, dim), keepdim)
    return sum.run(input, dim, keepdim, dtype=dtype)


@method
@operator
def prod(input, dim=None, keepdim=False, *, dtype=None):
    """Product over `dim` (all when None)."""
    return reduced_in(c.prod, input, dtype, all_dims(input, dim), keepdim)


@method
@operator
def mean(input, dim=None, keepdim=False, *, dtype=None):
    """Arithmetic mean over `dim`; floating dtypes only. Of halves in float32: a sum may be larger than any half."""
    if dtype is not None and dtype is not input.dtype:
        input = c.cast(input, dtype)
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"mean(): Input dtype must be floating, got {input.dtype.name}")
    dims = all_dims(input, dim)
    if input.dtype in HALVES:
        return c.cast(c.div(wide_sum(input, dims, keepdim), count(input, dims)), input.dtype)
    return c.div(c.sum(input, dims, keepdim), count(input, dims))


@operator
def wide_sum(input, dims, keepdim):
    """The sum over `dims`; of halves the float32, not rounded."""
    return c.sum(widened(input)[0], dims, keepdim)


# rounded before it is spread: the body's would round each element
wide_sum.derivative(
    input=lambda g, input_meta, dims, keepdim: spread(c.cast(g, input_meta.dtype), input_meta, dims, keepdim)
)


@operator
def sum_of_squares(input, dims):
    """The squares summed over `dims`, which stay with size 1: what variances and norms are made of."""
    return c.sum(c.mul(input, input), dims, True)


# x times a number per sum: one step over x, where the body's would take four
sum_of_squares.derivative(input=lambda g, input: c.mul(input, c.mul(g, 2)))


@method
@operator
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """Variance over `dim` in two passes, divided by (n - correction); `unbiased` says correction 1 or 0.

    Of halves in float32: a sum may be larger than any half, and a mean that is rounded is none.
    """
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    correction = correction if unbiased is None else int(unbiased)
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"std and var only support floating point dtypes, got {input.dtype.name}")
    dims = all_dims(input, dim)
    if input.dtype in HALVES:
        wide = c.cast(input, dt.float32)
        return c.cast(var(wide, dims, keepdim=keepdim, correction=correction), input.dtype)
    n = count(input, dims)
    centred = c.sub(input, c.div(c.sum(input, dims, True), n))
    freedom = n - correction
    total = sum_of_squares(c.abs(centred) if input.dtype.is_complex else centred, dims)
    total = total if keepdim else without_dims(total, dims)
    return c.div(total, freedom if freedom > 0 else 0)


def without_dims(x, dims):
    """x without `dims`, each of size 1."""
    return c.reshape(x, tuple(size for i, size in enumerate(x.shape) if i not in dims))


@method
@operator
@in_float32
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """Standard deviation: the root of `var`."""
    return c.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


@method
@operator
def amax(input, dim=(), keepdim=False):
    """Largest element over `dim`; gradient shared between ties."""
    return c.amax(input, all_dims(input, dim), keepdim)


@method
@operator
def amin(input, dim=(), keepdim=False):
    """Smallest element over `dim`; gradient shared between ties."""
    return c.amin(input, all_dims(input, dim), keepdim)


@method
@operator
def any(input, dim=None, keepdim=False):
    """Whether any element is nonzero."""
    return _truth(c.any(input, _these_dims(input, dim), keepdim), input)


@method
@operator
def all(input, dim=None, keepdim=False):
    """Whether all elements are nonzero."""
    return _truth(c.all(input, _these_dims(input, dim), keepdim), input)


def _these_dims(input, dim):
    """As all_dims, but no dimension for `()`, which to any and all alone does not mean all of them."""
    return all_dims(input, dim) if dim is None or isinstance(dim, int) or len(dim) else ()


@method
@operator
def argmax(input, dim=None, keepdim=False):
    """Position of the first largest element, along `dim` or in the flattened tensor."""
    return _place(c.argmax, input, dim, keepdim)


@method
@operator
def argmin(input, dim=None, keepdim=False):
    """Position of the first smallest element, along `dim` or in the flattened tensor."""
    return _place(c.argmin, input, dim, keepdim)


def _place(of, input, dim, keepdim):
    if dim is not None:
        return of(input, wrap_dim(dim, input.ndim), keepdim)
    around = (1,) * (input.ndim - 1) if keepdim else ()
    return of(c.reshape(input, (*around, input.numel())), len(around), keepdim and input.ndim > 0)


@method
@operator
def cumsum(input, dim, *, dtype=None):
    """Running sum along `dim`."""
    return reduced_in(c.cumsum, input, dtype, wrap_dim(dim, input.ndim))


@method
@operator
@in_float32
def logsumexp(input, dim, keepdim=False):
    """log(sum(exp(input))) without overflow."""
    dims = all_dims(input, dim)
    if any_empty(input, dims):  # log(0), with no largest to subtract
        return c.log(c.sum(c.exp(input), dims, keepdim))
    largest = c.detach(c.amax(input, dims, True))
    largest = c.where(c.isinf(largest), 0.0, largest)
    total = c.add(c.log(c.sum(c.exp(c.sub(input, largest)), dims, True)), largest)
    if keepdim:
        return total
    return c.reshape(total, tuple(s for i, s in enumerate(input.shape) if i not in dims))


def older_dim(input):
    """The dimension of a softmax that names none, which torch still accepts: 0 of 0, 1 or 3 dimensions, else 1."""
    return 0 if input.ndim in (0, 1, 3) else 1


def _along(out, dim):
    return (wrap_dim(older_dim(out) if dim is None else dim, out.ndim),) if out.ndim else ()


def in_rows(input):
    """The input of what gives a row-major result whatever its operand's layout is."""
    return input if input.meta.is_contiguous else c.contiguous(input)


@method
@operator
def softmax(input, dim=None, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`, shifted by the maximum. Without `dim`: see older_dim."""
    dim = older_dim(input) if dim is None else dim
    if dtype is not None and dtype is not input.dtype:
        input = c.cast(input, dtype)
    needs_floating("softmax", input)
    input = in_rows(input)
    dims = all_dims(input, dim)
    if any_empty(input, dims):  # no largest to subtract, and nothing to divide
        return c.clone(input)
    input, narrow = widened(input)
    e = c.exp(c.sub(input, c.amax(input, dims, True)))
    return narrowed(c.div(e, c.sum(e, dims, True)), narrow)


def _softmax_input(g, out, dim, input_meta):
    (g, _), (out, _) = widened(g), widened(out)
    return _cast_like(c.mul(out, c.sub(g, c.sum(c.mul(g, out), _along(out, dim), True))), input_meta)


softmax.derivative(input=_softmax_input)


@method
@operator
def log_softmax(input, dim=None, dtype=None):
    """log(softmax(x)) along `dim` without taking the log of a small number. Without `dim`: see older_dim."""
    dim = older_dim(input) if dim is None else dim
    if dtype is not None and dtype is not input.dtype:
        input = c.cast(input, dtype)
    needs_floating("log_softmax", input)
    input = in_rows(input)
    dims = all_dims(input, dim)
    if any_empty(input, dims):
        return c.clone(input)
    input, narrow = widened(input)
    shifted = c.sub(input, c.amax(input, dims, True))
    return narrowed(c.sub(shifted, c.log(c.sum(c.exp(shifted), dims, True))), narrow)


def _log_softmax_input(g, out, dim, input_meta):
    (g, _), (out, _) = widened(g), widened(out)
    return _cast_like(c.sub(g, c.mul(c.exp(out), c.sum(g, _along(out, dim), True))), input_meta)


log_softmax.derivative(input=_log_softmax_input)


def _softmax_rows(x, out, dim):
    np.subtract(x, np.maximum.reduce(x, dim, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, dim, keepdims=True), out=out)


def _log_softmax_rows(x, out, dim):
    np.subtract(x, np.maximum.reduce(x, dim, keepdims=True), out=out)
    np.subtract(out, np.log(np.add.reduce(np.exp(out), dim, keepdims=True)), out=out)


def _by_rows(function):
    """`function(x, out, dim)` on an array; block by block where rows lie in one piece, so that a block stays in the
    cache. A row's sum does not depend on the rows beside it: not a bit differs."""

    def call(x, dim, dtype):
        if dtype is not None or type(dim) is not int or not -x.ndim <= dim < x.ndim:
            return None
        out = np.empty_like(x)
        if not x.size:  # maybe rows without elements, which have no largest
            return out
        if x.size <= _BLOCK or dim not in (-1, x.ndim - 1):
            function(x, out, dim)
            return out
        rows, into = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
        step = max(1, _BLOCK // x.shape[-1])
        for at in range(0, len(rows), step):
            function(rows[at : at + step], into[at : at + step], -1)
        return out

    return call


_BLOCK = 1 << 16  # elements

softmax.quickly(on_array(softmax, _by_rows(_softmax_rows)))
log_softmax.quickly(on_array(log_softmax, _by_rows(_log_softmax_rows)))


def _cast_like(g, meta):
    return g if g.dtype is meta.dtype else c.cast(g, meta.dtype)
