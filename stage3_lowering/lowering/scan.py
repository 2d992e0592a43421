"""Lowering of running reductions (cumsum and the like): the reduction loop runs along the dimension, in its order.

Input: a node, and its arguments with a Lazy for the tensor. A running extremum is two scans: the largest so far, and of
the places where an element was as large as that, the last. What no one reads of them is not computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage3_lowering.lowering.pointwise import operand_element
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, computed, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

FOLDS = {"cumsum": "sum", "cumprod": "prod"}  # operator -> the kind of its scan
# the same, and what an element is, compared with the extremum so far, where it is met
EXTREMA = {"cummax": ("amax", "ge"), "cummin": ("amin", "le")}


def running_fold(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    source, meta = args["input"], state.meta(node)
    if not _has_loop(args):
        return None

    def point(body: Body, index: Index, along: Any) -> Value:
        value = operand_element(body, source, meta.dtype, source.meta.shape, index)
        body.origins = node.origins
        return body.emit("scan", (FOLDS[node.target.name], value), computed(meta.dtype), node.name)

    return _along(state, node, args, meta, point)


def running_extremum(state: State, node: Node, args: dict[str, Any]) -> tuple[Lazy, Lazy] | None:
    source, (values_meta, places_meta) = args["input"], map(state.sizes.meta, node.val)
    if not _has_loop(args):
        return None
    kind, compare = EXTREMA[node.target.name]
    given = dt.uint8 if values_meta.dtype is dt.bool_ else values_meta.dtype

    def value(body: Body, index: Index, along: Any) -> Value:
        element = operand_element(body, source, given, source.meta.shape, index)
        body.origins = node.origins
        largest = body.emit("scan", (kind, element), computed(given), node.name)
        same = given is values_meta.dtype
        return largest if same else body.emit("cast", (largest, dt.bool_), dt.bool_, f"{node.name}_bool")

    values = _along(state, node, args, values_meta, value)

    def place(body: Body, index: Index, along: Any) -> Value:
        element = operand_element(body, source, given, source.meta.shape, index)
        body.origins = node.origins
        largest = operand_element(body, values, given, values_meta.shape, index)
        here = body.emit(compare, (element, largest), dt.bool_, "met")
        if given.is_floating_point:  # once NaN, only NaN
            missing = body.emit("ne", (element, element), dt.bool_, "missing")
            here = body.emit("logical_or", (here, missing), dt.bool_, "met")
        at = body.emit("index_expr", (along,), dt.int64, "at")
        before = body.emit("constant", (0,), dt.int64, "before")
        last = body.emit("where", (here, at, before), dt.int64, "met_at")
        return body.emit("scan", ("amax", last), dt.int64, f"{node.name}_at")

    return values, _along(state, node, args, places_meta, place)


def _has_loop(args: dict[str, Any]) -> bool:
    """Whether there is a dimension to run along, and it is known which: `dim` may be an open int."""
    return bool(args["input"].meta.ndim) and isinstance(args["dim"], int)


def _along(
    state: State,
    node: Node,
    args: dict[str, Any],
    meta: TensorMeta,
    point: Callable[[Body, Index, Any], Value],
) -> Lazy:
    """The nest that runs along `dim` and stores what `point` writes, given the index and its variable along `dim`."""
    shape, rank = meta.shape, meta.ndim
    dim, along = core_metas.wrap_dim(args["dim"], rank), symbol("r0")
    ranges, length = tuple(size for d, size in enumerate(shape) if d != dim), (shape[dim],)
    index = tuple(along if d == dim else symbol(f"i{d - (d > dim)}") for d in range(rank))
    body = Body(state.fresh, loop_sizes(ranges, length))
    body.origins = node.origins
    return state.nest(node, meta, body, ranges, length, index, point(body, index, along))
