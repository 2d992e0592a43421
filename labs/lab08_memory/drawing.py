"""The drawing of lab 8's page: which bytes of the pool each buffer has, from which step to which.

Input: the planned program that the tiny compiler makes of two softmaxes.
"""

from __future__ import annotations

from typing import Any

import cutaway
from stage_contracts.program import Allocate, Free, Launch, Program

from ..drawings import box, head, path, svg

LEFT, TOP, STEP, LINE, PER_ROW = 70, 60, 110, 30, 64


def program(x: Any) -> Any:
    softmax = cutaway.nn.functional.softmax
    return softmax(softmax(x, 1) * 2, 1)


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    compiled = cutaway.compile(program, pipeline=cutaway.TINY_PIPELINE)
    compiled(cutaway.ones(5, 7))
    return {"pool.svg": pool_svg(compiled.artifacts[-1].forward.planned)}


def pool_svg(planned: Program) -> str:
    """Steps from the left to the right, bytes from the top to the bottom, one line for 64 bytes."""
    born: dict[str, int] = {}
    spans: list[tuple[str, int, int]] = []
    number = 0
    heads = []
    for step in planned.steps:
        if isinstance(step, Allocate):
            born[step.buffer] = number
        elif isinstance(step, Free):
            spans.append((step.buffer, born[step.buffer], number))
        elif isinstance(step, Launch):
            heads.append(head(LEFT + STEP * number + 10, 28, step.kernel.split("_")[0]))
            number += 1
    rows = planned.pools[0] // PER_ROW
    parts = [f'<text x="10" y="{TOP + LINE * r + 20}">{r * PER_ROW:>4}</text>' for r in range(rows)]
    parts += [
        path("arrow", (LEFT + STEP * k, 36), (LEFT + STEP * k, TOP + LINE * rows)) for k in range(number + 1)
    ]
    for name, first, last in spans:
        slot = planned.buffers[name].slot
        if slot is not None:
            lines = [name, *[""] * (-(-slot.nbytes // PER_ROW) - 1)]
            x, y = LEFT + STEP * first + 4, TOP + LINE * slot.offset // PER_ROW
            parts.append(tall_box(x, y, STEP * (last - first) - 8, len(lines), name))
    title = "Bytes of the pool against time: a buffer takes the place of one that has been freed"
    return svg(title, LEFT + STEP * number + 20, TOP + LINE * rows + 20, [*heads, *parts])


def tall_box(x: int, y: int, width: int, rows: int, name: str) -> str:
    """A box as high as its bytes."""
    return box(x, y, width, [name], "box").replace('height="30"', f'height="{LINE * rows - 4}"')
