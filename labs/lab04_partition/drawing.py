"""The drawing of lab 4's page: a joint graph, forward on the left, backward on the right, and what crosses.

Input: the joint graph that the compiler makes of the page's program.
"""

from __future__ import annotations

from typing import Any

import cutaway
from stage_contracts.graph import nodes_in

from ..drawings import box, head, path, svg
from ..programs import Program, compiled_with, numbers

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
    parts += [box(*at[n], WIDTH, [n.name], "back" if n in right else "box") for n in at]
    parts += [head(LEFT, 28, "forward: down"), head(RIGHT, 28, "backward: up")]
    title = "A joint graph: the values on the crossing arrows are what the backward reads"
    return svg(title, RIGHT + WIDTH + 60, 50 + STEP * rows, parts)


def arrow(at: dict[Any, tuple[int, int]], used: Any, node: Any) -> str:
    """From a value to the node that reads it. Within a column it goes around the boxes between."""
    (x1, y1), (x2, y2) = at[used], at[node]
    middle = HEIGHT // 2
    if x1 != x2:
        return path("cross", (x1 + WIDTH, y1 + middle), (x2, y2 + middle))
    if abs(y1 - y2) == STEP:
        top, bottom = (y1 + HEIGHT, y2) if y1 < y2 else (y1, y2 + HEIGHT)
        return path("arrow", (x1 + WIDTH // 2, top), (x1 + WIDTH // 2, bottom))
    edge = x1 + WIDTH if x1 == RIGHT else x1
    side = edge + 8 * (abs(y1 - y2) // STEP) if x1 == RIGHT else edge - 14
    return path("arrow", (edge, y1 + middle), (side, y1 + middle), (side, y2 + middle), (edge, y2 + middle))
