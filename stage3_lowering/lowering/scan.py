"""Lowering of running reductions (cumsum and the like): the reduction loop runs along the dimension, in its order.

Input: a node, and its arguments with a Lazy for the tensor.
"""

from __future__ import annotations

from typing import Any

from stage3_lowering.lowering.pointwise import operand_element
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Lazy, computed, loop_sizes
from stage_contracts import core_metas
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol


def cumsum(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    source, meta = args["input"], state.meta(node)
    shape, rank = source.meta.shape, source.meta.ndim
    if not rank or not state.one_device(node):
        return None
    dim = core_metas.wrap_dim(args["dim"], rank)
    ranges, along = tuple(size for d, size in enumerate(shape) if d != dim), (shape[dim],)
    body = Body(state.fresh, loop_sizes(ranges, along))
    index = tuple(symbol("r0") if d == dim else symbol(f"i{d - (d > dim)}") for d in range(rank))
    body.origins = node.origins
    value = operand_element(body, source, meta.dtype, shape, index)
    body.origins = node.origins
    result = body.emit("scan", ("sum", value), computed(meta.dtype), node.name)
    return state.nest(node, meta, body, ranges, along, index, result)
