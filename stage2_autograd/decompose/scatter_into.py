"""On a GPU, rows that are scattered into zeros and then added to a tensor are scattered into that tensor.

Input: a core graph. Where a model's words are embeddings and weights of its logits, too, their gradient is a product
plus rows at places. The product is computed as it lies in memory, so that the rows are added to it where it is.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.devices import on_gpu
from stage_contracts.graph import Graph, Node


def scatter_into(graph: Graph) -> None:
    """x + scatter_add(zeros, places, rows) becomes scatter_add(x, places, rows)."""
    for node in graph.calls:
        found = _sum_with_rows(node)
        if found is None:
            continue
        x, scatter = found
        with graph.inserting_before(node):
            call = _Calls(graph, node)
            into = _straight(call, x)
            into = into if into.val.is_contiguous else call(c.contiguous, into)
            _, *rest = arguments(scatter)
            made = call(scatter.target, into, *rest)
        graph.replace_all_uses_with(node, made)


def _sum_with_rows(node: Node) -> tuple[Node, Node] | None:
    """(x, scatter_add into zeros) of the sum of the two, if no one else reads the rows at their places."""
    if core_name(node) != "add" or len(node.args) != 2 or not on_gpu([node]):
        return None
    for x, scatter in (node.args, node.args[::-1]):
        if core_name(scatter) != "scatter_add" or len(scatter.users) != 1 or not isinstance(x, Node):
            continue
        zeros = scatter.args[0]
        alike = (x.val.shape, x.val.dtype) == (node.val.shape, node.val.dtype) and x is not scatter
        if alike and core_name(zeros) == "full" and zeros.args[1] == 0 and node.val.dtype.is_floating_point:
            return x, scatter
    return None


def _straight(call: _Calls, x: Node) -> Node:
    """The same, and where it is a turned product of matrices, the product of the turned matrices: (a b).T = b.T a.T."""
    if core_name(x) != "permute" or x.val.ndim != 2 or [d % 2 for d in x.args[1]] != [1, 0]:
        return x
    product = x.args[0]
    if core_name(product) != "matmul" or len(product.users) != 1:
        return x
    left, right = (_turned(call, operand) for operand in product.args)
    return call(c.matmul, right, left)


def _turned(call: _Calls, x: Node) -> Node:
    is_turned = core_name(x) == "permute" and [d % 2 for d in x.args[1]] == [1, 0]
    return x.args[0] if is_turned else call(c.permute, x, (1, 0))


class _Calls:
    """New calls in the place of a node, with its region and origins."""

    def __init__(self, graph: Graph, like: Node) -> None:
        self.graph, self.marks = graph, {k: v for k, v in like.meta.items() if k not in ("val", "pattern")}

    def __call__(self, target: Any, *args: Any) -> Node:
        val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
        made = self.graph.call_function(target, args, val=val)
        made.meta.update(self.marks)
        return made
