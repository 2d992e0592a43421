"""Regions of nested_compile_region: each is cut into a forward and a backward half once, however often it is called.

Input: a functional graph with calls of invoke_subgraph, and the seams that make a joint graph and cut it. differentiate
then reads the backward half at each call (torch's invoke_subgraph does the same in its own partitioner).
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stage0_eager.control_flow.operators import INVOKE_SUBGRAPH
from stage2_autograd.on_tape import on_tape
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import CoreModule, ForwardHalf, GraphModule
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition

Differentiate = Callable[[FunctionalGraph], JointGraph]
Decompose = Callable[[Graph], Graph]
Cut = Callable[[JointGraph], Partition]


def cut_regions(
    functional: FunctionalGraph, differentiate: Differentiate, decompose: Decompose, partition: Cut
) -> FunctionalGraph:
    """`functional`, where each region through which a gradient flows is its forward half.

    Calls of one region that need gradients of the same operands share the halves.
    """
    if not any(node.target is INVOKE_SUBGRAPH for node in functional.graph.calls):
        return functional
    graph = functional.graph.copy()
    recorded = on_tape(graph)
    halves: dict[tuple, GraphModule] = {}
    for node in [n for n in graph.calls if n.target is INVOKE_SUBGRAPH and n in recorded]:
        whole, operands = graph.attributes[node.args[0].target], node.args[1]
        wanted = tuple(operand in recorded for operand in operands)
        if (id(whole), wanted) not in halves:
            joint = _joint(whole.graph, wanted, differentiate, decompose, partition)
            halves[id(whole), wanted] = _halves(whole, partition(joint).verify(), joint)
        _replace(graph, node, halves[id(whole), wanted])
    return replace(functional, graph=graph)


def _joint(
    region: Graph,
    wanted: tuple[bool, ...],
    differentiate: Differentiate,
    decompose: Decompose,
    partition: Cut,
) -> JointGraph:
    """Forward and backward of a region, in core operators, with gradients of the `wanted` inputs."""
    region = region.copy()
    for node, wants in zip(region.placeholders, wanted, strict=True):
        node.meta |= {"val": node.val.with_(requires_grad=wants, strides=node.val.strides), "role": "primal"}
    alone = FunctionalGraph(region, len(region.outputs))
    joint = differentiate(cut_regions(alone, differentiate, decompose, partition))
    return replace(joint, graph=decompose(joint.graph)).verify()


def _halves(whole: GraphModule, cut: Partition, joint: JointGraph) -> ForwardHalf:
    """The two graphs of a partition as what a call runs: nothing that is an operand is returned again."""
    forward, backward, name = cut.forward.copy(), cut.backward.copy(), whole.graph.name
    forward.name, backward.name = f"{name}_forward", f"{name}_backward"
    inputs, returned = forward.placeholders, list(forward.outputs[: cut.num_outputs])
    reads: list[tuple[str, int]] = []
    for saved in forward.outputs[cut.num_outputs :]:
        if saved in inputs:
            reads.append(("operand", inputs.index(saved)))
            continue
        reads.append(("out", len(returned)))
        returned.append(saved)
    gradients = backward.outputs
    made = [g for g in gradients if g is not None]
    gives = tuple(None if g is None else made.index(g) for g in gradients)
    for graph, outputs in ((forward, returned), (backward, made)):
        graph.erase_node(graph.output_node)
        graph.output(outputs)
    return ForwardHalf(forward, CoreModule(backward), tuple(reads), joint.tangent_outputs, gives)


def _replace(graph: Graph, node: Node, half: GraphModule) -> None:
    """Call `half` in place of the region of `node`. Every value that it returns becomes a node, for the backward."""
    operands: Any = node.args[1]
    with graph.inserting_before(node):
        vals = INVOKE_SUBGRAPH.meta(half, [operand.val for operand in operands])
        new = graph.call_function(
            INVOKE_SUBGRAPH, (graph.subgraph(half), operands), **{**node.meta, "val": vals}
        )
    read = {user.args[1]: user for user in node.users}
    for user in read.values():
        graph.set_args(user, (new, user.args[1]))
    marks = {key: value for key, value in node.meta.items() if key != "val"}
    with graph.inserting_before(node):
        for place, val in enumerate(vals):
            if place not in read:
                graph.call_function(python.getitem, (new, place), val=val, **marks)
    graph.erase_node(node)
