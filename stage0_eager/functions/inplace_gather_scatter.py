"""In-place forms of what places elements by index: index_add_, scatter_, index_put_, masked_scatter_ and the like.

Input: a tensor to write to, then the arguments of the function without the underscore.
"""

from __future__ import annotations

from stage0_eager.functions import gather_scatter, inplace, shape
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt

index_add_ = method(inplace.in_place_form("index_add", gather_scatter.index_add))
index_copy_ = method(inplace.in_place_form("index_copy", gather_scatter.index_copy))
index_fill_ = method(inplace.in_place_form("index_fill", gather_scatter.index_fill))
index_put_ = method(inplace.in_place_form("index_put", gather_scatter.index_put))
masked_scatter_ = method(inplace.in_place_form("masked_scatter", gather_scatter.masked_scatter))
scatter_reduce_ = method(inplace.in_place_form("scatter_reduce", gather_scatter.scatter_reduce))


@method
@operator
def scatter_(input, dim, index, src=None, *, value=None, reduce=None):
    """Write src (a tensor or a number, which torch calls value) to the places of dim that index names."""
    src = value if src is None else src
    return inplace.write_computed(
        input, gather_scatter.scatter(inplace.kept(input, ()), dim, index, src, reduce=reduce)
    )


@method
@operator
def scatter_add_(input, dim, index, src):
    """Add src to the places of dim that index names; repeats add up."""
    return inplace.write_computed(input, shape.scatter_add(inplace.kept(input, ()), dim, index, src))


@method
@operator
def fill_diagonal_(input, fill_value, wrap=False):
    """Set the main diagonal of a matrix (of a cube: its space diagonal). wrap: of a tall matrix, again and again."""
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.ndim > 2 and len(set(input.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = input.shape[0], input.shape[-1]
    step = sum(_row_major(input.shape))
    end = input.numel() if wrap or input.ndim > 2 else min(rows, columns) * columns
    flat = c.reshape(input, (input.numel(),))
    place = c.iota(input.numel(), 0, 1, dt.int64, input.device)
    hit = c.logical_and(c.eq(c.remainder(place, step), 0), c.lt(place, end))
    return inplace.write(input, c.reshape(c.where(hit, fill_value, flat), input.shape))


def _row_major(sizes):
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return strides


for _op in (scatter_, scatter_add_, fill_diagonal_):
    _op.mutates = ("input",)
