"""On a GPU, the scale of attention's queries is multiplied after the product with the keys: a kernel less each way.

Input: a core graph with marked attention. (c q) @ k.T is c (q @ k.T), which costs the attention kernel
nothing; the gradient of the keys likewise. Not in float16: scores that no kernel keeps in float32 could overflow.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import core_name
from stage2_autograd.devices import on_gpu
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node


def attention_scale(graph: Graph) -> None:
    """Products of a scaled matrix become scaled products, if one of them makes attention's scores."""
    for node in graph.calls:
        scaled = _scaled(node)
        if scaled is None:
            continue
        products = _products(node)
        if products and any(_is_attention(p) for p in products):
            for product in products:
                _scale_after(graph, product, node, *scaled)


def _scaled(node: Node) -> tuple[Node, float] | None:
    """(x, c) of a node x * c on a GPU, c > 0."""
    if core_name(node) != "mul" or not on_gpu([node]) or node.val.dtype not in (dt.bfloat16, dt.float32):
        return None
    for x, scale in (node.args, node.args[::-1]):
        if isinstance(x, Node) and isinstance(scale, float) and 0 < scale < math.inf and _same(x, node):
            return x, scale
    return None


def _same(x: Node, node: Node) -> bool:
    return x.val.dtype is node.val.dtype and x.val.shape == node.val.shape


def _products(node: Node) -> list[Node]:
    """The products that read a node as it is or turned; none if anything else reads it, or a product as both operands:
    that one has the square of the scale."""
    found: list[Node] = []
    for user in _readers(node):
        inner = _readers(user) if core_name(user) == "permute" else [user]
        if any(core_name(one) != "matmul" for one in inner):
            return []
        found += inner
    twice = len({*found}) < len(found) or any(one.args[0] is one.args[1] for one in found)
    return [] if twice else found


def _readers(node: Node) -> list[Node]:
    """The users, without the turns that nobody reads any more: the pass `views` made them one with others."""
    return [user for user in node.users if core_name(user) != "permute" or _readers(user)]


def _is_attention(node: Node) -> bool:
    return str(node.meta.get("pattern", "")).startswith("attention")


def _scale_after(graph: Graph, product: Node, node: Node, x: Node, scale: float) -> None:
    marks = {k: v for k, v in product.meta.items() if k != "val"}

    def call(target: Any, *args: Any, name: str | None = None) -> Node:
        val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
        made = graph.call_function(target, args, val=val, name=name)
        made.meta.update(marks)
        return made

    def unscaled(operand: Node) -> Node:
        if operand is node:
            return x
        if core_name(operand) == "permute" and operand.args[0] is node:
            return call(c.permute, x, operand.args[1])
        return operand

    with graph.inserting_before(product):
        operands = [unscaled(operand) for operand in product.args]
        plain, end = call(c.matmul, *operands, name=product.name), product
        if len(product.users) == 1 and core_name(turned := next(iter(product.users))) == "permute":
            plain, end = call(c.permute, plain, turned.args[1]), turned  # a turned product stays a view
        made = call(c.mul, plain, scale)
    graph.replace_all_uses_with(end, made)
