"""torch's functions of complex numbers, for real tensors.

Input: tensors, which are all real: most of these functions return their input.
"""

from __future__ import annotations

import math

from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method


@method
@operator
def conj(input):
    """input itself: it is real."""
    return input


@method
@operator
def conj_physical(input):
    """input itself: it is real."""
    return input


@method
@operator
def resolve_conj(input):
    """input itself: it is real."""
    return input


@method
@operator
def resolve_neg(input):
    """input itself: nothing here is negated lazily."""
    return input


@operator
def real(input):
    """input itself."""
    return input


@method
@operator
def angle(input):
    """0 for what is not negative, pi for what is; NaN stays NaN."""
    if not input.is_floating_point():
        return c.where(c.lt(input, 0), math.pi, 0.0)
    out = c.where(c.lt(input, 0), c.full((), math.pi, input.dtype, input.device), 0.0)
    return c.where(c.isnan(input), input, out)
