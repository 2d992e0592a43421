"""How a tl.dot multiplies float32: exactly, in three products of tf32, or, where the program allows it, in one.

Input: the dtype, how many terms are added up, and the target, whose option `tf32` is runtime.matmul_allow_tf32.
"""

from __future__ import annotations

from collections.abc import Callable

from stage_contracts.dtype import DType
from stage_contracts.program import Target

Precision = Callable[[int], str]  # precision_of for a dtype and a target

# Of float32, that tensor cores add up: with heads of up to 128 the results have .5 to 1.5 times eager's mean error, the
# gradients with 130 2.0 times, with 256 2.2; with products in float32 1.0 to 1.1 (H200).
MOST_TERMS = 128


def precision_of(dtype: DType, terms: int, tf32: bool) -> str:
    """The last words of a tl.dot that adds up so many terms. Three products of tf32 have the bits of float32 but the
    last one or two; as tensor cores cut their sum off after each few terms, the error grows with the terms. Where the
    program allows tf32, one product of it does, as of any two matrices."""
    if dtype.itemsize <= 2:
        return ""
    exact = "tf32x3" if terms <= MOST_TERMS else "ieee"
    return f', input_precision="{"tf32" if tf32 else exact}"'


def allows_tf32(target: Target) -> bool:
    """Whether the program lets products of float32 take the first 10 bits of each factor."""
    return bool(target.options.get("tf32"))
