"""Shortens chains of views, and replaces a read of a value that was just written.

Input: core graphs. Functionalisation leaves slice(slice_scatter(x, v, here), here), which is v; gradients of sums leave
reshapes of reshapes.
"""

from __future__ import annotations

from typing import Any

from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.decompose.rewriting import Call, Rewrite, key_of, rewrite, same_kind
from stage_contracts.graph import Graph, Node


def views(graph: Graph) -> None:
    """Two reshapes, permutes or expands in a row become one. A read of a part that was written becomes the written
    value."""
    rewrite(graph, RULES)


def _reshape(node: Node) -> Any:
    inner = node.args[0]
    if core_name(inner) != "reshape":
        return None
    source = inner.args[0]
    return source if same_kind(source.val, node.val) else Call(node.target, source, node.val.shape)


def _permute(node: Node) -> Any:
    inner, dims = node.args
    if core_name(inner) != "permute":
        return None
    first = [d % node.val.ndim for d in inner.args[1]]
    both = tuple(first[d] for d in dims)
    if both == tuple(range(len(both))):
        return inner.args[0]
    return Call(node.target, inner.args[0], both)


def _expand(node: Node) -> Any:
    inner = node.args[0]
    return Call(node.target, inner.args[0], node.val.shape) if core_name(inner) == "expand" else None


def _slice(node: Node) -> Any:
    """The value that was written, if the last write was to exactly this part."""
    whole, *where = arguments(node)
    if core_name(whole) != "slice_scatter":
        return None
    _, written, *there = arguments(whole)
    return written if key_of(where) == key_of(there) else None


def _slice_scatter(node: Node) -> Any:
    """Removes a write that the next write to the same place overwrites."""
    whole, written, *where = arguments(node)
    if core_name(whole) != "slice_scatter":
        return None
    before, _, *there = arguments(whole)
    return Call(node.target, before, written, *where) if key_of(where) == key_of(there) else None


RULES: dict[str, Rewrite] = {
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "slice_scatter": _slice_scatter,
}
