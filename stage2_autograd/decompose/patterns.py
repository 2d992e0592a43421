"""Marks patterns: attention, and a matrix product with its bias and transposes. The nodes are not changed.

Input: a graph with its composites (attention), or in core operators (linear). The mark is meta["pattern"],
"attention_0" or "linear_3". Reports show it, and a lowering with a fused kernel finds the nodes by it.
"""

from __future__ import annotations

from collections.abc import Collection

from stage2_autograd.core_calls import core_name
from stage_contracts.graph import Graph, Node

# The operators that may come between the first product and softmax, and between softmax and the second product.
_BETWEEN = frozenset(
    "mul div add sub neg abs square where cast masked_fill dropout reshape expand tanh sigmoid clamp minimum "
    "maximum".split()
)
_SOFTMAX = frozenset(("softmax",))
_VIEWS = frozenset(("permute", "reshape", "expand", "cast"))


def attention(graph: Graph) -> None:
    """softmax(q @ k.T, scaled and masked) @ v: all its nodes get one mark."""
    count = 0
    for node in graph.calls:
        if _name(node) not in _SOFTMAX:
            continue
        before, scores = _towards_inputs(node, "matmul")
        after, product = _towards_users(node, "matmul")
        if scores is None or product is None:
            continue
        for member in {node, scores, product, *before, *after}:
            member.meta["pattern"] = f"attention_{count}"
        count += 1


def linear(graph: Graph) -> None:
    """x @ w (or w.T) + bias: the product, its transposes and the addition get one mark."""
    count = 0
    for node in graph.calls:
        if core_name(node) != "matmul" or "pattern" in node.meta:
            continue
        members = [node, *(a for a in node.args if core_name(a) == "permute")]
        after, bias = _towards_users(node, "add", _VIEWS)
        if bias is not None and any(isinstance(a, Node) and a.val.ndim == 1 for a in bias.args):
            members += [*after, bias]
        if len(members) > 1:
            for member in members:
                member.meta.setdefault("pattern", f"linear_{count}")
            count += 1


def _name(node: Node) -> str:
    return getattr(node.target, "name", "") if node.op == "call_function" else ""


def _towards_inputs(node: Node, wanted: str) -> tuple[list[Node], Node | None]:
    path: list[Node] = []
    while True:
        operands = [n for n in node.all_input_nodes if _name(n) == wanted or _name(n) in _BETWEEN]
        if not operands:
            return path, None
        node = operands[0]
        if _name(node) == wanted:
            return path, node
        path.append(node)


def _towards_users(
    node: Node, wanted: str, between: Collection[str] = _BETWEEN
) -> tuple[list[Node], Node | None]:
    path: list[Node] = []
    while True:
        region = node.meta.get("region")
        users = [u for u in node.users if u.meta.get("region") == region]
        found = [u for u in users if _name(u) == wanted]
        if found:
            return path, found[0]
        onward = [u for u in users if _name(u) in between]
        if not onward:
            return path, None
        node = onward[0]
        path.append(node)
