"""The drawing of lab 4's page: a joint graph, forward on the left, backward on the right, and what crosses.

Input: the joint graph and the partition that the compiler makes of the page's program.
"""

from __future__ import annotations

from html import escape
from typing import Any

import cutaway
from stage_contracts.graph import nodes_in

from ..programs import Program, compiled_with, numbers

STYLE = """
text { font: 14px monospace; fill: #222; }
.head { font-weight: bold; }
.box { fill: #eef3fb; stroke: #5577aa; }
.back { fill: #fbf1e6; stroke: #b07030; }
.arrow { stroke: #888; fill: none; }
.cross { stroke: #b03060; stroke-width: 2; fill: none; }
svg { background: #fff; }
@media (prefers-color-scheme: dark) {
svg { background: #16191d; }
text { fill: #e6e6e6; }
.box { fill: #22324a; }
.back { fill: #45311f; }
.cross { stroke: #ff7aa8; }
.arrow { stroke: #999; }
}
"""
WIDTH, HEIGHT, STEP, LEFT, RIGHT = 150, 30, 54, 20, 400


def program(x: Any, w: Any) -> Any:
    return (x.t() * w).exp().sum()


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    joints: list[Any] = []

    def look(joint: Any) -> Any:
        joints.append(joint)
        return cutaway.DEFAULT_PIPELINE.partition(joint)

    given = Program(program, (numbers(2, 3), numbers(3, 2)), "the page's program")
    compiled_with(given, partition=look)(*given.tensors())
    return {"joint.svg": joint_svg(joints[0])}


def joint_svg(joint: Any) -> str:
    """Forward nodes from the top to the bottom, backward nodes from the bottom to the top."""
    tangents = joint.graph.placeholders[joint.num_primals :]
    right = [n for n in (*tangents, *joint.graph.calls) if n in tangents or n.meta["region"] == "backward"]
    left = [n for n in (*joint.graph.placeholders, *joint.graph.calls) if n not in right]
    rows = max(len(left), len(right))
    at = {n: (LEFT, 50 + STEP * i) for i, n in enumerate(left)}
    at |= {n: (RIGHT, 50 + STEP * (rows - 1 - i)) for i, n in enumerate(right)}
    parts = [arrow(at, used, node) for node in at for used in nodes_in((node.args, node.kwargs))]
    parts += [box(*at[n], n, n in right) for n in at]
    parts += [f'<text class="head" x="{LEFT}" y="28">forward: down</text>',
              f'<text class="head" x="{RIGHT}" y="28">backward: up</text>']  # fmt: skip
    size = f'viewBox="0 0 {RIGHT + WIDTH + 60} {50 + STEP * rows}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>A joint graph: the values on the crossing arrows are what the backward reads</title>",
        f"<style>{STYLE}</style>", *parts, "</svg>", "",
    ])  # fmt: skip


def box(x: int, y: int, node: Any, backward: bool) -> str:
    shape = f'<rect class="{"back" if backward else "box"}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
    return f'{shape}<text x="{x + 10}" y="{y + 20}">{escape(node.name)}</text>'


def arrow(at: dict[Any, tuple[int, int]], used: Any, node: Any) -> str:
    """From a value to the node that reads it. Within a column it goes around the boxes between."""
    (x1, y1), (x2, y2) = at[used], at[node]
    middle = HEIGHT // 2
    if x1 != x2:
        return f'<path class="cross" d="M{x1 + WIDTH},{y1 + middle} L{x2},{y2 + middle}"/>'
    if abs(y1 - y2) == STEP:
        top, bottom = (y1 + HEIGHT, y2) if y1 < y2 else (y1, y2 + HEIGHT)
        return f'<path class="arrow" d="M{x1 + WIDTH // 2},{top} L{x1 + WIDTH // 2},{bottom}"/>'
    side = x1 + WIDTH + 8 * (abs(y1 - y2) // STEP) if x1 == RIGHT else x1 - 14
    edge = x1 + WIDTH if x1 == RIGHT else x1
    return (
        f'<path class="arrow" d="M{edge},{y1 + middle} C{side},{y1 + middle} {side},{y2 + middle} '
        f'{edge},{y2 + middle}"/>'
    )
