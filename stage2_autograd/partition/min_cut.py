"""The smallest set of values to save: a minimum cut between what must be computed in the forward and what reads it
in the backward, with bytes as capacities.

Input: a joint graph and which operators may run again. The formulation is that of torch's
min_cut_rematerialization_partition: a value is a pair of vertices, and the edge between them costs its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stage2_autograd.aliasing import shares_storage
from stage2_autograd.partition.checkpoints import checkpointed
from stage_contracts.graph import Node, map_args, meta_of, nodes_in
from stage_contracts.joint import JointGraph, bytes_at_hints
from stage_contracts.tensor_meta import TensorMeta

UNBOUNDED = 2**31 - 1  # scipy's capacities are int32
WRITING = 16  # how many bytes saved cost as much as one that is written for the backward alone
FINITE = 2**29  # all finite capacities together stay below this, so that no flow reaches UNBOUNDED


@dataclass(frozen=True)
class Problem:
    """What the cut is about: `values` in the graph's order, none of which depends on a tangent."""

    values: tuple[Node, ...]
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
    return Problem(values, read, frozenset(ancestors(nodes_in(outputs))), owned, inside, results)


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
        None if node in task.inside else cost(node, node in task.outputs or not repeats(node))
        for node in task.values
    ]
    given = {n for n in task.values if n.op == "placeholder" or (n in task.forward and not repeats(n))}
    edges = [*_value_edges(weights), *_flow_edges(number, given, task.read)]
    after = _reaches_sink(edges, 2 * len(number), 2 * len(number) + 1)
    return [node for node, i in number.items() if not after[2 * i] and after[2 * i + 1]]


# The network: value i is an edge from vertex 2i to vertex 2i + 1, cut where it is saved; then come source and sink.
NetworkEdge = tuple[int, int, int]  # tail, head, capacity


def _value_edges(weights: list[int | None]) -> Iterator[NetworkEdge]:
    """What saving each value costs, in units that keep the sum finite; None cannot be saved."""
    unit = max(1, -(-sum(w for w in weights if w is not None) // FINITE))
    for i, weight in enumerate(weights):
        yield 2 * i, 2 * i + 1, UNBOUNDED if weight is None else -(-weight // unit)


def _flow_edges(
    number: Mapping[Node, int], given: Collection[Node], read: Collection[Node]
) -> Iterator[NetworkEdge]:
    """From the source to what is given, from each value to its readers, to the sink from what the backward reads."""
    source, sink = 2 * len(number), 2 * len(number) + 1
    for node, i in number.items():
        if node in given:
            yield source, 2 * i, UNBOUNDED
        for used in node.all_input_nodes:
            if used in number:
                yield 2 * number[used] + 1, 2 * i, UNBOUNDED
        if node in read:
            yield 2 * i + 1, sink, UNBOUNDED


def _reaches_sink(edges: list[NetworkEdge], source: int, sink: int) -> np.ndarray:
    """Which vertices are behind the last minimum cut: those from which the sink can take more flow."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    size = sink + 1
    tails, heads, capacities = np.array(edges, np.int32).reshape(-1, 3).T
    network = csr_matrix((capacities, (tails, heads)), (size, size))
    flow = maximum_flow(network, source, sink).flow
    residual = (network.astype(np.int64) - flow.astype(np.int64)).T.tocsr()
    residual.eliminate_zeros()
    after = np.zeros(size, bool)
    after[breadth_first_order(residual, sink, return_predecessors=False)] = True
    return after


def cost(node: Node, in_memory: bool) -> int | None:
    """What saving a value costs; None: it cannot be saved.

    A view is never saved, what it views is: saving it would keep all of that alive anyway. A value that is in memory
    anyway (an input, an output, the result of what is not fused) goes before one that a kernel would have to write for
    this alone, also where the backward then needs a few numbers more: logits and a number per row rather than their
    softmax, what a layer norm is given with its mean and deviation rather than the centred input.
    """
    if not isinstance(node.val, TensorMeta) or is_view(node):
        return None
    return WRITING * max(1, bytes_of(node)) + (0 if in_memory else max(1, bytes_of(node)))


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
