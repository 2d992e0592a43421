"""The drawing of lab 1's page: the tape of a small program, and the gradients that flow along its links.

Input: the tape that the reference makes of the page's program, and the gradients that it finds.
"""

from __future__ import annotations

from html import escape
from typing import Any

from stage0_eager import tiny

from ..lab04_partition.drawing import STYLE

WIDTH, HEIGHT, STEP = 300, 34, 76
LEFT = 90


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    x = tiny.Tensor([0.5], requires_grad=True)
    return {"tape.svg": tape_svg(tiny.sin(x * 2.0) * x)}


def tape_svg(root: Any) -> str:
    """Operands above results; on each link the gradient that flows back along it."""
    order = tiny.in_order(root)
    found = tiny.gradients(root)
    at = {t: 40 + STEP * k for k, t in enumerate(order)}
    parts = [link(at, t, a) for t in order if t.node for a in t.node.args if isinstance(a, tiny.Tensor)]
    for t, y in at.items():
        name = t.node.name if t.node else "x, a leaf"
        words = f"{name}: {t.data[0]:.3g}, its gradient {found[t].data[0]:.3g}"
        parts.append(
            f'<rect class="box" x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
            f'<text x="{LEFT + 10}" y="{y + 22}">{escape(words)}</text>'
        )
    size = f'viewBox="0 0 {LEFT + WIDTH + 90} {40 + STEP * len(order)}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>The tape of sin(x * 2) * x: each result points to its operands</title>",
        f"<style>{STYLE}</style>", *parts, "</svg>", "",
    ])  # fmt: skip


def link(at: dict[Any, int], result: Any, operand: Any) -> str:
    """From a result up to its operand; past the boxes between them on the right."""
    top, bottom = at[operand] + HEIGHT, at[result]
    if bottom - top < STEP:
        middle = LEFT + WIDTH // 2
        return f'<path class="cross" d="M{middle},{bottom} L{middle},{top}"/>'
    side = LEFT + WIDTH
    return (f'<path class="cross" d="M{side},{bottom + HEIGHT // 2} C{side + 80},{bottom} {side + 80},{top} '
            f'{side},{top - HEIGHT // 2}"/>')  # fmt: skip
