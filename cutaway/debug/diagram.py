"""graph_diagram.svg: kernels, library calls and the buffers between them. Drawn by graphviz where it is installed.

Input: a program that `fuse` made. Without the package graphviz and its `dot` the picture is laid out here: each step
one row below the last that it waits for.
"""

from __future__ import annotations

import html
from typing import Any

from stage_contracts.program import External, Launch, Program, RowBlocks, step_accesses

INK, FILLS = "#333333", {"input": "#e8e8e8", "kernel": "#cfe3f5", "call": "#fbe3c4", "output": "#d7efd3"}
CELL, ROW, BOX = 230, 90, (200, 46)


def boxes(program: Program) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]:
    """({box: (kind, label)}, [(from box, to box, buffer)]) of the inputs, steps and results."""
    found: dict[str, tuple[str, str]] = {}
    made: dict[str, str] = {}
    edges = []
    for name in program.inputs:
        found[name] = ("input", f"{name}: {program.buffers[name].meta}")
        made[name] = name
    for number, step in enumerate(program.steps):
        if not isinstance(step, (Launch, External, RowBlocks)):
            continue
        box = f"step{number}"
        found[box] = ("call" if isinstance(step, External) else "kernel", _label(step))
        reads, writes = step_accesses(step, program.kernels)
        edges += [(made[name], box, name) for name in reads if name in made]
        made.update(dict.fromkeys(writes, box))
    found["return"] = ("output", "return")
    results = dict.fromkeys(getattr(value, "name", None) for value in program.return_step.values)
    edges += [(made[name], "return", name) for name in results if name in made]
    return found, edges


def _label(step: Launch | External | RowBlocks) -> str:
    if isinstance(step, RowBlocks):
        inside = (inner.kernel if isinstance(inner, Launch) else "product" for inner in step.steps)
        return f"by rows: {', '.join(inside)}"
    return step.kernel if isinstance(step, Launch) else step.target


def program_dot(program: Program) -> str:
    """The picture in graphviz's language."""
    found, edges = boxes(program)
    lines = [f'digraph "{program.name}" {{', "  node [shape=box, style=filled, fontname=monospace];"]
    lines += [
        f'  "{box}" [label="{label}", fillcolor="{FILLS[kind]}"];' for box, (kind, label) in found.items()
    ]
    lines += [f'  "{start}" -> "{end}" [label="{buffer}"];' for start, end, buffer in edges]
    return "\n".join([*lines, "}", ""])


def program_svg(program: Program) -> str:
    """The picture as SVG."""
    return _by_graphviz(program_dot(program)) or laid_out(*boxes(program))


def _by_graphviz(dot: str) -> str | None:
    try:
        import graphviz
    except ImportError:
        return None
    try:
        return graphviz.Source(dot).pipe(format="svg", encoding="utf-8")
    except graphviz.ExecutableNotFound:
        return None


def laid_out(found: dict[Any, tuple[str, str]], edges: list[tuple[Any, Any, str]]) -> str:
    """Boxes in rows: each below the last that it waits for, in the order of `found`. A box's kind is its class."""
    depth = dict.fromkeys(found, 0)
    for box in found:  # a step comes behind those that it reads
        depth[box] = max((depth[start] + 1 for start, end, _ in edges if end == box), default=0)
    rows: dict[int, list[Any]] = {}
    for box in found:
        rows.setdefault(depth[box], []).append(box)
    place = {
        box: (i * CELL + 10, row * ROW + 10) for row, inside in rows.items() for i, box in enumerate(inside)
    }
    width = max(map(len, rows.values())) * CELL + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{(max(rows) + 1) * ROW}" '
        'font-family="monospace" font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        f'<path d="M0,0 L7,3 L0,6 z" fill="{INK}"/></marker></defs>',
    ]
    for start, end, buffer in edges:
        (x1, y1), (x2, y2) = place[start], place[end]
        parts.append(
            f'<line class="edge" x1="{x1 + BOX[0] // 2}" y1="{y1 + BOX[1]}" x2="{x2 + BOX[0] // 2}" y2="{y2}" '
            f'stroke="{INK}" marker-end="url(#tip)"><title>{html.escape(buffer)}</title></line>'
        )
    for box, (kind, label) in found.items():
        x, y = place[box]
        label = " ".join(label.split())
        shown = label if len(label) <= 28 else f"{label[:27]}…"
        parts.append(
            f'<g class="node {kind}"><title>{html.escape(label)}</title>'
            f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="4" fill="{FILLS.get(kind, "none")}" '
            f'stroke="{INK}"/><text x="{x + 8}" y="{y + 28}">{html.escape(shown)}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])
