"""Joins tensors: hstack, vstack, dstack, column_stack, and functions that bring operands to one rank or shape.

Input: several tensors. `cat` and `stack` are in shape.py.
"""

from __future__ import annotations

from stage0_eager.functions.shape import cat, unsqueeze
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts.core_metas import broadcast_shapes

# ---- together ------------------------------------------------------------------------------------------------


@operator
def atleast_1d(input):
    """A 0-d tensor as one of shape (1,), also in a sequence; others as they are."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_1d(x) for x in input)
    return input if input.ndim else c.reshape(input, (1,))


@operator
def atleast_2d(input):
    """Leading dimensions added until there are two, also in a sequence."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_2d(x) for x in input)
    return input if input.ndim >= 2 else c.reshape(input, (1, input.numel()))


@operator
def atleast_3d(input):
    """At least three dimensions: (n,) becomes (1, n, 1) and (n, m) becomes (n, m, 1); also in a sequence."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_3d(x) for x in input)
    if input.ndim >= 3:
        return input
    return unsqueeze(atleast_2d(input), -1)


@operator
def hstack(tensors):
    """Side by side: along dimension 1, or 0 for vectors."""
    tensors = atleast_1d(_some(tensors, "hstack"))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@operator
def vstack(tensors):
    """One below the other: along dimension 0, vectors as rows."""
    return cat(atleast_2d(_some(tensors, "vstack")), 0)


@operator
def dstack(tensors):
    """One behind the other: along dimension 2."""
    return cat(atleast_3d(_some(tensors, "dstack")), 2)


@operator
def column_stack(tensors):
    """As hstack, vectors and numbers as columns."""
    tensors = _some(tensors, "column_stack")
    return hstack([c.reshape(x, (x.numel(), 1)) if x.ndim <= 1 else x for x in tensors])


def _some(tensors, name):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


@operator
def broadcast_tensors(tensors):
    """All at their common shape, as views. (torch's is variadic: broadcast_tensors(x, y).)"""
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(c.expand(x, shape) for x in tensors)
