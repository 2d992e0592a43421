"""The drawing of lab 1's page: the tape of a small program, and the gradients that flow along its links.

Input: the tape that the reference makes of the page's program, and the gradients that it finds.
"""

from __future__ import annotations

from typing import Any

from stage0_eager import tiny

from ..drawings import box, height_of, path, svg

WIDTH, STEP, LEFT = 300, 72, 40
HEIGHT = height_of([""])


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    x = tiny.Tensor([0.5], requires_grad=True)
    return {"tape.svg": tape_svg(tiny.sin(x * 2.0) * x)}


def tape_svg(root: Any) -> str:
    """Operands above results, and a link from each result to its operands."""
    order, found = tiny.in_order(root), tiny.gradients(root)
    at = {t: 20 + STEP * k for k, t in enumerate(order)}
    links = [link(at[t], at[a]) for t in order if t.node for a in t.node.args if isinstance(a, tiny.Tensor)]
    boxes = [
        box(
            LEFT,
            y,
            WIDTH,
            [
                f"{t.node.name if t.node else 'x, a leaf'}: {t.data[0]:.3g}, its gradient {found[t].data[0]:.3g}"
            ],
        )
        for t, y in at.items()
    ]
    return svg("The tape of sin(x * 2) * x: each result points to its operands", LEFT + WIDTH + 90,
               20 + STEP * len(order), [*links, *boxes])  # fmt: skip


def link(result: int, operand: int) -> str:
    """From a result up to its operand; past the boxes between them on the right."""
    if result - operand == STEP:
        middle = LEFT + WIDTH // 2
        return path("cross", (middle, result), (middle, operand + HEIGHT))
    right, half = LEFT + WIDTH, HEIGHT // 2
    return path(
        "cross",
        (right, result + half),
        (right + 80, result),
        (right + 80, operand + HEIGHT),
        (right, operand + half),
    )
