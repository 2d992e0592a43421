"""On a GPU, what the backward reads of attention's weights is computed for it again, from queries and keys.

Input: a core graph with marked attention; in one that holds a whole training step, both directions read the same
weights. Then they would have to be in memory, and neither direction could be one kernel. Only the rows' largest scores
and sums stay common (FlashAttention; Dao et al., NeurIPS 2022). A partition does the same between two graphs.
"""

from __future__ import annotations

from collections import defaultdict

from stage2_autograd.core_calls import core_name, kind_of
from stage2_autograd.devices import on_gpu
from stage_contracts.graph import Graph, Node, map_args


def attention_again(graph: Graph) -> None:
    """Whoever reads scores or weights outside the pattern reads copies of them."""
    patterns: dict[str, list[Node]] = defaultdict(list)
    for node in graph.calls:
        if node.meta.get("pattern", "").startswith("attention"):
            patterns[node.meta["pattern"]].append(node)
    for members in patterns.values():
        if on_gpu(members):
            _split(graph, members)


def _split(graph: Graph, members: list[Node]) -> None:
    matrices = _matrices(members)
    inside = {*members}
    outside = {user for n in matrices for user in n.users if user not in inside and user.op != "output"}
    if not outside:
        return
    copies: dict[Node, Node] = {}
    with graph.inserting_before(next(n for n in graph.nodes if n in outside)):
        for node in matrices:
            args, kwargs = map_args((node.args, node.kwargs), lambda n: copies.get(n, n))
            copies[node] = graph.call_function(node.target, args, kwargs, val=node.val, name=node.name)
            copies[node].meta.update({k: v for k, v in node.meta.items() if k not in ("val", "pattern")})
    for user in outside:
        args, kwargs = map_args((user.args, user.kwargs), lambda n: copies.get(n, n))
        graph.set_args(user, args, kwargs)


def _matrices(members: list[Node]) -> list[Node]:
    """The scores and what is computed of each: not the rows' reductions, and not the product with the values."""
    products = [n for n in members if kind_of(n) == "contraction"]
    columns = products[0].val.shape[-1] if products else None
    return [
        n
        for n in members
        if n is not products[-1] and kind_of(n) != "reduction" and core_name(n) and n.val.shape[-1] == columns
    ]
