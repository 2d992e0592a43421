"""Layouts: whether strides are dense, which strides a result has, and when a new shape is a view of the old memory.

Input: shapes and strides of TensorMetas, in elements. Unless a docstring says otherwise, these functions add no guard
on open sizes: they return True only if it holds for every size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage_contracts.symbolic import SymInt, hinted, same_shape, same_size, statically_known_true
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


def elementwise_strides(shape: tuple[Any, ...], metas: Sequence[TensorMeta]) -> tuple[Any, ...]:
    """The strides of an elementwise result: dense, its dimensions in the order in which the operands' lie in memory.
    Where two operands lie in different orders it is row-major, as NumPy has it; in torch the first of them decides."""
    if all(m.is_contiguous for m in metas) or any(same_size(n, 0) for n in shape):
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for d in _from_the_inside(len(shape), [_steps(m, len(shape)) for m in metas]):
        strides[d] = step
        step = step * shape[d]
    return tuple(strides)


def order_in_memory(meta: TensorMeta) -> list[int]:
    """The dimensions from the outermost to the innermost, as in a copy that keeps the layout."""
    return _from_the_inside(meta.ndim, [_steps(meta, meta.ndim)])[::-1]


def _steps(meta: TensorMeta, rank: int) -> list[int]:
    """Of each dimension of a result of this rank, how far apart the operand's elements lie: 0 where it has one only."""
    sizes = zip(meta.shape, meta.strides, strict=True)
    own = [0 if same_size(size, 1) else abs(hinted(stride)) for size, stride in sizes]
    return [0] * (rank - meta.ndim) + own


def _from_the_inside(rank: int, operands: Sequence[list[int]]) -> list[int]:
    """The dimensions from the innermost outwards: row-major, but for pairs that all operands with both have the other
    way round. Sorted by insertion, past dimensions that no operand compares it with, as NumPy's iterator does."""
    order = list(reversed(range(rank)))
    for i in range(1, rank):
        place = i
        for k in reversed(range(i)):
            inner, outer = order[i], order[k]
            turned = [steps[inner] < steps[outer] for steps in operands if steps[inner] and steps[outer]]
            if turned and not all(turned):
                break
            place = k if turned else place
        order.insert(place, order.pop(i))
    return order


def packed_strides(shape: Sequence[Any], strides: Sequence[Any]) -> tuple[Any, ...]:
    """Strides with the same order of dimensions, without gaps. A dimension of size 1 may have any stride in an operand,
    but not in a result."""
    packed, stride = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (hinted(strides[d]), -d)):
        packed[d] = stride
        stride = stride * shape[d]
    return tuple(packed)


def is_dense(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether the elements do not overlap and have no gaps, in some order of the dimensions. Adds no guard."""
    expected: Any = 1
    in_memory = sorted(zip(strides, shape, strict=True), key=lambda pair: (hinted(pair[0]), hinted(pair[1])))
    for stride, size in in_memory:
        if same_size(size, 1):
            continue
        if not same_size(stride, expected):
            return False
        expected = expected * size
    return True


def turns_contiguous(meta: TensorMeta) -> bool:
    """Whether strides that are not row-major for all sizes are row-major for the sizes of this call. Adds guards."""
    if meta.is_contiguous or not any(isinstance(n, SymInt) for n in (*meta.shape, *meta.strides)):
        return False
    steps = zip(meta.shape, meta.strides, contiguous_strides(meta.shape), strict=True)
    return any(bool(size == 0) for size in meta.shape) or all(
        bool(size == 1) or bool(stride == wanted) for size, stride, wanted in steps
    )


def view_strides(
    meta: TensorMeta, shape: Sequence[Any], holds: Callable[[Any], bool] = statically_known_true
) -> tuple[Any, ...] | None:
    """The strides with which `shape` is a view of `meta`'s storage, or None if it needs a copy.

    The same as NumPy's reshape, also for sizes of 1, whose strides no index uses. By default this adds no guard on open
    sizes, so None means that it needs a copy for some sizes. `holds=bool` adds guards.
    """
    if same_shape(meta.shape, tuple(shape)):
        return meta.strides
    if holds is bool and (for_all := view_strides(meta, shape)) is not None:
        return for_all  # it holds for all sizes, so no guard is needed
    no_elements = any(holds(size == 0) for size in meta.shape) or any(same_size(size, 0) for size in shape)
    if meta.is_contiguous or no_elements:
        return contiguous_strides(shape)
    blocks = _contiguous_runs(meta, holds)
    return _split_runs(blocks, shape, holds) if blocks else contiguous_strides(shape)


Blocks = list[tuple[Any, Any]]  # (size, stride) of runs of dimensions that are contiguous


def _contiguous_runs(meta: TensorMeta, holds: Callable[[Any], bool]) -> Blocks:
    """The dimensions without those of size 1; neighbours that are contiguous in memory are merged into one run."""
    blocks: Blocks = []
    sizes = zip(meta.shape, meta.strides, strict=True)
    for size, stride in [(size, stride) for size, stride in sizes if not holds(size == 1)]:
        if blocks and holds(blocks[-1][1] == size * stride):
            blocks[-1] = (blocks[-1][0] * size, stride)
        else:
            blocks.append((size, stride))
    return blocks


def _split_runs(blocks: Blocks, shape: Sequence[Any], holds: Callable[[Any], bool]) -> tuple[Any, ...] | None:
    """The strides of `shape`, whose dimensions must divide the runs, from the innermost outwards. None if they do
    not."""
    strides: list[Any] = []
    step: Any = blocks[-1][1]
    left: Any = 1  # the rest of the run that is being split
    for size in reversed(tuple(shape)):
        if holds(size == 1):
            strides.append(step)
            continue
        if holds(left == 1):
            if not blocks:
                return None
            left, step = blocks.pop()
        if not holds(left % size == 0):
            return None
        strides.append(step)
        left, step = left // size, step * size
    return tuple(reversed(strides)) if holds(left == 1) and not blocks else None
