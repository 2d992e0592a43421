"""The drawing of lab 10's page: the three pieces of a function, and what goes from one to the next.

Input: the pieces that the reference makes of the page's function.
"""

from __future__ import annotations

from typing import Any

import cutaway

from ..drawings import box, head, height_of, path, svg
from .breaks import Piece, compiled
from .steps import steps_of

LEFT, WIDTH = 40, 430


def f(x: Any, y: Any) -> Any:
    a = x * 2
    b = a + y
    print("the sum is", a.sum())
    if b.sum() > 0:
        return b - a
    return b + a


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    pieces: dict[Any, Piece] = {}
    for sign in (1, -1):
        run = compiled(_quiet(f), lambda module, inputs: module)
        run(cutaway.ones(3) * sign, cutaway.ones(3) * sign)
        pieces |= {key[0]: piece for key, piece in run.pieces.items()}  # type: ignore[attr-defined]
    program, parts, y = steps_of(f), [head(LEFT, 30, "graph, then one step of Python")], 50
    for number, (place, piece) in enumerate(sorted(pieces.items()), 1):
        words = ", ".join(node.target.name for node in piece.graph.calls)
        step = program[piece.at]
        lines = [f"piece {number}, from step {place}: {', '.join(piece.inputs)}", f"graph: {words}"]
        python = [f"Python: {step.name}   {step.origin.text}"]
        parts.append(box(LEFT, y, WIDTH, lines))
        y += height_of(lines)
        parts.append(box(LEFT, y, WIDTH, python, "back"))
        y += height_of(python)
        if step.name != "RETURN_VALUE":
            parts.append(path("arrow", (LEFT + 30, y), (LEFT + 30, y + 30)))
            parts.append(f'<text x="{LEFT + 45}" y="{y + 20}">live: {", ".join(sorted(piece.local))}</text>')
        y += 34
    return {
        "pieces.svg": svg(
            "Four pieces: each a graph and one step that Python runs", LEFT + WIDTH + 40, y, parts
        )
    }


def _quiet(function: Any) -> Any:
    """The function with a print that says nothing."""
    return type(function)(function.__code__, {"print": lambda *words: None})
