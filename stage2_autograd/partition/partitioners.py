"""The partitioners by name, and the two that choose by kind of operator: save everything, recompute pointwise.

Input: a joint graph in core operators, and the partitioner in `config.autograd`. Partitioners differ only in what they
save. To use your own, pass `pipeline=`, or `--swap partition=stage2_autograd.partition:recompute_pointwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stage2_autograd.core_calls import kind_of
from stage2_autograd.partition.channels_innermost import save_channels_innermost
from stage2_autograd.partition.checkpoints import checkpointed
from stage2_autograd.partition.rematerialization import min_cut
from stage2_autograd.partition.saved_weights import sums_of_saved_weights
from stage2_autograd.partition.split import split
from stage2_autograd.verify import verify_partition
from stage_contracts import config
from stage_contracts.graph import Node, nodes_in
from stage_contracts.joint import JointGraph, Partition

# Kinds of operators that cost nothing to run again.
FREE_KINDS = ("view", "creation")

# Kinds of operators for which a second run costs little compared with reading the result from memory. Random bits are a
# function of the state at entry and an index, so a second draw gives the same bits.
CHEAP_KINDS = ("pointwise", "view", "creation", "random", "identity")


def partition(joint: JointGraph) -> Partition:
    """The forward and the backward graph, from the partitioner that `config.autograd.partitioner` names.

    Raises ValueError for an unknown name, or for a budget outside of 0 to 1.
    """
    options = config.current().autograd
    name = options.partitioner
    if name not in PARTITIONERS:
        raise ValueError(f"autograd.partitioner is {name!r}; expected one of {', '.join(PARTITIONERS)}")
    halves = PARTITIONERS[name](joint)
    if options.verify_passes:
        verify_partition(name, joint, halves)
    return save_channels_innermost(sums_of_saved_weights(halves))


def save_everything(joint: JointGraph) -> Partition:
    """Save each forward value that the backward reads. For a view, save its base.

    Only views and constants are computed twice, which costs nothing.
    """
    return split(joint, to_save(joint, FREE_KINDS))


def recompute_pointwise(joint: JointGraph) -> Partition:
    """Save inputs and the results of reductions, contractions and gathers; recompute all values between them.

    The bits are the same as with save_everything: the backward runs the same operators on the same operands.
    """
    return split(joint, to_save(joint, CHEAP_KINDS))


PARTITIONERS: dict[str, Callable[[JointGraph], Partition]] = {
    "min_cut": min_cut,
    "recompute_pointwise": recompute_pointwise,
    "save_everything": save_everything,
}


def to_save(joint: JointGraph, repeated: Sequence[str]) -> dict[Node, str]:
    """The values that the backward reads, with the reason. For a `repeated` kind of operator: the values that it reads
    itself, and so on.

    The same holds for every operator inside a checkpoint.
    """
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


def read_by_backward(joint: JointGraph) -> list[Node]:
    """The forward values and primals that backward nodes read or that are gradients themselves, in order."""
    tangents = joint.graph.placeholders[joint.num_primals :]
    backward = [n for n in joint.graph.calls if n.meta["region"] == "backward"]
    inside = {*backward, *tangents}
    gradients = joint.graph.outputs[joint.num_outputs :]
    reads = nodes_in(([n.args for n in backward], [n.kwargs for n in backward], gradients))
    wanted = {n for n in reads if n not in inside}
    return [n for n in joint.graph.nodes if n in wanted]
