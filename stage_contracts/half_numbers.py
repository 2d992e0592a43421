"""Numbers beside halves: which operators keep them in float32 and round the result once, as torch does on a CPU.

Input: a pointwise core operator's operands. The others round the number to the half first, torch's too: add, sub,
remainder, fmod, pow, comparisons, where. So `x * 70000` and `x / 70000` are finite in float16, and `x + 70000` is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from stage_contracts.dtype import DType, bfloat16, float16

HALVES = (float16, bfloat16)
LARGEST_HALF = 65504
# By operator, the places of the operands that stay as they are. A number in the first place of div is torch's
# `number / tensor`; a tensor without dimensions in the first place of mul and div stays, too, as in torch on a GPU.
KEPT: dict[str, tuple[int, ...]] = {"mul": (0, 1), "div": (0, 1), "floor_divide": (1,)}


def kept_number(name: str, operands: Sequence[tuple[DType, int] | None], compute: DType) -> int | None:
    """The place of the operand that is computed with in float32, beside a half: a number (None), or a tensor without
    dimensions of another dtype. `operands` have a (dtype, number of dimensions) for each tensor."""
    if compute not in HALVES:
        return None
    for place in KEPT.get(name, ()):
        this, other = operands[place], operands[1 - place]
        if (this is None or (this[1] == 0 and this[0] is not compute)) and other and other[0] is compute:
            return place
    return None
