"""Partitioners that are wrong, one planted error each: the conformance tests must fail on every one.

Input: joint graphs, as tiny.partition takes them.
"""

from __future__ import annotations

from dataclasses import replace

from stage2_autograd.tiny import partition
from stage_contracts.graph import Graph
from stage_contracts.joint import JointGraph, Partition

PLANTED = ("drops_a_saved_tensor", "saves_the_wrong_value", "swaps_two_gradients")


def with_outputs(graph: Graph, change) -> Graph:
    """A copy of `graph` that returns `change(outputs)`."""
    twin = graph.copy()
    twin.set_args(twin.output_node, (tuple(change(list(twin.outputs))),))
    return twin


def drops_a_saved_tensor(joint: JointGraph) -> Partition:
    """The forward keeps the last saved value to itself."""
    part = partition(joint)
    if not part.saved:
        return part
    return replace(part, forward=with_outputs(part.forward, lambda out: out[:-1]), saved=part.saved[:-1])


def saves_the_wrong_value(joint: JointGraph) -> Partition:
    """Two saved values of one shape change places: everything fits, only the numbers are wrong."""
    part = partition(joint)
    first = part.num_outputs
    metas = [(s.meta.shape, s.meta.dtype) for s in part.saved]
    pairs = [(i, j) for j in range(len(metas)) for i in range(j) if metas[i] == metas[j]]
    if not pairs:
        return part
    i, j = pairs[-1]

    def exchange(outputs):
        outputs[first + i], outputs[first + j] = outputs[first + j], outputs[first + i]
        return outputs

    return replace(part, forward=with_outputs(part.forward, exchange))


def swaps_two_gradients(joint: JointGraph) -> Partition:
    """The first two gradients change places."""
    part = partition(joint)
    there = [i for i, g in enumerate(part.backward.outputs) if g is not None]
    if len(there) < 2:
        return part

    def exchange(outputs):
        i, j = there[:2]
        outputs[i], outputs[j] = outputs[j], outputs[i]
        return outputs

    return replace(part, backward=with_outputs(part.backward, exchange))
