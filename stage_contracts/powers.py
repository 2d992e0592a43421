"""x ** number without the general power, which takes ten to a hundred times as long: for the numbers that programs use.

Input: an exponent that is a number. torch takes the same ways (aten/native/cpu/PowKernel), with what they give for -0.0
and -inf: the root of -inf is no number, that of -0.0 is -0.0; but for float16, of which torch takes the general power.
"""

from __future__ import annotations

from typing import Any

from stage_contracts.dtype import INTEGER, DType, float16

# What is done to the value so far, which begins as x: `square` times itself, `times` times x, or the operator.
STEPS: dict[float, tuple[str, ...]] = {
    2: ("square",),
    3: ("square", "times"),
    4: ("square", "square"),
    0.5: ("sqrt",),
    -0.5: ("rsqrt",),
    -1: ("reciprocal",),
}
_OF_INTEGERS, _ROOTS = (2, 3, 4), (0.5, -0.5)


def steps_of(exponent: Any, dtype: DType) -> tuple[str, ...]:
    """The steps that make x ** exponent for an x of this dtype; () where only the general power does."""
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float)):
        return ()
    integer, root_of_half = dtype.category == INTEGER, dtype is float16 and exponent in _ROOTS
    known = exponent in _OF_INTEGERS if integer else dtype.is_floating_point and not root_of_half
    return STEPS.get(exponent, ()) if known else ()
