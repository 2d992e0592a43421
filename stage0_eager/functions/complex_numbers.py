"""Second names of functions that are not elementwise, and what complex functions are for tensors that are real.

Input: the functions they stand for. Each is a row of its own, so that a graph shows the name the user wrote.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stage0_eager.functions import joining, other_operations, shape
from stage0_eager.functions.linalg import products
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator, operator
from stage0_eager.table.registry import register

if TYPE_CHECKING:  # the rows that a loop below makes

    def __getattr__(name: str) -> Any: ...


_ALIASES = {
    "concat": shape.cat, "concatenate": shape.cat, "row_stack": joining.vstack, "vdot": products.dot,
    "ger": products.outer, "trapz": other_operations.trapezoid, "unsafe_chunk": shape.chunk,
    "unsafe_split": shape.split,
}  # fmt: skip


def _alias(name: str, original: Operator) -> Operator:
    op = register(Operator(name, "", body=original.body))
    op.__name__, op.__doc__ = name, f"As {original.name}: {original.__doc__}"
    return op


globals().update({name: _alias(name, original) for name, original in _ALIASES.items()})


@operator
def conj(input):
    """input itself: it is real."""
    return input


@operator
def conj_physical(input):
    """input itself: it is real."""
    return input


@operator
def resolve_conj(input):
    """input itself: it is real."""
    return input


@operator
def resolve_neg(input):
    """input itself: nothing here is negated lazily."""
    return input


@operator
def real(input):
    """input itself."""
    return input


@operator
def angle(input):
    """0 for what is not negative, pi for what is; NaN stays NaN."""
    if not input.is_floating_point():
        return c.where(c.lt(input, 0), math.pi, 0.0)
    out = c.where(c.lt(input, 0), c.full((), math.pi, input.dtype, input.device), 0.0)
    return c.where(c.isnan(input), input, out)
