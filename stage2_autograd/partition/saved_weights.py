"""On a GPU, attention in float32 whose weights are saved: the row sums of its gradient are those of the weights again.

Input: a partition, after attention_gradient.py wrote the row sums of p * (g @ v.T) as those of g * (p @ v). That is for
kernels that compute the weights anew and correct the sum. With weights in memory there is no such kernel: the sum comes
of other products than what it is subtracted from, and where they nearly cancel, what is left is the error of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import core_name
from stage2_autograd.devices import on_gpu
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node
from stage_contracts.joint import Partition


@dataclass(frozen=True)
class _Delta:
    """sum(g * o), where o is weights @ values and slopes are g @ values.T."""

    total: Node
    weights: Node
    slopes: Node
    result: Node


def sums_of_saved_weights(partition: Partition) -> Partition:
    """The partition, with the sums of such weights times their gradients; results that only they read are not saved."""
    if not on_gpu(partition.backward.nodes) or not _deltas(partition):
        return partition
    partition = replace(partition, forward=partition.forward.copy(), backward=partition.backward.copy())
    for delta in _deltas(partition):
        backward, dim = partition.backward, delta.slopes.val.ndim - 1
        with backward.inserting_before(delta.total):
            product = _call(backward, c.mul, (delta.weights, delta.slopes), delta.total)
            total = _call(backward, c.sum, (product, (dim,), True), delta.total)
        backward.replace_all_uses_with(delta.total, total)
        backward.eliminate_dead_code()
        if not delta.result.users:
            partition = _without(partition, delta.result)
    return partition.verify()


def _deltas(partition: Partition) -> list[_Delta]:
    forward = {node.name: node for node in partition.forward.nodes}
    found = {}
    for node in partition.backward.calls:
        if core_name(node) == "mul" and node.val.dtype is dt.float32 and len(node.all_input_nodes) == 2:
            for weights, difference in (node.args, node.args[::-1]):
                delta = _delta(weights, difference, forward)
                if delta is not None:
                    found[delta.total] = delta
    return list(found.values())


def _delta(weights: Node, difference: Node, forward: dict[str, Node]) -> _Delta | None:
    if weights.op != "placeholder" or core_name(difference) != "sub":
        return None
    slopes, total = difference.args[:2]
    if core_name(slopes) != "matmul" or core_name(total) != "sum" or core_name(total.args[0]) != "mul":
        return None
    gradient, turned = slopes.args
    factors = total.args[0].args
    for one, result in (factors, factors[::-1]):
        if one is gradient and isinstance(result, Node) and core_name(turned) == "permute":
            made, names = forward.get(result.name), (weights.name, turned.args[0].name)
            if made is None or core_name(made) != "matmul":
                continue
            if all(map(_alike, made.args, map(forward.get, names))):
                return _Delta(total, weights, slopes, result)
    return None


def _alike(one: Any, other: Any) -> bool:
    """Whether two arguments are the same, or computed alike: weights that are saved may be a second copy."""
    if not isinstance(one, Node) or not isinstance(other, Node):
        return type(one) is type(other) and bool(one == other)
    return one is other or (
        one.op == other.op == "call_function"
        and one.target is other.target
        and len(one.args) == len(other.args)
        and one.kwargs == other.kwargs
        and all(map(_alike, one.args, other.args))
    )


def _call(graph: Graph, target: Any, args: tuple, like: Node) -> Node:
    """A new call with the marks of another."""
    val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
    return graph.call_function(target, args, val=val, **{k: v for k, v in like.meta.items() if k != "val"})


def _without(partition: Partition, node: Node) -> Partition:
    """The partition with one tensor less that is saved, if it is one."""
    placeholders = partition.backward.placeholders
    if node not in placeholders or placeholders.index(node) >= len(partition.saved):
        return partition
    place = placeholders.index(node)
    outputs = [*partition.forward.outputs]
    del outputs[partition.num_outputs + place]
    partition.forward.set_args(partition.forward.output_node, (tuple(outputs),))
    partition.backward.erase_node(node)
    saved = partition.saved[:place] + partition.saved[place + 1 :]
    return replace(partition, saved=saved)
