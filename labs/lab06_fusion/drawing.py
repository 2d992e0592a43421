"""The drawing of lab 6's page: the nests of sin(cos(x)) with the buffer between them, and the one kernel they become.

Input: the lowered graph and the program of that function, made by the tiny stage 3.
"""

from __future__ import annotations

from typing import Any

from stage3_lowering import tiny

from ..core_programs import lowered
from ..drawings import box, head, height_of, path, svg

WIDTH, LEFT, RIGHT, GAP = 350, 20, 430, 34


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    before = lowered("sin_cos")
    (kernel,) = tiny.fuse(before).kernels.values()
    left, bottom = column(LEFT, before.nodes, before)
    right, other = column(RIGHT, kernel.nests, before)
    heads = [head(LEFT, 28, "before: 2 kernels"), head(RIGHT, 28, "after: 1 kernel")]
    title = "Two loop nests with a buffer between them become one kernel without it"
    return {"fused.svg": svg(title, RIGHT + WIDTH + 20, max(bottom, other), [*heads, *left, *right])}


def column(x: int, nests: Any, graph: Any) -> tuple[list[str], int]:
    """The nests and the buffers between them, from the top to the bottom; and where it ends."""
    y, parts = 50, []
    rows: list[tuple[list[str], str]] = [([graph.inputs[0]], "back")]
    for nest in nests:
        loops = ", ".join(f"{v}: {n}" for v, n in zip(nest.loop_variables, nest.ranges))
        rows += [([f"for {loops}", *(f"  {str(i).split('  #')[0]}" for i in nest.body)], "box")]
        rows += [([nest.name], "back")]
    for k, (lines, kind) in enumerate(rows):
        parts.append(box(x, y, WIDTH, lines, kind))
        y += height_of(lines)
        if k < len(rows) - 1:
            parts.append(path("arrow", (x + WIDTH // 2, y), (x + WIDTH // 2, y + GAP)))
            y += GAP
    return parts, y + 20
