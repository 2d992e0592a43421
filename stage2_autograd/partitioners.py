"""Other partitioners: `--swap partition=stage2_autograd.partitioners:recompute_pointwise`, or by `pipeline=`.

Input: a joint graph in core operators, as `tiny.partition` takes it.
"""

from __future__ import annotations

from stage2_autograd.tiny.partition import kind_of, read_by_backward, split
from stage_contracts.graph import Node
from stage_contracts.joint import JointGraph, Partition

# Kinds of operators that cost little to compute again next to reading their result from memory. Random bits
# are a function of the state at entry and an index, so a second draw gives the same bits.
RECOMPUTED_KINDS = ("pointwise", "view", "creation", "random", "identity")


def recompute_pointwise(joint: JointGraph) -> Partition:
    """Save inputs and the results of reductions, contractions and gathers; compute what is between again.

    The same values as save-everything, bit for bit: the backward repeats the same operators on the same
    operands.
    """
    saved: dict[Node, str] = {}
    seen: set[Node] = set()
    stack = read_by_backward(joint)
    while stack:
        node = stack.pop()
        if node in seen or node.op == "get_attr":
            continue
        seen.add(node)
        if node.op == "placeholder":
            saved[node] = "an input that recomputation starts from"
        elif kind_of(node) in RECOMPUTED_KINDS:
            stack += node.all_input_nodes
        else:
            saved[node] = f"{kind_of(node) or 'composite'}: dear to compute again"
    return split(joint, saved)
