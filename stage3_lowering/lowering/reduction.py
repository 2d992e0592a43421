"""Lowering of reductions: the kept dimensions are the outer loops, the folded ones the reduction loops.

Input: a node, and its arguments with a Lazy for the tensor. Any dimensions may be folded, in any layout.
"""

from __future__ import annotations

from typing import Any

import sympy

from stage3_lowering.lowering.pointwise import operand_element
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Lazy, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol


def reduction(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    source, kind, meta = args["input"], node.target.name, state.meta(node)
    shape, rank = source.meta.shape, source.meta.ndim
    dims = [core_metas.wrap_dim(d, rank) for d in args.get("dims", (args.get("dim"),))] if rank else []
    nothing_to_pick = kind in ("amax", "amin", "argmax", "argmin") and any(shape[d] == 0 for d in dims)
    if nothing_to_pick or not state.one_device_no_half(node):
        return None  # the eager kernel raises what eager raises
    ranges = tuple(size for d, size in enumerate(shape) if d not in dims)
    reduction_ranges = tuple(shape[d] for d in dims) or (1,)
    body = Body(state.fresh, loop_sizes(ranges, reduction_ranges))
    kept = [symbol(f"i{k}") for k in range(len(ranges))]
    folded = {d: symbol(f"r{k}") for k, d in enumerate(dims)}
    outer = iter(kept)
    index = tuple(folded[d] if d in folded else next(outer) for d in range(rank))
    if source.meta.dtype is dt.bool_:
        kind = {"amax": "any", "amin": "all"}.get(kind, kind)
    wanted = {"any": dt.bool_, "all": dt.bool_, "argmax": source.meta.dtype, "argmin": source.meta.dtype}
    body.origins = node.origins
    value = operand_element(body, source, wanted.get(kind, meta.dtype), shape, index)
    body.origins = node.origins
    result = body.emit("reduction", (kind, value), meta.dtype, node.name)
    places = [sympy.Integer(0) if d in folded else symbol(f"i{kept.index(i)}") for d, i in enumerate(index)]
    where = tuple(places) if args["keepdim"] and rank else tuple(kept)
    return state.nest(node, meta, body, ranges, reduction_ranges, where, result)
