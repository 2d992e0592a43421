"""Common subexpressions: equal calls are computed once.

Input: a graph that the pass may change. Calls are equal if operator and arguments are equal, to the bit.
"""

from __future__ import annotations

from typing import Any

from stage2_autograd.aliasing import base
from stage2_autograd.decompose.rewriting import key_of, pinned
from stage_contracts.graph import Graph, Node
from stage_contracts.origin import union
from stage_contracts.unbacked import has_effect


def common_subexpressions(graph: Graph) -> None:
    """Compute equal calls once. Random bits are a function of their arguments, so calls with different offsets never
    merge. Neither do collectives: the other ranks wait for each.

    Two outputs that do not share memory must not begin to share it: two nodes whose memory outputs use are not merged.
    """
    kept = pinned(graph)
    first: dict[Any, Node] = {}
    for node in graph.calls:
        if has_effect(node):
            continue
        key = (node.target, key_of(node.args), key_of(node.kwargs))
        earlier = first.setdefault(key, node)
        if earlier is node or (earlier in kept and node in kept):
            continue
        if node in kept or base(node) in kept:
            kept.add(base(earlier))
        earlier.meta["origins"] = union((earlier.origins, node.origins))
        graph.replace_all_uses_with(node, earlier)
