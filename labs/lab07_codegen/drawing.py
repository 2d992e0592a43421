"""The drawing of lab 7's page: a loop nest on the left, the C++ that it becomes on the right.

Input: the sum of squares, lowered, fused and emitted by the tiny stage 3.
"""

from __future__ import annotations

from stage3_lowering import tiny
from stage_contracts.loop_text import print_nest
from stage_contracts.program import Target

from ..core_programs import lowered
from ..drawings import box, head, height_of, path, svg

LEFT, MIDDLE, NARROW, WIDE = 20, 480, 420, 620


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    made = tiny.emit(tiny.fuse(lowered("sum_of_squares")), Target("cpp"))
    (kernel,) = made.kernels.values()
    left = [
        line.split("  #")[0] for line in print_nest(kernel.nests[0]).splitlines() if line.strip()[:2] != "# "
    ]
    text = made.units[0].text
    right = text[text.index('extern "C"') :].rstrip().splitlines()
    parts = [head(LEFT, 28, "loops"), head(MIDDLE, 28, "C++"), box(LEFT, 50, NARROW, left)]
    parts += [box(MIDDLE, 50, WIDE, right, "back"), path("arrow", (LEFT + NARROW, 70), (MIDDLE, 70))]
    height = 70 + max(height_of(left), height_of(right))
    title = "A loop nest with a reduction, and the C++ function that it becomes"
    return {"emitted.svg": svg(title, MIDDLE + WIDE + 20, height, parts)}
