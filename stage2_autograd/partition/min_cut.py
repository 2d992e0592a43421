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
from stage2_autograd.partition.checkpoints import checkpointed
from stage2_autograd.partition.max_flow import NetworkEdge, sink_side
from stage_contracts.graph import Node, map_args, meta_of, nodes_in
from stage_contracts.joint import JointGraph, bytes_at_hints
from stage_contracts.tensor_meta import TensorMeta

WRITING = 16  # how many bytes saved cost as much as one that is written for the backward alone


@dataclass(frozen=True)
class Problem:
    """What the cut is about: `values` in the graph's order, none of which depends on a tangent."""

    values: tuple[Node, ...]
    sizes: Mapping[Node, int]  # bytes of those that can be saved; several cuts ask for them
    read: frozenset[Node]  # by the backward, or gradients themselves
    forward: frozenset[Node]  # needed by the user's outputs: computing one of these again is recomputation
    outputs: frozenset[Node]  # of the user: written to memory whatever is chosen
    inside: frozenset[Node] = frozenset()  # of a checkpoint: run again, never saved
    results: frozenset[Node] = frozenset()  # of a checkpoint: run once


def problem(joint: JointGraph) -> Problem:
    """The values that could be saved, and what the backward asks for."""
    graph = joint.graph
    outputs, gradients = graph.outputs[: joint.num_outputs], graph.outputs[joint.num_outputs :]
    late = set(graph.placeholders[joint.num_primals :])  # what depends on a tangent can only be backward
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
    for node in values:  # what a derivative makes of nothing but such values is no way around it
        if node.meta.get("region") == "backward" and not inside.isdisjoint(node.all_input_nodes):
            inside |= {node}
    sizes = {n: bytes_of(n) for n in values if isinstance(n.val, TensorMeta) and not is_view(n)}
    return Problem(values, sizes, read, frozenset(ancestors(nodes_in(outputs))), owned, inside, results)


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """`nodes` and all they are computed from."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.all_input_nodes
    return found


def minimum_cut(task: Problem, again: Callable[[Node], bool]) -> list[Node]:
    """The values to save, in order: fewest bytes in all, and of equally small choices the one that recomputes least.

    again: may this operator run a second time, in the backward? Inputs never "run", so they count as given. What is
    inside a checkpoint always does, and the results of one never do: so the checkpoints stay apart.
    """
    number = {node: i for i, node in enumerate(task.values)}

    def repeats(node: Node) -> bool:
        return node in task.inside or (node not in task.results and again(node))

    weights = [
        None if node in task.inside else cost(task.sizes.get(node), node in task.outputs or not repeats(node))
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

    An edge between the two vertices of a value is cut where the value is saved (None cannot be); one from a value to
    its reader never is. What is given begins at the source, and what the backward reads ends at the sink.
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
        if begin != _SOURCE:  # flow never returns to the source, nor leaves the sink
            tails = (ends[number[used]][1] for used in node.all_input_nodes if used in number)
            edges += [(tail, begin, unbounded) for tail in tails if tail != _SINK]
    return edges, ends, 2 * len(number) + 2


def cost(size: int | None, in_memory: bool) -> int | None:
    """What saving a value of so many bytes costs; None: it cannot be saved.

    A view is never saved, what it views is: saving it would keep all of that alive anyway. A value that is in memory
    anyway (an input, an output, the result of what is not fused) goes before one that a kernel would have to write for
    this alone, also where the backward then needs a few numbers more: logits and a number per row rather than their
    softmax, what a layer norm is given with its mean and deviation rather than the centred input.
    """
    return None if size is None else WRITING * max(1, size) + (0 if in_memory else max(1, size))


def storage(node: Node) -> Node:
    """The node in whose memory a view lives."""
    while is_view(node):
        node = node.args[0]
    return node


def is_view(node: Node) -> bool:
    return node.op == "call_function" and shares_storage(node.target, map_args(node.args, _meta_or_tuple))


def _meta_or_tuple(node: Node) -> Any:
    return node.val


def bytes_of(node: Node) -> int:
    """Bytes of a value; at the hints, where sizes are symbolic, because a choice must not become an assumption."""
    return bytes_at_hints(meta_of(node))
