"""The drawing of lab 18's page: the bytes that each contender moves for each of the six programs, as bars.

Input: the Programs of the contenders, counted.
"""

from __future__ import annotations

from ..drawings import head, svg
from .backend import CONTENDERS
from .ranking import ALWAYS, PROGRAMS, bytes_moved, core

LEFT, WIDTH, STEP = 110, 420, 18


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    contenders = {**ALWAYS, **CONTENDERS}
    names = ("one by one", "tiny", "mine", "cutaway")
    moved = {(p, n): bytes_moved(contenders[n](core(p))) for p in PROGRAMS for n in names}
    most, parts, y = max(moved.values()), [], 20
    for program in PROGRAMS:
        parts.append(head(10, y + 14, program))
        for name in names:
            value = moved[program, name]
            width = WIDTH * value // most
            kind = "back" if name == "mine" else "box"
            parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width}" height="{STEP - 3}"/>')
            parts.append(
                f'<text x="{LEFT + width + 8}" y="{y + 13}" style="font-size: 12px">{name} {value / 1e6:.1f} MB</text>'
            )
            y += STEP
        y += 10
    title = "Bytes that each contender moves for each program"
    return {"bytes.svg": svg(title, LEFT + WIDTH + 170, y, parts)}
