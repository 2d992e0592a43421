"""Norms of matrices, and what is said in terms of singular values: rank and condition.

Input: batches of matrices in the last two dimensions, or in the two that `dim` names.
"""

from __future__ import annotations

import math

import numpy as np

from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts.core_metas import wrap_dim


def rank_tolerance(A, singular, atol, rtol):
    """Below this a singular value counts as 0: max(atol, rtol * the largest), as torch chooses the defaults."""
    if rtol is None:
        nothing = atol is None or (isinstance(atol, (int, float)) and atol == 0)
        rtol = max(A.shape[-2:]) * float(np.finfo(A.dtype.numpy).eps) if nothing else 0.0
    if not singular.shape[-1]:
        return 0.0
    relative = c.mul(c.amax(singular, (-1,), True), rtol if isinstance(rtol, (int, float)) else _last(rtol))
    return (
        relative
        if atol is None
        else c.maximum(relative, atol if isinstance(atol, (int, float)) else _last(atol))
    )


def _last(x):
    return c.reshape(x, (*x.shape, 1))


@operator
def linalg_matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """How many singular values count as more than 0: int64."""
    _, singular, _ = c.svd(A, False)
    atol = tol if tol is not None else atol
    if atol is not None and rtol is None:
        rtol = 0.0
    return c.sum(c.gt(singular, rank_tolerance(A, singular, atol, rtol)), (-1,), False)


@operator
def linalg_matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """'fro' (root of the sum of squares), 'nuc' (sum of singular values), 1, 2, inf and their negatives."""
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if not A.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype.name}"
        )
    A = A if dtype is None or A.dtype is dtype else c.cast(A, dtype)
    rows, columns = (wrap_dim(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        rest = [d for d in range(A.ndim) if d not in (rows, columns)]
        _, singular, _ = c.svd(c.permute(A, (*rest, rows, columns)), False)
        reduce = {"nuc": c.sum, 2: c.amax, -2: c.amin}[ord]
        return _kept(reduce(singular, (-1,), False), A, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = c.sum(c.abs(A), (inner,), True)
        out = (c.amax if ord > 0 else c.amin)(sums, (outer,), True)
        return _kept(out, A, (rows, columns), keepdim)
    raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


def _kept(out, A, dims, keepdim):
    shape = tuple(1 if i in dims else s for i, s in enumerate(A.shape) if keepdim or i not in dims)
    return out if out.shape == shape else c.reshape(out, shape)


@operator
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A vector norm for one dim, a matrix norm for two; without `ord` the root of the sum of squares of `dim`."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    dims = (dim,) if isinstance(dim, int) else dim
    if dims is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            )
        dims = tuple(range(A.ndim))
    if len(dims) == 1:
        return vector_norm(A, ord, dims, keepdim, dtype=dtype)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    return linalg_matrix_norm(A, ord, dims, keepdim, dtype=dtype)


@method
@operator
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """torch's older spelling: the vector norm of order p over `dim`; 'fro' is 2, 'nuc' the sum of singular values."""
    if p == "nuc":
        return linalg_matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm(): p must be a number, 'fro' or 'nuc', got {p!r}")
    return vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


@operator
def nuclear_norm(input, dim=(-2, -1), keepdim=False):
    """The sum of the singular values."""
    return linalg_matrix_norm(input, "nuc", dim, keepdim)


@operator
def frobenius_norm(input, dim=None, keepdim=False):
    """The root of the sum of squares."""
    return vector_norm(input, 2, dim, keepdim)


@operator
def linalg_cond(A, p=None):
    """The condition number: the largest by the smallest singular value, or norm(A) * norm(inv(A)) of order p."""
    if p in (None, 2, -2):
        _, singular, _ = c.svd(A, False)
        large, small = c.amax(singular, (-1,), False), c.amin(singular, (-1,), False)
        return c.div(small, large) if p == -2 else c.div(large, small)
    return c.mul(linalg_matrix_norm(A, p), linalg_matrix_norm(c.inv(A), p))
