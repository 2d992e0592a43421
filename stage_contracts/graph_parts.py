"""A graph cut into parts that run one after the other, each a graph of its own.

Input: a graph, and the number of the part that each of its calls belongs to. A part may read what parts with smaller
numbers give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stage_contracts.graph import Graph, Node, map_args, nodes_in


@dataclass(frozen=True)
class Part:
    """A part, and the nodes of the whole graph that are its inputs and its outputs."""

    graph: Graph
    reads: list[Node]
    gives: list[Node]


def parts_of(graph: Graph, part_of: Mapping[Node, int]) -> list[Part]:
    """The parts in their order. Constants that a part needs are its own attributes."""
    returned = set(nodes_in(list(graph.outputs)))
    found = []
    for number in sorted({*part_of.values()}):
        inside = [n for n in graph.calls if part_of[n] == number]
        mine = set(inside)
        read = {n for node in inside for n in node.all_input_nodes if n not in mine}
        given = [n for n in inside if n in returned or _is_read_elsewhere(n, mine)]
        ordered = [n for n in graph.nodes if n in read]
        part = _part(graph, number, ordered, inside, given)
        found.append(Part(part, [n for n in ordered if n.op != "get_attr"], given))
    return found


def _is_read_elsewhere(node: Node, mine: set[Node]) -> bool:
    return any(user not in mine for user in node.users if user.op != "output")


def _part(graph: Graph, number: int, read: list[Node], inside: list[Node], gives: list[Node]) -> Graph:
    part = Graph(f"{graph.name}_{number}")
    images: dict[Node, Node] = {}
    for node in read:
        if node.op == "get_attr":
            images[node] = part.get_attr(node.target, graph.attributes[node.target], node.val)
        else:
            marks = node.meta if node.op == "placeholder" else {"val": node.val, "origins": node.origins}
            images[node] = part.placeholder(node.name, **marks)
    for node in inside:
        args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
        images[node] = part.call_function(node.target, args, kwargs, name=node.name, **node.meta)
    part.output([images[n] for n in gives])
    return part.verify()


def one_after_another(graph: Graph, runs: Sequence[tuple[Callable[..., Any], Part]]) -> Callable[..., tuple]:
    """A callable of the graph's inputs that runs the parts. What the graph returns is a node's value or a constant."""
    names = [n.name for n in graph.placeholders]
    steps = [(call, [n.name for n in part.reads], [n.name for n in part.gives]) for call, part in runs]
    results = [(n.name, None) if isinstance(n, Node) else (None, n) for n in graph.outputs]

    def run(*values: Any) -> tuple:
        known = dict(zip(names, values, strict=True))
        for call, reads, gives in steps:
            known.update(zip(gives, call(*[known[name] for name in reads]), strict=True))
        return tuple(known[name] if name is not None else constant for name, constant in results)

    return run
