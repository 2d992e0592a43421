"""The drawing of lab 13's page: 35 points on three programs of 16 lanes, and the lanes that the mask leaves out.

Input: the points and the mask that the tiny's lines give, run on the stand-in.
"""

from __future__ import annotations

import numpy as np

from stage3_lowering.tiny.emit_triton import triton_points

from ..drawings import head, svg
from .checks import pointwise
from .stand_in import StandIn, run_lines

BLOCK, CELL, LEFT, TOP = 16, 44, 130, 50


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    (nest,) = pointwise(5, 7)[0].nests
    parts = [head(LEFT, 30, "5 rows of 7, in blocks of 16: i0,i1 of each lane")]
    for program in range(3):
        found = run_lines(triton_points(nest), StandIn(program), {"XBLOCK": BLOCK})
        y = TOP + program * 50
        parts.append(f'<text x="10" y="{y + 22}">program {program}</text>')
        for lane in range(BLOCK):
            live = bool(np.asarray(found["mask"])[lane])
            i0, i1 = (int(np.asarray(found[name])[lane]) for name in ("i0", "i1"))
            x, kind = LEFT + lane * CELL, "box" if live else "back"
            parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL - 4}" height="34" rx="4"/>')
            parts.append(f'<text x="{x + 8}" y="{y + 22}">{f"{i0},{i1}" if live else "off"}</text>')
    title = "Three programs of 16 lanes cover 35 points; the mask turns off the last 13 lanes"
    return {"blocks.svg": svg(title, LEFT + BLOCK * CELL + 10, TOP + 150, parts)}
