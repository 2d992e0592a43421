"""Removes a split followed by its join, and a join followed by its split.

Input: core graphs. Attention splits one projection into three parts; other models join the halves that they just made.
"""

from __future__ import annotations

from typing import Any

from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.decompose.rewriting import Call, Rewrite, rewrite
from stage_contracts.core_metas import slice_bounds, wrap_dim
from stage_contracts.graph import Graph, Node


def joins(graph: Graph) -> None:
    """A part of a cat becomes the operand that it came from. A cat of all parts becomes the tensor that was split. A
    cat of cats becomes one cat."""
    rewrite(graph, RULES)


def _window(node: Node) -> tuple[Node, int, int, int] | None:
    """(the sliced node, dim, start, stop) of a slice with step 1."""
    source, dim, start, stop, step = arguments(node)
    if step != 1:
        return None
    dim = wrap_dim(dim, source.val.ndim)
    low, _, length = slice_bounds(source.val.shape[dim], start, stop, step)
    return source, dim, low, low + length


def _slice(node: Node) -> Any:
    window = _window(node)
    if window is None or core_name(window[0]) != "cat":
        return None
    source, dim, low, high = window
    parts, along = source.args
    if wrap_dim(along, source.val.ndim) != dim:
        return None
    at = 0
    for part in parts:
        end = at + part.val.shape[dim]
        if at <= low and high <= end:
            return part if (at, end) == (low, high) else Call(node.target, part, dim, low - at, high - at, 1)
        at = end
    return None


def _cat(node: Node) -> Any:
    parts, dim = node.args
    dim = wrap_dim(dim, node.val.ndim)
    if (whole := _all_parts_of(parts, dim)) is not None:
        return whole
    nested = [p for p in parts if core_name(p) == "cat" and wrap_dim(p.args[1], p.val.ndim) == dim]
    nested = [p for p in nested if p.val.dtype is node.val.dtype and len(p.users) == 1]
    if not nested:
        return None
    flat = [q for p in parts for q in (p.args[0] if p in nested else (p,))]
    return Call(node.target, flat, dim)


def _all_parts_of(parts: list[Node], dim: int) -> Node | None:
    """The node that `parts` are all slices of, in order along `dim`; None if there is no such node."""
    windows = [w for p in parts if core_name(p) == "slice" and (w := _window(p)) is not None]
    if len(windows) < len(parts):
        return None
    whole = windows[0][0]
    if any(w[0] is not whole or w[1] != dim for w in windows):
        return None
    starts, ends = [w[2] for w in windows], [w[3] for w in windows]
    return whole if [0, *ends] == [*starts, whole.val.shape[dim]] else None


RULES: dict[str, Rewrite] = {"slice": _slice, "cat": _cat}
