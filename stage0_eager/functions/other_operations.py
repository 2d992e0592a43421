"""Sequences: evenly spaced numbers, grids, triangles of indices, differences and integrals along a dimension.

Input: Python numbers for new sequences; tensors for differences and integrals.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.defaults import device_or_default, dtype_or_default
from stage0_eager.functions import joining
from stage0_eager.functions.aliases import alias
from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.promotion import in_common, same_dtype
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.numpy_numbers import in_python
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.dtype import dtype_of


def _spaced(start, end, steps, dtype, device):
    """From both ends towards the middle, so that the last element is `end` exactly."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    wide = dt.float32 if dtype.is_floating_point and dtype is not dt.float64 else dt.float64
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    i = c.iota(steps, 0, 1, dt.int64, device)
    up = c.add(c.mul(c.cast(i, wide), step), start)
    down = c.sub(end, c.mul(c.cast(c.sub(steps - 1, i), wide), step))
    return c.where(c.lt(i, steps // 2 if steps > 1 else 1), up, down)


def _number_of(value, dtype):
    """A Python number as a dtype holds it: -5 as uint8 is 251."""
    if dtype.limits is None or type(value) not in (int, float):
        return value
    dt.check_number(value, dtype)
    return int(value) % (dtype.limits[1] + 1) if dtype.limits[0] == 0 else int(value)


@operator
def linspace(start, end, steps, *, dtype=None, device=None):
    """`steps` numbers from start to end, both included. Of an integer dtype, both are truncated to it first."""
    dtype = dtype_or_default(dtype)
    if dtype is dt.bool_ and steps > 1:  # as in torch, which has no arithmetic for it
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    if steps > 0:
        start = _number_of(start, dtype)
    if steps > 1:  # no fewer elements ask for it
        end = _number_of(end, dtype)
    out = _spaced(start, end, steps, dtype, device_or_default(device))
    return out if out.dtype is dtype else c.cast(out, dtype)


@operator
def logspace(start, end, steps, base=10.0, *, dtype=None, device=None):
    """base ** linspace(start, end, steps)."""
    dtype = dtype_or_default(dtype)
    out = c.pow(float(base), _spaced(start, end, steps, dtype, device_or_default(device)))
    return out if out.dtype is dtype else c.cast(out, dtype)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A 0-d tensor; float32 unless a dtype is given."""
    return c.full((), s, dtype_or_default(dtype), device_or_default(device))


@operator
def grid_of(tensors, indexing="ij"):
    """Each 1-d tensor along a dimension of its own, all expanded to the common grid."""
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    tensors = [c.reshape(x, (1,)) if x.ndim == 0 else x for x in tensors]
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    same_dtype("meshgrid", *tensors)
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x.ndim}D")
    rank = len(tensors)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    shape: list = [None] * rank
    for x, dim in zip(tensors, order, strict=True):
        shape[dim] = x.shape[0]
    return tuple(
        c.expand(c.reshape(x, tuple(x.shape[0] if i == dim else 1 for i in range(rank))), tuple(shape))
        for x, dim in zip(tensors, order, strict=True)
    )


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple:
    """meshgrid(x, y) or meshgrid([x, y])."""
    many = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return grid_of(list(many), indexing)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of 1-d tensors, one a row; one tensor alone is itself."""
    if len(tensors) == 1:
        return tensors[0]
    grids = grid_of(list(tensors), "ij")
    return c.cat([c.reshape(g, (g.numel(), 1)) for g in grids], 1)


def _triangle(indices: tuple, dtype: Any, device: Any) -> Tensor:
    return Tensor(arrays.move(np.stack(indices).astype(dtype_of(dtype).numpy), device_or_default(device)))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dt.int64, device: Any = None) -> Tensor:
    """(2, n): rows and columns of the lower triangle of a (row, col) matrix. Runs eagerly."""
    return _triangle(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dt.int64, device: Any = None) -> Tensor:
    """(2, n): rows and columns of the upper triangle of a (row, col) matrix. Runs eagerly."""
    return _triangle(np.triu_indices(row, offset, col), dtype, device)


@operator
def vander(x, N=None, increasing=False):
    """The powers of a vector's elements as columns, falling unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    columns = x.shape[0] if N is None else N
    if columns < 0:
        raise RuntimeError("N must be non-negative.")
    powers = c.iota(columns, 0 if increasing else columns - 1, 1 if increasing else -1, dt.int64, x.device)
    return c.pow(c.reshape(x, (x.shape[0], 1)), powers)


def _ends(x, dim):
    """Everything but the first, and everything but the last, along dim."""
    n = x.shape[dim]
    return c.slice(x, dim, 1, n, 1), c.slice(x, dim, 0, n - 1, 1)


@method
@operator
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along `dim`, n times; bools are compared."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, input.ndim)
    parts = [x for x in (prepend, input, append) if x is not None]
    out = c.cat(parts, dim) if len(parts) > 1 else input if n else c.clone(input)
    subtract = c.logical_xor if out.dtype is dt.bool_ else c.sub
    for _ in range(n):
        if out.shape[dim] == 0:
            return out
        out = subtract(*_ends(out, dim))
    return out


def _trapezoids(y, x, dx, dim):
    """The area under each step along dim."""
    if dt.bool_ in (y.dtype, x if x is None else x.dtype):
        raise RuntimeError("trapezoid: received a bool input for `x` or `y`, but bool is not supported")
    right, left = _ends(y, dim)
    total = c.add(left, right)
    if x is None:
        return c.mul(total, (1 if dx is None else dx) / 2)
    if dx is not None:
        raise RuntimeError("trapezoid takes x or dx, not both")
    if x.ndim == 1 and x.shape[0] != y.shape[dim]:
        raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
    if x.ndim == 1 and y.ndim > 1:
        x = c.reshape(x, tuple(x.shape[0] if i == dim else 1 for i in range(y.ndim)))
    width = c.sub(*_ends(x, dim if x.ndim == y.ndim else dim - y.ndim + x.ndim))
    return c.div(c.mul(total, width), 2)


@operator
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The integral of y along `dim` by trapezoids: at the places x, or dx apart (1 unless given)."""
    dim = wrap_dim(dim, y.ndim)
    if x is None and not y.dtype.is_differentiable:
        y = c.cast(y, dt.int64)  # of which sums are
    return c.sum(_trapezoids(y, x, dx, dim), (dim,), False)


trapz = alias("trapz", trapezoid)


@operator
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The running integral of y along `dim`: one element fewer than y."""
    dim = wrap_dim(dim, y.ndim)
    return c.cumsum(_trapezoids(y, x, dx, dim), dim)


@operator
def block_diag_of(tensors):
    """The matrices along the diagonal of one, zero elsewhere; vectors count as rows."""
    blocks = []
    for x in in_common(*tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Got {x.ndim}D"
            )
        blocks.append(c.reshape(x, (1, *([1] * (1 - x.ndim)), *x.shape)) if x.ndim < 2 else x)
    total = sum(x.shape[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        rows.append(c.constant_pad(x, ((0, 0), (left, total - left - x.shape[1])), 0))
        left += x.shape[1]
    return c.cat(rows, 0)


def block_diag(*tensors: Tensor) -> Tensor:
    """block_diag(a, b, ...): the matrices along the diagonal of one."""
    return block_diag_of(list(tensors))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, one a row, in the order of itertools."""
    if input.ndim != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " + str(list(input.shape)))
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    if not rows or not r:
        return c.full((0,), 0, input.dtype, input.device)
    import numpy as np

    places = Tensor(arrays.move(np.array(rows, np.int64), input.device))
    return input[places]


def broadcast_tensors(*tensors: Any) -> tuple:
    """broadcast_tensors(x, y, ...): all at their common shape, as views."""
    many = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return joining.broadcast_tensors(list(many))


def broadcast_shapes(*shapes: Any) -> tuple:
    """The shape that shapes (tuples, or ints for one dimension) broadcast to."""
    return core_metas.broadcast_shapes(*((s,) if isinstance(s, int) else tuple(s) for s in shapes))


@method
@operator
@in_float32
def renorm(input, p, dim, maxnorm):
    """Each part of input along `dim` scaled down to the p-norm maxnorm where it is above."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    dim = wrap_dim(dim, input.ndim)
    others = tuple(d for d in range(input.ndim) if d != dim)
    norms = vector_norm(input, p, others, True)
    scale = c.where(c.gt(norms, maxnorm), c.div(maxnorm, c.add(norms, 1e-7)), 1.0)
    return c.mul(input, scale)


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """Derivatives along dims by central differences, one-sided at the ends; spacing is a number, or one per dim."""
    spacing, dim = in_python((spacing, dim))
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    if edge_order != 1:
        raise NotImplementedError("gradient: only edge_order=1 is supported")
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(list(dims))
    if any(isinstance(step, Tensor) for step in steps):
        raise NotImplementedError("gradient: spacing by coordinates is not supported; pass numbers")
    return [_central(input, wrap_dim(d, input.ndim), step) for d, step in zip(dims, steps, strict=True)]


def _central(x, dim, step):
    n = x.shape[dim]
    if n < 2:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    part = lambda low, high: c.slice(x, dim, low, high, 1)  # noqa: E731
    first, last = c.sub(part(1, 2), part(0, 1)), c.sub(part(n - 1, n), part(n - 2, n - 1))
    middle = c.div(c.sub(part(2, n), part(0, n - 2)), 2)
    return c.div(c.cat([first, middle, last] if n > 2 else [first, last], dim), step)
