"""How a tl.dot multiplies float32: in three products of tf32, or, where the program allows it, in one.

Input: the dtype, and the target, whose option `tf32` is runtime.matmul_allow_tf32.
"""

from __future__ import annotations

from stage_contracts.dtype import DType
from stage_contracts.program import Target


def precision_of(dtype: DType, tf32: bool) -> str:
    """The last words of a tl.dot. Three products of tf32 have the bits of float32 but the last one or two; as tensor
    cores cut their sum off after each few terms, the error grows with the terms (attention.largest_width). Where the
    program allows tf32, one product of it does, as of any two matrices."""
    if dtype.itemsize <= 2:
        return ""
    return f', input_precision="{"tf32" if tf32 else "tf32x3"}"'


def allows_tf32(target: Target) -> bool:
    """Whether the program lets products of float32 take the first 10 bits of each factor."""
    return bool(target.options.get("tf32"))
