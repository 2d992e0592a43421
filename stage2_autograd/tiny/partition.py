"""Partition: cuts the joint graph in two, and saves every forward value that the backward reads.

Input: a joint graph. Partitioners differ only in what they save. `split` cuts the graph, and the backward recomputes
the values that it reads and that are not saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stage2_autograd.core_calls import kind_of
from stage2_autograd.partition.checkpoints import checkpointed
from stage_contracts.graph import Graph, GraphError, Node, map_args, meta_of, nodes_in
from stage_contracts.joint import JointGraph, Partition, SavedTensor
from stage_contracts.node_meta import input_marks


def partition(joint: JointGraph) -> Partition:
    """Save each forward value that the backward reads, once, so that nothing is computed twice.

    Views and constants are not saved, but made again, which costs nothing. For a view, its base is saved.
    """
    return split(joint, to_save(joint, ("view", "creation")))


def to_save(joint: JointGraph, repeated: Sequence[str]) -> dict[Node, str]:
    """The values that the backward reads, with the reason. For a `repeated` kind of operator: the values that it reads
    itself, and so on.

    The same holds for every operator inside a checkpoint.
    """
    # lab: begin to_save
    saved: dict[Node, str] = {}
    inside, _ = checkpointed(joint)
    seen: set[Node] = set()
    stack = read_by_backward(joint)
    while stack:
        node = stack.pop()
        if node in seen or node.op == "get_attr":
            continue
        seen.add(node)
        if node.op == "placeholder":
            saved[node] = "an input that the backward reads"
        elif node in inside or kind_of(node) in repeated:
            stack += node.all_input_nodes
        else:
            saved[node] = f"{kind_of(node) or 'one of several results'}: not computed again"
    return saved
    # lab: end


def read_by_backward(joint: JointGraph) -> list[Node]:
    """The forward values and primals that backward nodes read or that are gradients themselves, in order."""
    # lab: begin read_by_backward
    tangents = joint.graph.placeholders[joint.num_primals :]
    backward = [n for n in joint.graph.calls if n.meta["region"] == "backward"]
    inside = {*backward, *tangents}
    gradients = joint.graph.outputs[joint.num_outputs :]
    reads = nodes_in(([n.args for n in backward], [n.kwargs for n in backward], gradients))
    wanted = {n for n in reads if n not in inside}
    return [n for n in joint.graph.nodes if n in wanted]
    # lab: end


def split(joint: JointGraph, saved: dict[Node, str]) -> Partition:
    """The forward and the backward graph, for a choice of what to save (node -> the reason)."""
    # lab: begin split
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
    # lab: end


def extract(graph: Graph, name: str, inputs: Sequence[Node], outputs: Iterable[Any]) -> Graph:
    """The part of `graph` that computes `outputs` from `inputs`, as a new graph with the same names."""
    # lab: begin extract
    part = Graph(name)
    images: dict[Node, Node] = {}
    outputs = tuple(outputs)
    for node in inputs:
        marks = input_marks(node)
        if name == "backward" and marks.get("role") != "tangent":
            marks |= {"role": "saved", "val": _plain(node)}
        images[node] = part.placeholder(node.name, **marks)
    for node in _needed(graph, images, outputs):
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
    # lab: end


def _needed(graph: Graph, given: Iterable[Node], outputs: Iterable[Any]) -> list[Node]:
    """The nodes, in the graph's order, that `outputs` need and that are not `given`."""
    stop, needed = set(given), set()
    stack = list(nodes_in(list(outputs)))
    while stack:
        node = stack.pop()
        if node not in stop and node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    return [n for n in graph.nodes if n in needed]


def _plain(node: Node) -> Any:
    """A value's meta without requires_grad, because saved values are data."""
    meta = meta_of(node)
    return meta.with_(requires_grad=False, strides=meta.strides)
