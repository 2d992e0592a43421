"""A graph cut into parts that run one after the other, each a graph of its own.

Input: a graph, and the number of the part that each of its calls belongs to. A part may read what parts with smaller
numbers give.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph, Node, map_args, nodes_in


@dataclass(frozen=True)
class Part:
    """A part, and the nodes of the whole graph that are its inputs and its outputs."""

    graph: Graph
    reads: list[Node]
    gives: list[Node]


def parts_of(graph: Graph, part_of: Mapping[Node, int]) -> list[Part]:
    """The parts in their order. Constants that a part needs are its own attributes, and views it makes itself: what one
    part gives another has memory of its own, laid out as its meta says."""
    returned = set(nodes_in(list(graph.outputs)))
    members = _with_views(graph, part_of, returned)
    reads = {number: _reads(inside) for number, inside in members.items()}
    found = []
    for number, inside in sorted(members.items()):
        elsewhere = returned.union(*(read for other, read in reads.items() if other != number))
        given = [n for n in inside if n in elsewhere and part_of[n] == number]
        ordered = [n for n in graph.nodes if n in reads[number]]
        part = _part(graph, number, ordered, inside, given)
        found.append(Part(part, [n for n in ordered if n.op != "get_attr"], given))
    return found


def _reads(inside: list[Node]) -> set[Node]:
    """What a part needs from outside."""
    mine = set(inside)
    return {n for node in inside for n in node.all_input_nodes if n not in mine}


def _with_views(
    graph: Graph, part_of: Mapping[Node, int], returned: Collection[Node]
) -> dict[int, list[Node]]:
    """The calls of each part in the graph's order: its own, and views where they are read or returned."""
    members: dict[int, set[Node]] = {}
    for node, number in part_of.items():
        if node in returned or not _is_view(node):
            members.setdefault(number, set()).add(node)
    for node in reversed(graph.calls):
        for inside in members.values() if _is_view(node) else ():
            if any(user in inside for user in node.users):
                inside.add(node)
    return {number: [n for n in graph.calls if n in inside] for number, inside in members.items()}


def _is_view(node: Node) -> bool:
    row = CORE_OPS.get(getattr(node.target, "name", ""))
    return row is not None and row.kind == "view"


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
