"""Checkpoints: which values of a joint graph every partitioner must recompute because of utils.checkpoint.

Input: a joint graph. Capture has marked the nodes of each checkpointed call: meta["checkpoint"], a number per call.
"""

from __future__ import annotations

from stage2_autograd.aliasing import base
from stage_contracts.graph import Node, nodes_in
from stage_contracts.joint import JointGraph
from stage_contracts.unbacked import has_effect


def checkpointed(joint: JointGraph) -> tuple[frozenset[Node], frozenset[Node]]:
    """(inside, results). Values inside a checkpoint are recomputed and never saved; its results are computed once."""
    graph = joint.graph
    marked = [n for n in graph.calls if "checkpoint" in n.meta and n.meta["region"] == "forward"]
    once = {n for n in marked if has_effect(n)}  # other ranks wait for these once
    owned = set(map(base, nodes_in(graph.outputs[: joint.num_outputs])))
    results = frozenset(marked) & (owned | once | {base(n) for n in marked if _leaves(n)})
    return frozenset(marked) - results, results


def _leaves(node: Node) -> bool:
    """Whether a forward node outside of the checkpointed call reads it."""
    mine = node.meta["checkpoint"]
    readers = [user for user in node.users if user.meta.get("region") == "forward"]
    return any(user.meta.get("checkpoint") != mine for user in readers)
