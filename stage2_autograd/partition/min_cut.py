"""The smallest set of values to save: a minimum cut between forward and backward, with bytes as capacities.

Input: a joint graph, and which operators may run again. One side of the cut must be computed in the forward; the
backward reads the other. The formulation is that of torch's min_cut_rematerialization_partition: a value is a pair of
vertices, and the edge between them costs its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stage2_autograd.aliasing import shares_storage
from stage2_autograd.core_calls import kind_of
from stage2_autograd.devices import on_gpu
from stage2_autograd.partition.checkpoints import checkpointed
from stage2_autograd.partition.max_flow import NetworkEdge, sink_side
from stage_contracts.graph import Node, map_args, meta_of, nodes_in
from stage_contracts.joint import JointGraph, bytes_at_hints
from stage_contracts.tensor_meta import TensorMeta

WRITING = 16  # saving a byte costs as much as writing this many bytes


@dataclass(frozen=True)
class Problem:
    """The input of the cut: `values` in the graph's order. None of them depends on a tangent."""

    values: tuple[Node, ...]
    sizes: Mapping[Node, int]  # the bytes of each value that can be saved; several cuts need them
    read: frozenset[Node]  # the values that the backward reads, or that are gradients themselves
    # the values that the user's outputs need: if the backward computes them, that is recomputation
    forward: frozenset[Node]
    outputs: frozenset[Node]  # the user's outputs: they are in memory in any case
    inside: frozenset[Node] = frozenset()  # values inside a checkpoint: recomputed, never saved
    results: frozenset[Node] = frozenset()  # results of a checkpoint: computed once
    written: frozenset[Node] = frozenset()  # values that the forward writes to memory in any case


def problem(joint: JointGraph) -> Problem:
    """The values that can be saved, and those that the backward needs."""
    graph = joint.graph
    outputs, gradients = graph.outputs[: joint.num_outputs], graph.outputs[joint.num_outputs :]
    late = set(
        graph.placeholders[joint.num_primals :]
    )  # a value that depends on a tangent belongs to the backward
    for node in graph.calls:
        if not late.isdisjoint(node.all_input_nodes):
            late.add(node)
    reads = {n for node in graph.calls if node in late for n in node.all_input_nodes}
    reads = {n for n in {*reads, *nodes_in(gradients)} if n not in late}
    wanted = ancestors(reads)
    values = tuple(n for n in graph.nodes if n in wanted and n.op != "get_attr")
    read = frozenset(n for n in reads if n.op != "get_attr")
    owned = frozenset(map(storage, nodes_in(outputs)))
    inside, results = checkpointed(joint)
    for node in values:  # a value that a derivative computes only from these is recomputation, too
        if node.meta.get("region") == "backward" and not inside.isdisjoint(node.all_input_nodes):
            inside |= {node}
    sizes = {n: bytes_of(n) for n in values if isinstance(n.val, TensorMeta) and not is_view(n)}
    forward = frozenset(ancestors(nodes_in(outputs)))
    return Problem(values, sizes, read, forward, owned, inside, results, _written(sizes, forward))


def _written(values: Iterable[Node], forward: Collection[Node]) -> frozenset[Node]:
    """The values that the forward writes to memory in any case: on a GPU, what its products read."""
    return frozenset(n for n in values if on_gpu([n]) and _read_by_a_product(n, forward))


def _read_by_a_product(node: Node, forward: Collection[Node]) -> bool:
    """Whether a product of the forward reads it, as it is or through views: that takes matrices in memory."""
    users = [user for user in node.users if user in forward]
    return any(kind_of(u) == "contraction" or (is_view(u) and _read_by_a_product(u, forward)) for u in users)


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """`nodes`, and all nodes that they are computed from."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.all_input_nodes
    return found


def minimum_cut(task: Problem, again: Callable[[Node], bool]) -> list[Node]:
    """The values to save, in order: those with the fewest bytes in total. Of equal choices, the one that recomputes
    least.

    again: whether an operator may run a second time, in the backward. Inputs are not computed, so they are given.
    Values inside a checkpoint are always recomputed, and its results never.
    """
    number = {node: i for i, node in enumerate(task.values)}

    def repeats(node: Node) -> bool:
        return node in task.inside or (node not in task.results and again(node))

    in_memory = task.outputs | task.written
    weights = [
        None if node in task.inside else cost(task.sizes.get(node), node in in_memory or not repeats(node))
        for node in task.values
    ]
    given = {n for n in task.values if n.op == "placeholder" or (n in task.forward and not repeats(n))}
    edges, ends, size = _network(weights, number, given, task.read)
    after = sink_side(edges, size, _SOURCE, _SINK)
    return [
        node
        for node, weight, (begin, end) in zip(task.values, weights, ends, strict=True)
        if weight is not None and after[end] and not after[begin]
    ]


_SOURCE, _SINK = 0, 1


def _network(
    weights: list[int | None], number: Mapping[Node, int], given: Collection[Node], read: Collection[Node]
) -> tuple[list[NetworkEdge], list[tuple[int, int]], int]:
    """The edges, the two vertices of each value, and how many vertices there are.

    The edge between the two vertices of a value is cut if the value is saved (capacity None: it cannot be). An edge
    from a value to its reader is never cut. Given values are connected to the source, and values that the backward
    reads to the sink.
    """
    unbounded = 1 + sum(weight for weight in weights if weight is not None)
    ends = [
        (_SOURCE if node in given else 2 * i + 2, _SINK if node in read else 2 * i + 3)
        for node, i in number.items()
    ]
    edges = [
        (begin, end, unbounded if weight is None else weight)
        for (begin, end), weight in zip(ends, weights, strict=True)
    ]
    for node, i in number.items():
        begin = ends[i][0]
        if begin != _SOURCE:  # flow never returns to the source and never leaves the sink
            tails = (ends[number[used]][1] for used in node.all_input_nodes if used in number)
            edges += [(tail, begin, unbounded) for tail in tails if tail != _SINK]
    return edges, ends, 2 * len(number) + 2


def cost(size: int | None, in_memory: bool) -> int | None:
    """The cost of saving a value with this number of bytes. None: it cannot be saved.

    A view is never saved, but its base is, because the view would keep all of the base's memory alive. A value that is
    in memory in any case (an input, an output, the result of an operator that is not fused) is cheaper than one that a
    kernel has to write only for this, even if the backward then needs a few more numbers: logits and one number per row
    instead of their softmax; the input of a layer norm, its mean and deviation instead of the centred input.
    """
    return None if size is None else WRITING * max(1, size) + (0 if in_memory else max(1, size))


def storage(node: Node) -> Node:
    """The node whose memory a view shares."""
    while is_view(node):
        node = node.args[0]
    return node


def is_view(node: Node) -> bool:
    return node.op == "call_function" and shares_storage(node.target, map_args(node.args, _meta_or_tuple))


def _meta_or_tuple(node: Node) -> Any:
    return node.val


def bytes_of(node: Node) -> int:
    """The bytes of a value. Symbolic sizes count with their hints, because a choice must not become an assumption."""
    return bytes_at_hints(meta_of(node))
