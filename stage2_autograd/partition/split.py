"""Split: cuts the joint graph in two, for a given choice of what to save. Every partitioner uses it.

Input: a joint graph, and the nodes to save, each with the reason. The backward recomputes the values that it reads and
that are not saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stage_contracts.graph import Graph, GraphError, Node, map_args, meta_of, nodes_in
from stage_contracts.joint import JointGraph, Partition, SavedTensor
from stage_contracts.node_meta import input_marks
from stage_contracts.symbol_bindings import makers_read
from stage_contracts.unbacked import has_effect, makers


def split(joint: JointGraph, saved: dict[Node, str]) -> Partition:
    """The forward and the backward graph, for a choice of what to save (node -> the reason)."""
    graph = joint.graph
    primals, tangents = graph.placeholders[: joint.num_primals], graph.placeholders[joint.num_primals :]
    outputs, gradients = graph.outputs[: joint.num_outputs], graph.outputs[joint.num_outputs :]
    kept = [n for n in graph.nodes if n in saved]
    return Partition(
        forward=extract(graph, "forward", primals, (*outputs, *kept)),
        backward=extract(graph, "backward", [*kept, *tangents], gradients),
        num_outputs=joint.num_outputs,
        saved=tuple(SavedTensor(n.name, _plain(n), n.origins, saved[n]) for n in kept),
    ).verify()


def extract(graph: Graph, name: str, inputs: Sequence[Node], outputs: Iterable[Any]) -> Graph:
    """The part of `graph` that computes `outputs` from `inputs`, as a new graph with the same names."""
    part = Graph(name)
    images: dict[Node, Node] = {}
    outputs = tuple(outputs)
    effects = [n for n in graph.calls if has_effect(n) and n.meta.get("region", "forward") == name]
    for node in inputs:
        marks = input_marks(node)
        if name == "backward" and marks.get("role") != "tangent":
            marks |= {"role": "saved", "val": _plain(node)}
        images[node] = part.placeholder(node.name, **marks)
    for node in _needed(graph, images, (*outputs, *effects), name):
        if node.op == "placeholder":
            raise GraphError(
                f"the {name} graph reads {node.name}, which is neither its input nor saved for it"
            )
        if node.op == "get_attr":
            images[node] = part.get_attr(node.target, graph.attributes[node.target], node.val)
            continue
        args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
        marks = {**node.meta, "region": name}
        if name == "backward" != node.meta.get("region"):
            marks["recomputed"] = True  # a forward value that the backward recomputes
        images[node] = part.call_function(node.target, args, kwargs, name=node.name, **marks)
    part.output([images[n] if isinstance(n, Node) else n for n in outputs])
    return part


def _needed(graph: Graph, given: Iterable[Node], outputs: Iterable[Any], name: str) -> list[Node]:
    """The nodes, in the graph's order, that `outputs` need and that are not `given`.

    A backward gets the sizes that only the data knows as saved values, so it needs no node that makes one.
    """
    stop, needed = set(given), set()
    made = makers(graph.nodes) if name == "forward" else {}
    stack = list(nodes_in(list(outputs)))
    while stack:
        node = stack.pop()
        if node not in stop and node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
            stack += makers_read(node, made) if made else ()
    found = [n for n in graph.nodes if n in needed]
    again = name == "backward" and any(has_effect(n) and n.meta.get("region") != name for n in found)
    return _where_first_read(found) if again else found


def _where_first_read(nodes: list[Node]) -> list[Node]:
    """The same nodes, those of the forward each before its first reader: what is gathered again, is gathered late."""
    done: dict[Node, None] = {}
    inside = set(nodes)

    def visit(node: Node) -> None:
        if node in done or node not in inside:
            return
        for read in node.all_input_nodes:
            visit(read)
        done[node] = None

    for node in nodes:
        if node.op != "call_function" or node.meta.get("region") == "backward":
            visit(node)
    for node in nodes:  # what only an output reads
        visit(node)
    return list(done)


def _plain(node: Node) -> Any:
    """A value's meta without requires_grad, because saved values are data."""
    meta = meta_of(node)
    return meta.with_(requires_grad=False, strides=meta.strides)
