"""On a GPU, large products of halves get operands padded to sizes that its tensor cores take whole.

Input: a core graph. Rows whose bytes are no multiple of 16 make a product up to three times slower: BERT's 30,522 words
become 30,528. The zeros add nothing to a sum, and a slice drops what they make. (torch.compile does it, too: pad_mm.)
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import core_name
from stage2_autograd.devices import on_gpu
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node

ALIGNED = 8  # elements of a half: 16 bytes
LARGE = 1 << 32  # multiplications that are worth the copies of the operands


def aligned_products(graph: Graph) -> None:
    """Products of (..., m, k) and (k, n) or (..., k, n) with a size that is not aligned, by padded operands."""
    padded: dict[tuple[Node, int, int], Node] = {}
    for node in graph.calls:
        if core_name(node) == "matmul" and on_gpu([node]) and _pays(node):
            with graph.inserting_before(node):
                made = _padded_product(graph, node, padded)
            graph.replace_all_uses_with(node, made)


def _pays(node: Node) -> bool:
    a, b = node.args
    sizes = (*a.val.shape[-2:], b.val.shape[-1])
    if node.val.dtype not in (dt.float16, dt.bfloat16) or not all(
        type(n) is int for n in (*node.val.shape, *sizes)
    ):
        return False
    m, k, n = sizes
    batch = node.val.numel // max(m * n, 1)
    return batch * m * k * n >= LARGE and bool(k % ALIGNED or n % ALIGNED)


def _padded_product(graph: Graph, node: Node, padded: dict[tuple[Node, int, int], Node]) -> Node:
    a, b = node.args
    k, n = a.val.shape[-1], b.val.shape[-1]
    more_k, more_n = -k % ALIGNED, -n % ALIGNED
    call = _Calls(graph, node)
    left, right = call.padded(a, 0, more_k, padded), call.padded(b, more_k, more_n, padded)
    made = call(c.matmul, left, right, name=node.name)
    if not more_n:
        return made
    part = call(c.slice, made, node.val.ndim - 1, 0, n, 1)
    return call(c.contiguous, part)  # for its readers laid out as before; lowering copies nothing


class _Calls:
    """New calls in the place of a node, with its marks and origins."""

    def __init__(self, graph: Graph, like: Node) -> None:
        self.graph, self.marks = graph, {k: v for k, v in like.meta.items() if k not in ("val", "pattern")}

    def __call__(self, target: Any, *args: Any, name: str = "") -> Node:
        val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
        made = self.graph.call_function(target, args, val=val, name=name or None)
        made.meta.update(self.marks)
        return made

    def padded(self, node: Node, rows: int, columns: int, known: dict[tuple[Node, int, int], Node]) -> Node:
        """The matrix with zeros below and to the right, each once. Of a turned one, the matrix that was turned."""
        if not rows and not columns:
            return node
        if (node, rows, columns) not in known:
            if _is_turned(node):
                inner = self.padded(node.args[0], columns, rows, known)
                known[node, rows, columns] = self(c.permute, inner, node.args[1])
            else:
                pads = ((0, 0),) * (node.val.ndim - 2) + ((0, rows), (0, columns))
                known[node, rows, columns] = self(c.constant_pad, node, pads, 0.0)
        return known[node, rows, columns]


def _is_turned(node: Node) -> bool:
    rank = node.val.ndim
    return core_name(node) == "permute" and tuple(d % rank for d in node.args[1]) == (
        *range(rank - 2),
        rank - 1,
        rank - 2,
    )
