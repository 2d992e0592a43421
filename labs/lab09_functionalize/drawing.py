"""The drawing of lab 9's page: on the left one tensor that is written twice, on the right its three values.

Input: the graph that the compiler captures of the page's program, and the functional graph that the tiny makes of it.
"""

from __future__ import annotations

from typing import Any

import cutaway
from stage2_autograd.tiny import functionalize

from ..drawings import box, head, path, svg
from ..programs import Program, compiled_with, numbers

LEFT, RIGHT, WIDTH, STEP, TOP, HALF = 60, 430, 200, 52, 50, 15


def step(x: Any, total: Any) -> Any:
    total.mul_(0.9)
    y = x.exp()
    total.add_(y)
    return y * total


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    seen: list[Any] = []

    def look(graph: Any) -> Any:
        seen.append(graph)
        return functionalize(graph)

    given = Program(step, (numbers(3), numbers(3, seed=1)), "the page's program")
    with cutaway.no_grad():
        compiled_with(given, functionalize=look)(*given.tensors(requires_grad=False))
    return {"renamed.svg": renamed(seen[0], functionalize(seen[0]).graph)}


def renamed(captured: Any, functional: Any) -> str:
    """One row for each node. retrace gives the node of a value the name that it had in the captured graph."""
    rows = [*captured.placeholders, *captured.calls]
    made = {node.name: node for node in (*functional.placeholders, *functional.calls)}
    high = {node.name: TOP + STEP * row for row, node in enumerate(rows)}
    written = {node.args[0].name for node in rows if getattr(node.target, "mutates", ())}
    values = written | {n.name for n in rows if getattr(n.target, "mutates", ())}
    parts = [head(LEFT, 30, "captured: one tensor"), head(RIGHT, 30, "functional: three values")]
    for node in rows:
        new, kind = made[node.name], "back" if node.name in values else "box"
        parts += [
            around(LEFT, high[n.name], high[node.name], n.name in written) for n in node.all_input_nodes
        ]
        parts += [around(RIGHT, high[n.name], high[node.name], n.name in values) for n in new.all_input_nodes]
        text = node.origins[0].text if node.op == "call_function" else node.name
        parts.append(box(LEFT, high[node.name], WIDTH, [text], "back" if node.name in written else "box"))
        parts.append(box(RIGHT, high[node.name], WIDTH, [line_of(new)], kind))
    title = "On the left every arrow from total starts at one tensor; on the right each write has made a new value"
    return svg(title, RIGHT + WIDTH + 80, TOP + STEP * len(rows), parts)


def line_of(node: Any) -> str:
    """ "mul_1 = mul(exp, add)", or the name of an input."""
    if node.op == "placeholder":
        return node.name
    words = (getattr(argument, "name", str(argument)) for argument in node.args)
    return f"{node.name} = {node.target.name}({', '.join(words)})"


def around(x: int, above: int, below: int, red: bool) -> str:
    """From a box to one below it, around the boxes between, on the outer side of its column."""
    side = -1 if x == LEFT else 1
    edge = x if x == LEFT else x + WIDTH
    out = edge + side * (12 + 9 * ((below - above) // STEP))
    points = ((edge, above + HALF), (out, above + HALF), (out, below + HALF), (edge, below + HALF))
    return path("cross" if red else "arrow", *points)
