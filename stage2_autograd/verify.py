"""Finds a wrong pass: interprets the graph before and after it on the same inputs, and compares every bit.

Input: two graphs that should compute the same. Inputs are drawn from the placeholders' metas, with special values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from stage0_eager.core_comparison import NOT_FOR_MADE_UP_DATA, example, first_difference, made_by, same_bits
from stage0_eager.core_interpreter import at_sizes
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, GraphError, Node, meta_of
from stage_contracts.graph_module import GraphModule
from stage_contracts.joint import JointGraph, Partition


def verify_pass(name: str, before: Graph, after: Graph) -> None:
    """Raise GraphError, with the pass's name, if any bit of an output differs (all NaNs count as equal)."""
    run = lambda inputs: made_by(f"pass {name}", interpret, after, inputs)  # noqa: E731
    if found := _difference(before, run):
        raise GraphError(
            f"pass {name} changed {found[0]}; expected the same bits. What it did to the graph:\n"
            f"{_changed_lines(before, after)}\n"
            f"{_first_value(before, after) or line_of(found[1])[1:]}\n"
            f"the pass is wrong: fix it, or switch it off with config.patch(disabled_passes={name!r})"
        )


def verify_partition(name: str, joint: JointGraph, halves: Partition) -> None:
    """Raise GraphError if the forward followed by the backward does not give the bits of the joint graph."""

    def run(inputs: list[Any]) -> tuple:
        made = interpret(halves.forward, inputs[: joint.num_primals])
        saved = made[halves.num_outputs :]
        gradients = interpret(halves.backward, [*saved, *inputs[joint.num_primals :]])
        return (*made[: halves.num_outputs], *gradients)

    if found := _difference(joint.graph, lambda inputs: made_by(f"partitioner {name}", run, inputs)):
        raise GraphError(
            f"partitioner {name} changed {found[0]} of the joint graph; expected the forward graph followed by the "
            "backward graph to give the same bits. Fix it, or choose another with config.patch(partitioner=...)"
            f"{line_of(found[1])}"
        )


_LINES_SHOWN = 24


def _changed_lines(before: Graph, after: Graph) -> str:
    """The lines that differ, one screen at most: `-` for the input of the pass, `+` for its result."""
    old, new = str(before).splitlines(), str(after).splitlines()
    diff = difflib.unified_diff(old, new, n=0, lineterm="")
    lines = [f"  {line}" for line in diff if line[:2] not in ("--", "++", "@@")]
    more = len(lines) - _LINES_SHOWN
    return "\n".join([*lines[:_LINES_SHOWN], *([f"  ... and {more} lines more"] if more > 0 else [])])


def _first_value(before: Graph, after: Graph) -> str:
    """The first value of both graphs that differs, with the user's line; "" if none does."""
    for special in (True, False):
        inputs = [example(meta_of(n), i, special) for i, n in enumerate(before.placeholders)]
        try:
            old = _values(before, inputs)
            new = {node.name: value for node, value in _values(after, inputs).items()}
        except NOT_FOR_MADE_UP_DATA:
            continue
        for node, value in old.items():
            other = new.get(node.name)
            if (
                isinstance(value, Tensor)
                and isinstance(other, Tensor)
                and not same_bits(value._data, other._data)
            ):
                lines = "".join(f"{origin.caret()}\n" for origin in node.origins[:1])
                return f"the first value that differs is {node.name}\n{lines}".rstrip()
    return ""


def _values(graph: Graph, inputs: list[Any]) -> dict[Node, Any]:
    """What each call gives."""
    values: dict[Node, Any] = {}

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        values[node] = node.target(*args, **kwargs)
        return values[node]

    with no_grad():
        at_sizes(graph, call)(*[Tensor(a.copy(order="K")) for a in inputs])
    return values


def line_of(node: Any) -> str:
    """The user's line that made a value, to stand below a message; "" if none did."""
    return "".join(f"\n{origin.caret()}" for origin in getattr(node, "origins", ())[:1])


def _difference(graph: Graph, run: Callable[[list[Any]], tuple]) -> tuple[str, Any] | None:
    """The first difference between `run` and the graph: with special values first, then without, because NaNs and
    infinities hide other differences. With it the node whose value it is."""
    if may_not_end(graph):
        return None
    for special in (True, False):
        inputs = [example(meta_of(n), i, special) for i, n in enumerate(graph.placeholders)]
        try:
            wanted = interpret(graph, inputs)
        except NOT_FOR_MADE_UP_DATA:
            continue
        for i, (a, b) in enumerate(zip(wanted, run(inputs), strict=True)):
            if not same_bits(a, b):
                node = graph.outputs[i]
                return f"output {i} ({node}): {first_difference(a, b)}", node
    return None


def may_not_end(graph: Graph) -> bool:
    """Whether it has a loop that ends depending on the data, which may never happen with made-up data."""
    inner = [value.graph for value in graph.attributes.values() if isinstance(value, GraphModule)]
    loops = ("higher_order.while_loop", "higher_order.while_loop_backward")
    return any(getattr(n.target, "qualname", "") in loops for n in graph.calls) or any(
        map(may_not_end, inner)
    )


def interpret(graph: Graph, inputs: list[Any]) -> tuple[Any, ...]:
    """Run a graph with any kind of operators, operator by operator. Returns its outputs as arrays."""
    tensors = [Tensor(a.copy(order="K")) for a in inputs]

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        return node.target(*args, **kwargs)

    with no_grad():
        outputs = at_sizes(graph, call)(*tensors)
    return tuple(o._data if isinstance(o, Tensor) else o for o in outputs)


__all__ = ["example", "interpret", "line_of", "may_not_end", "same_bits", "verify_partition", "verify_pass"]
