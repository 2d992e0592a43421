"""The drawing of lab 5's page: the operators of a small graph, and the loop nest that each becomes.

Input: a graph of core operators, and what the tiny `lower` makes of it.
"""

from __future__ import annotations

from stage3_lowering import tiny
from stage3_lowering.tests.graphs import trace
from stage_contracts.loop_ir import LoopNest

from ..core_programs import ROW, X
from ..drawings import box, head, height_of, path, svg

LEFT, RIGHT, NARROW, WIDE, GAP = 20, 260, 170, 390, 24


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    graph = trace(lambda c, x, row: c.sum(c.mul(c.permute(x, (1, 0)), row), (1,)), X, ROW[:5].copy())
    made = [nest for nest in tiny.lower(graph).nodes if isinstance(nest, LoopNest)]
    parts, y, nests = [head(LEFT, 28, "operators"), head(RIGHT, 28, "loops")], 50, iter(made)
    for node in graph.calls:
        view = node.target.name == "permute"
        nest = None if view else next(nests)
        lines = ["no loop: another index"] if nest is None else [
            "for " + ", ".join(f"{v}: {n}" for v, n in zip((*nest.loop_variables, *nest.reduction_variables),
                                                          (*nest.ranges, *nest.reduction_ranges))),
            *(f"  {str(i).split('  #')[0]}" for i in nest.body),
        ]  # fmt: skip
        parts.append(box(LEFT, y, NARROW, [node.target.name, f"{node.val.dtype.name}{list(node.val.shape)}"]))
        parts.append(box(RIGHT, y, WIDE, lines, "back"))
        parts.append(path("arrow", (LEFT + NARROW, y + 20), (RIGHT, y + 20)))
        y += max(height_of(lines), 50) + GAP
    title = "A view becomes an index, a product becomes two loops, a sum becomes a loop in a loop"
    return {"lowered.svg": svg(title, RIGHT + WIDE + 20, y, parts)}
