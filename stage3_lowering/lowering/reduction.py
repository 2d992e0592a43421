"""Lowering of reductions: the kept dimensions are the outer loops, the reduced ones the reduction loops.

Input: a node, and its arguments with a Lazy for the tensor. Any dimensions may be reduced, in any layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from stage3_lowering.lowering.one_hot import pick, picks
from stage3_lowering.lowering.pointwise import operand_element
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Lazy, computed, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol


def reduction(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    source, kind, meta = args["input"], node.target.name, state.meta(node)
    shape, rank = source.meta.shape, source.meta.ndim
    dims = [core_metas.wrap_dim(d, rank) for d in args.get("dims", (args.get("dim"),))] if rank else []
    if _nothing_to_pick(kind, [shape[d] for d in dims]) or not state.one_device(node):
        return None  # the eager kernel raises what eager raises
    hot = picks(node)
    if hot is not None and (picked := pick(state, node, hot)) is not None:
        return picked
    ranges = tuple(size for d, size in enumerate(shape) if d not in dims)
    reduction_ranges = tuple(shape[d] for d in dims) or (1,)
    body = Body(state.fresh, loop_sizes(ranges, reduction_ranges))
    kept = [symbol(f"i{k}") for k in range(len(ranges))]
    reduced = {d: symbol(f"r{k}") for k, d in enumerate(dims)}
    index = _point(kept, reduced, rank)
    kind, dtype = _kind_and_dtype(kind, source.meta.dtype, meta.dtype)
    body.origins = node.origins
    value = operand_element(body, source, dtype, shape, index)
    body.origins = node.origins
    result = body.emit("reduction", (kind, value), computed(meta.dtype), node.name)
    where = (
        _point(kept, dict.fromkeys(dims, sympy.Integer(0)), rank) if args["keepdim"] and rank else tuple(kept)
    )
    return state.nest(node, meta, body, ranges, reduction_ranges, where, result)


def _point(kept: list[Any], reduced: Mapping[int, Any], rank: int) -> tuple[Any, ...]:
    """The index of a point: the reduction loops at the reduced dimensions, the kept loops in order at the others."""
    outer = iter(kept)
    return tuple(reduced[d] if d in reduced else next(outer) for d in range(rank))


def _nothing_to_pick(kind: str, sizes: list[Any]) -> bool:
    return kind in ("amax", "amin", "argmax", "argmin") and any(size == 0 for size in sizes)


def _kind_and_dtype(kind: str, given: dt.DType, made: dt.DType) -> tuple[str, dt.DType]:
    """The kind of the reduction, and the dtype it reduces in. (The maximum of two booleans is their `or`.)"""
    if given is dt.bool_:
        kind = {"amax": "any", "amin": "all"}.get(kind, kind)
    wanted = {"any": dt.bool_, "all": dt.bool_, "argmax": given, "argmin": given}
    return kind, wanted.get(kind, made)
