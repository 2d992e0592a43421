"""The drawing of lab 2's page: the stack after each instruction of a small function.

Input: the instructions of the page's function, which the reference runs on a graph.
"""

from __future__ import annotations

from typing import Any

import cutaway
from stage_contracts.graph import Graph

from ..drawings import box, head, svg
from . import reference

WIDTH, ROW, VALUE = 190, 40, 90


def f(x: Any, y: Any) -> Any:
    z = x - y
    return z.exp() * 2


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    return {"stack.svg": stack_svg(stacks())}


def stacks() -> list[tuple[str, list[str]]]:
    """(instruction, the stack after it) of f."""
    seen: list[tuple[str, list[str]]] = []
    meta = cutaway.ones(2).meta
    steps = list(reference.instructions(f))
    for count in range(1, len(steps) + 1):
        graph = Graph()
        local: dict[str, Any] = {name: graph.placeholder(name, meta) for name in "xy"}
        name, argument, _ = steps[count - 1]
        words = name if argument is None else f"{name} {argument}"
        seen.append((words, stack_after(graph, local, steps[:count])))
    return seen


def stack_after(graph: Graph, local: dict[str, Any], steps: list[Any]) -> list[str]:
    """What is on the stack after these instructions, as words."""
    stack: list[Any] = []
    for name, argument, origin in steps:
        if name == "LOAD_FAST":
            stack.append(local[argument])
        elif name == "LOAD_CONST":
            stack.append(argument)
        elif name == "STORE_FAST":
            local[argument] = stack.pop()
        elif name == "LOAD_METHOD":
            stack.append(reference.Method(stack.pop(), argument))
        elif name == "CALL":
            method = stack.pop()
            stack.append(reference.record(graph, origin, method.name, method.receiver))
        elif name == "BINARY_OP":
            right, left = stack.pop(), stack.pop()
            stack.append(reference.record(graph, origin, reference.OPERATORS[argument], left, right))
        else:
            stack.pop()
    return [f"{v.receiver}.{v.name}" if isinstance(v, reference.Method) else str(v) for v in stack]


def stack_svg(seen: list[tuple[str, list[str]]]) -> str:
    parts = [head(20, 24, "instruction"), head(20 + WIDTH, 24, "the stack after it")]
    for k, (words, stack) in enumerate(seen):
        y = 40 + ROW * k
        parts.append(f'<text x="20" y="{y + 20}">{words}</text>')
        parts += [box(20 + WIDTH + VALUE * j, y, VALUE - 8, [value]) for j, value in enumerate(stack)]
    return svg("The stack while f is captured", 40 + WIDTH + 3 * VALUE, 50 + ROW * len(seen), parts)
