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
from stage_contracts.origin import union

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
        flat = [call(c.reshape, node.args[0], (n,)) for node, n in zip(bucket, counts, strict=True)]
        whole = call(c.cat, flat, 0, name="bucket") if len(flat) > 1 else flat[0]
        mean = call(c.all_reduce, whole, "avg", last.args[2])
        start = 0
        for node, count in zip(bucket, counts, strict=True):
            part = call(c.slice, mean, 0, start, start + count, 1) if len(flat) > 1 else mean
            graph.replace_all_uses_with(node, call(c.reshape, part, meta_of(node).shape))
            start += count
    for node in bucket:
        graph.erase_node(node)
