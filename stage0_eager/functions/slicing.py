"""Tensors cut into parts and put back: split, unbind, narrow_copy, diagonals, and the scatters of a slice.

Input: tensors. Splits and diagonals are views; the scatters give copies with a part replaced.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.derivatives.rules import into_diagonal
from stage0_eager.functions.promotion import in_dtype
from stage0_eager.functions.rearranging import movedim
from stage0_eager.functions.shape import (
    narrow,
    select,
    split,
    unsqueeze,
)
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.symbolic import SymInt

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
    return tensor_split(input, indices_or_sections, dim)


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
    return into_diagonal(input, in_dtype(src, input.dtype), offset, dim1, dim2)


@method
@operator
def diagflat(input, offset=0):
    """A matrix with the flattened input as its diagonal."""
    return diag(c.reshape(input, (input.numel(),)), offset)


# ---- put together ----------------------------------------------------------------------------------------------


@method
@operator
def unbind(input, dim=0):
    """Each position of `dim`, without that dimension; views."""
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


@method
@operator
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces of `dim`: so many, as equal as possible (larger ones first), or cut before the places given. Views."""
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (int, SymInt)):
        count = int(indices_or_sections)  # how many pieces there are is asked
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        each, larger = size // count, size % count
        cuts = [i * each + min(i, larger) for i in range(count + 1)]
        return tuple(c.slice(input, dim, a, b, 1) for a, b in zip(cuts, cuts[1:], strict=False))
    starts, stops = [None, *indices_or_sections], [*indices_or_sections, None]
    return tuple(c.slice(input, dim, a, b, 1) for a, b in zip(starts, stops, strict=True))


@method
@operator
def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonal of the planes of dim1 and dim2, as a new last dimension; a view."""
    return c.diagonal(input, offset, dim1, dim2)


@method
@operator
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Square planes, in new dimensions dim1 and dim2, with the last dimension on a diagonal and zeros elsewhere."""
    rank = input.ndim + 1
    dim1, dim2 = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    before = max(-offset, 0)
    pads = (*[(0, 0)] * (input.ndim - 1), (before, size - input.shape[-1] - before))
    rows = unsqueeze(c.constant_pad(input, pads, 0), -1)
    i = c.reshape(c.iota(size, offset, 1, dt.int64, input.device), (size, 1))
    here = c.eq(c.iota(size, 0, 1, dt.int64, input.device), i)
    return movedim(c.where(here, rows, c.full((), 0, input.dtype, input.device)), (-2, -1), (dim1, dim2))


@method
@operator
def diag(input, diagonal=0):
    """A vector as the diagonal of a matrix, or a copy of a matrix's diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return c.clone(c.diagonal(input, diagonal, 0, 1))
