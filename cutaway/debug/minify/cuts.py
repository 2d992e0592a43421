"""A graph of some of another's calls: what they read of the others is an input, with the value that it had.

Input: a captured graph, the inputs of its call, and the calls that stay. The first that is made runs the whole graph
eagerly, once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from cutaway.as_captured import ran_silently
from cutaway.repro_calls import LIFTED
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node, map_args

Values = dict[Node, Any]


def values_of(graph: Graph, inputs: Sequence[Any]) -> Values:
    """What each node gives, run eagerly."""
    values: Values = dict(zip(graph.placeholders, inputs, strict=True))

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        if ran_silently(node):
            with no_grad():
                values[node] = node.target(*args, **kwargs)
        else:
            values[node] = node.target(*args, **kwargs)
        return values[node]

    graph.interpret(list(inputs), call)
    return values


def cut(
    graph: Graph, values: Values, calls: Collection[Node], outputs: Collection[Node] | None = None
) -> tuple[Graph, list[Any]] | None:
    """The graph of these calls and its inputs; None where one of them reads what can be no input (a tuple).

    It returns what the rest would read, or `outputs` of it."""
    kept, part, inputs = set(calls), Graph("forward"), []
    images: dict[Node, Any] = {}

    def image(node: Node) -> Any:
        if node in images:
            return images[node]
        if node.op == "get_attr":
            images[node] = part.get_attr(node.target, graph.attributes[node.target], node.val)
        elif isinstance(values[node], Tensor) or LIFTED in node.meta:
            meta = {LIFTED: True} if LIFTED in node.meta else {}
            images[node] = part.placeholder(node.name, node.val, **meta)
            inputs.append(values[node])
        elif isinstance(values[node], (bool, int, float)):
            images[node] = values[node]
        else:
            raise _NoInput
        return images[node]

    try:
        for node in graph.calls:
            if node in kept:
                args, kwargs = map_args((node.args, node.kwargs), image)
                meta = {k: v for k, v in node.meta.items() if k not in ("val", "origins")}
                images[node] = part.call_function(
                    node.target, args, kwargs, val=node.val, origins=node.origins, name=node.name, **meta
                )
    except _NoInput:
        return None
    given = results(graph, values, kept) if outputs is None else outputs
    part.output([images[n] for n in given if n in images])
    return part, inputs


def results(graph: Graph, values: Values, kept: Collection[Node]) -> list[Node]:
    """The tensors of these calls that another node reads, or none."""
    tensors = [n for n in graph.calls if n in kept and isinstance(values[n], Tensor)]
    return [n for n in tensors if not n.users or any(user not in kept for user in n.users)]


class _NoInput(Exception):
    """A value that cannot be an input of a graph."""
