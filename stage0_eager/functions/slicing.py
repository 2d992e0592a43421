"""Tensors cut into pieces, put back into place, and put together from blocks.

Input: tensors. Splits are views; the scatters give copies with a piece replaced.
"""

from __future__ import annotations

import itertools
from typing import Any

from stage0_eager import arrays
from stage0_eager.derivatives.rules import into_diagonal
from stage0_eager.functions import joining
from stage0_eager.functions.gather_scatter import index_select
from stage0_eager.functions.shape import narrow, split
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim

# ---- cut -------------------------------------------------------------------------------------------------------


@method
@operator
def split_with_sizes(input, split_sizes, dim=0):
    """Pieces of the sizes given. Views."""
    return split(input, list(split_sizes), dim)


@method
@operator
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """As split_with_sizes."""
    return split(input, list(split_sizes), dim)


def _split_along(name: str, least: int, input: Tensor, indices_or_sections: Any) -> tuple:
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension{'s' if least > 1 else ''}, but got a "
            f"tensor with {input.ndim} dimensions!"
        )
    dim = {"hsplit": 0 if input.ndim == 1 else 1, "vsplit": 0, "dsplit": 2}[name]
    if isinstance(indices_or_sections, int) and input.shape[dim] % indices_or_sections:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input.shape[dim]} is not divisible by the split_size {indices_or_sections}!"
        )
    return joining.tensor_split(input, indices_or_sections, dim)


def _sections(given: tuple) -> Any:
    return given[0] if len(given) == 1 else given


@method
def hsplit(input: Tensor, *indices_or_sections: Any) -> tuple:
    """Equal pieces, or pieces between indices, along dimension 1 (0 of a vector). Views."""
    return _split_along("hsplit", 1, input, _sections(indices_or_sections))


@method
def vsplit(input: Tensor, *indices_or_sections: Any) -> tuple:
    """Equal pieces, or pieces between indices, along dimension 0. Views."""
    return _split_along("vsplit", 2, input, _sections(indices_or_sections))


@method
def dsplit(input: Tensor, *indices_or_sections: Any) -> tuple:
    """Equal pieces, or pieces between indices, along dimension 2. Views."""
    return _split_along("dsplit", 3, input, _sections(indices_or_sections))


@method
@operator
def narrow_copy(input, dim, start, length):
    """A copy of narrow's piece."""
    return c.clone(narrow(input, dim, start, length))


# ---- put back --------------------------------------------------------------------------------------------------


@method
@operator
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """A copy of input with input[start:end:step] of `dim` replaced by src."""
    return c.slice_scatter(input, src, wrap_dim(dim, input.ndim), start, end, step)


@method
@operator
def select_scatter(input, src, dim, index):
    """A copy of input with position `index` of `dim` replaced by src."""
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    index = index + size if index < 0 else index
    src = c.reshape(src, (*src.shape[:dim], 1, *src.shape[dim:]))
    return c.slice_scatter(input, src, dim, index, index + 1, 1)


@method
@operator
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """A copy of input with a diagonal replaced by src."""
    return into_diagonal(input, src, offset, dim1, dim2)


@method
@operator
def diagflat(input, offset=0):
    """A matrix with the flattened input as its diagonal."""
    return joining.diag(c.reshape(input, (input.numel(),)), offset)


# ---- put together ----------------------------------------------------------------------------------------------


@operator
def block_diag_of(tensors):
    """The matrices along the diagonal of one, zero elsewhere; vectors count as rows."""
    blocks = []
    for x in tensors:
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

    places = Tensor(arrays.move(np.array(rows, np.int64).ravel(), input.device))
    return c.reshape(index_select(input, 0, places), (len(rows), r))


def broadcast_tensors(*tensors: Any) -> tuple:
    """broadcast_tensors(x, y, ...): all at their common shape, as views."""
    many = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return joining.broadcast_tensors(list(many))


def broadcast_shapes(*shapes: Any) -> tuple:
    """The shape that shapes (tuples, or ints for one dimension) broadcast to."""
    return core_metas.broadcast_shapes(*((s,) if isinstance(s, int) else tuple(s) for s in shapes))


@operator
def unravel_index(indices, shape):
    """The places of flat indices in an array of `shape`, one tensor per dimension."""
    if indices.dtype.is_floating_point or indices.dtype is dt.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype.name}")
    places = []
    for size in reversed((shape,) if isinstance(shape, int) else tuple(shape)):
        places.append(c.remainder(indices, size))
        indices = c.floor_divide(indices, size)
    return tuple(reversed(places))


@method
@operator
def renorm(input, p, dim, maxnorm):
    """Each part of input along `dim` scaled down to the p-norm maxnorm where it is above."""
    dim = wrap_dim(dim, input.ndim)
    others = tuple(d for d in range(input.ndim) if d != dim)
    norms = vector_norm(input, p, others, True)
    scale = c.where(c.gt(norms, maxnorm), c.div(maxnorm, c.add(norms, 1e-7)), 1.0)
    return c.mul(input, scale)


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """Derivatives along dims by central differences, one-sided at the ends; spacing is a number, or one per dim."""
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    if edge_order != 1:
        raise NotImplementedError("gradient: only edge_order=1 is here")
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(list(dims))
    if any(isinstance(step, Tensor) for step in steps):
        raise NotImplementedError("gradient: spacing by coordinates is not here; give numbers")
    return [_central(input, wrap_dim(d, input.ndim), step) for d, step in zip(dims, steps, strict=True)]


def _central(x, dim, step):
    n = x.shape[dim]
    if n < 2:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    part = lambda low, high: c.slice(x, dim, low, high, 1)  # noqa: E731
    first, last = c.sub(part(1, 2), part(0, 1)), c.sub(part(n - 1, n), part(n - 2, n - 1))
    middle = c.div(c.sub(part(2, n), part(0, n - 2)), 2)
    return c.div(c.cat([first, middle, last] if n > 2 else [first, last], dim), step)
