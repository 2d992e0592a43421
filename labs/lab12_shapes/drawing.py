"""The drawing of lab 12's page: which trace each number of rows uses.

Input: the entries that the reference makes of a program with a threshold.
"""

from __future__ import annotations

from typing import Any

from ..drawings import head, svg
from .shapes import compiled, guards_of

CALLS, CELL, LEFT = (6, 9, 20, 1, 14, 6), 30, 130


def chosen(x: Any) -> Any:
    return (x[0] + 1,) if x[0] < 12 else (x[0] // 2,)


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    run: Any = compiled(chosen)
    for rows in CALLS:
        run((rows,))
    parts = [
        head(
            LEFT, 30, f"calls with {', '.join(map(str, CALLS))} rows; dark: the trace is right for this size"
        )
    ]
    for k, (env, _) in enumerate(run.entries):
        y = 50 + 44 * k
        parts.append(f'<text x="10" y="{y + 20}">trace {k + 1}</text>')
        for rows in range(1, 23):
            fits = env.values({"x[0]": rows}) is not None
            x = LEFT + (rows - 1) * CELL
            parts.append(
                f'<rect class="{"back" if fits else "box"}" x="{x}" y="{y}" width="{CELL - 4}" height="30" rx="4"/>'
            )
            parts.append(f'<text x="{x + 4}" y="{y + 20}">{rows if fits else ""}</text>')
        parts.append(f'<text x="{LEFT + 22 * CELL + 10}" y="{y + 20}">{"; ".join(guards_of(env))}</text>')
    height = 60 + 44 * len(run.entries)
    return {
        "ranges.svg": svg("Each trace is right for a range of sizes", LEFT + 22 * CELL + 330, height, parts)
    }
