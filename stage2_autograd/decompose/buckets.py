"""Buckets: means of gradients that are ready one after the other travel in one collective.

Input: core graphs with `average` calls, one for each parameter of DistributedDataParallel, in the order in which the
backward makes their operands. One call costs one latency; the first bucket is small, so that it starts early. (Li et
al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.)
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import core_name
from stage_contracts.graph import Graph, Node, map_args, meta_of
from stage_contracts.layouts import is_dense
from stage_contracts.origin import union
from stage_contracts.tensor_meta import TensorMeta

FIRST_BYTES = 1 << 20


def buckets(graph: Graph) -> None:
    """Each run of `average` calls that do not wait for one another becomes an all_reduce of their operands, joined."""
    for bucket in _chosen(graph):
        _join(graph, bucket)


def _chosen(graph: Graph) -> list[list[Node]]:
    """The calls of each bucket, in order. What waits for a call of an open bucket closes it."""
    made: list[list[Node]] = []
    filling: dict[tuple, list[Node]] = {}  # by group, dtype, limit and half of the graph
    begun: set[tuple] = set()  # those whose first bucket is closed
    behind: dict[Node, frozenset[int]] = {}  # node -> the buckets that it waits for
    for node in graph.calls:
        waits = frozenset().union(*(behind.get(read, frozenset()) for read in node.all_input_nodes))
        for key in [key for key, bucket in filling.items() if id(bucket) in waits]:
            del filling[key]
            begun.add(key)
        behind[node] = waits
        if core_name(node) != "average" or not isinstance(meta_of(node).numel, int):
            continue
        key = (*node.args[1:], meta_of(node).dtype, node.meta.get("region"))
        most = node.args[1] if key in begun else min(FIRST_BYTES, node.args[1])
        bucket = filling.get(key, [])
        if bucket and sum(meta_of(n).nbytes for n in (*bucket, node)) > most:
            begun.add(key)
            bucket = []
        if not bucket:
            filling[key] = bucket
            made.append(bucket)
        bucket.append(node)
        behind[node] = frozenset({id(bucket)})
    return made


def _join(graph: Graph, bucket: list[Node]) -> None:
    """Put the means of a bucket in the place of its calls, after the last of them."""
    nodes, last = graph.nodes, bucket[-1]
    origins = union(node.origins for node in bucket)
    marks = {k: v for k, v in last.meta.items() if k not in ("val", "origins")}

    def call(target: Any, *args: Any, name: str = "") -> Node:
        val = target.meta(*map_args(args, meta_of))
        return graph.call_function(target, args, val=val, origins=origins, name=name or None, **marks)

    with graph.inserting_before(nodes[nodes.index(last) + 1]):
        counts = [meta_of(node).numel for node in bucket]
        orders = [_in_memory(meta_of(node.args[0])) for node in bucket]
        laid_out = [_turned(call, node.args[0], order) for node, order in zip(bucket, orders, strict=True)]
        flat = [call(c.reshape, one, (n,)) for one, n in zip(laid_out, counts, strict=True)]
        whole = call(c.cat, flat, 0, name="bucket") if len(flat) > 1 else flat[0]
        mean = call(c.all_reduce, whole, "avg", last.args[2])
        start = 0
        for node, one, order, count in zip(bucket, laid_out, orders, counts, strict=True):
            part = call(c.slice, mean, 0, start, start + count, 1) if len(flat) > 1 else mean
            part = call(c.reshape, part, meta_of(one).shape)
            back = tuple(order.index(d) for d in range(len(order)))
            graph.replace_all_uses_with(node, _turned(call, part, back))
            start += count
    for node in bucket:
        graph.erase_node(node)


def _in_memory(meta: TensorMeta) -> tuple[int, ...]:
    """The order of the dimensions in which the elements lie in memory. Flat in this order, nothing is copied."""
    natural = tuple(range(meta.ndim))
    if meta.is_contiguous or not is_dense(meta.shape, meta.strides):
        return natural
    return tuple(sorted(natural, key=lambda d: -meta.strides[d]))


def _turned(call: Any, node: Node, order: tuple[int, ...]) -> Node:
    """The node with its dimensions in this order; what was turned the other way before is not turned twice."""
    if order == tuple(range(len(order))):
        return node
    if core_name(node) == "permute":
        before = [d % len(order) for d in node.args[1]]
        both = tuple(before[d] for d in order)
        return node.args[0] if both == tuple(range(len(both))) else call(c.permute, node.args[0], both)
    return call(c.permute, node, order)
