"""The seam `lower`: a graph in core operators becomes loop nests and external calls, one per operator.

Input: stage 2's forward or backward Graph; each node's `val` is a TensorMeta. One rule per kind of operator,
in a table at the end. Lowering never refuses: an operator without a rule becomes a call of its eager kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy

from stage3_lowering.tiny.state import State, is_half, storage_order
from stage3_lowering.tiny.values import VIEWS, Body, Index, Lazy, broadcast, dot, loop_sizes, view
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import DType
from stage_contracts.graph import Graph, Node
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoweredGraph, Value
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

Arguments = dict[str, Any]  # an operator's arguments by parameter name, with a Lazy for each tensor


def lower(graph: Graph) -> LoweredGraph:
    """Core operators to loop nests and external calls. Refuses no operator."""
    state = State(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            state.values[node] = state.given(node, state.inputs)
        elif node.op == "get_attr":
            state.values[node] = state.given(node, state.constants)
        elif node.op == "call_function":
            state.values[node] = _lower_call(state, node)
    return state.finish(graph)


def _lower_call(state: State, node: Node) -> Any:
    if node.target is operator.getitem:
        source, position = node.args
        return state.values[source][position]
    row = CORE_OPS.get(node.target.name) if node.target.namespace == "core" else None
    result = None
    if row is not None and (rule := RULES.get(row.name) or RULES.get(row.kind)):
        result = rule(state, node, state.bind(row, node))
    return state.extern(node) if result is None else result


# ---- one element from one element of each operand ----------------------------------------------------

# What integers and bools have no use for: the value itself is the result.
_IDENTITY_ON_INTEGERS = ("floor", "ceil", "round", "trunc")
_IDENTITY_ON_BOOLS = (*_IDENTITY_ON_INTEGERS, "abs", "sign")
_FALSE_ON_INTEGERS = ("isnan", "isinf")
_DIVISIONS = ("floor_divide", "remainder", "fmod")


def _pointwise(state: State, node: Node, args: Arguments) -> Lazy | None:
    name, meta, operands = node.target.name, state.meta(node), list(args.values())
    if not state.one_device_no_half(node):
        return None
    compute = args["dtype"] if name == "cast" else _compute_dtype(name, operands)
    if (
        name in _DIVISIONS
        and not compute.is_floating_point
        and (isinstance(operands[1], Lazy) or not operands[1])
    ):
        return None  # an integer division by zero raises; the eager kernel looks at the divisors
    body, ranges, index = _begin(state, meta)
    element = lambda operand, dtype: _operand(body, operand, dtype, meta.shape, index)  # noqa: E731
    unchanged = name in (_IDENTITY_ON_BOOLS if compute is dt.bool_ else _IDENTITY_ON_INTEGERS)
    if name == "cast" or (unchanged and not compute.is_floating_point):
        result = element(args["input"], compute)
    elif not compute.is_floating_point and name in _FALSE_ON_INTEGERS:
        result = body.emit("constant", (False,), dt.bool_, node.name)
    elif name == "where":
        values = [
            element(args["condition"], dt.bool_),
            element(args["input"], compute),
            element(args["other"], compute),
        ]
        result = body.emit(name, values, compute, node.name)
    else:
        result = body.emit(name, [element(o, compute) for o in operands], meta.dtype, node.name)
    return state.nest(node, meta, body, ranges, (), index, result)


def _compute_dtype(name: str, operands: list[Any]) -> DType:
    """The dtype the arithmetic is done in; operands are cast to it."""
    metas = [o.meta if isinstance(o, Lazy) else o for o in operands]
    compute = core_metas.promoted_dtype(metas[1:] if name == "where" else metas)
    floats = CORE_OPS[name].meta is core_metas.pointwise_float
    return dt.float32 if floats and not compute.is_floating_point else compute


def _begin(state: State, meta: TensorMeta) -> tuple[Body, tuple[int, ...], Index]:
    """A body whose loops run over the elements of `meta` in the order they lie in memory."""
    ranges, index = storage_order(meta)
    return Body(state.fresh, loop_sizes(ranges)), ranges, index


def _operand(body: Body, operand: Any, dtype: DType, shape: tuple[int, ...], index: Index) -> Value:
    """One operand's element, of the wanted dtype: a Python number, or a tensor broadcast to `shape`."""
    if not isinstance(operand, Lazy):
        return body.emit("constant", (_as_python(operand, dtype),), dtype)
    value = operand.fetch(body, broadcast(operand, shape, index))
    return (
        value
        if operand.meta.dtype is dtype
        else body.emit("cast", (value, dtype), dtype, f"{value}_{dtype.name}")
    )


def _as_python(number: Any, dtype: DType) -> bool | int | float:
    """A constant of `dtype`; an integer that does not fit wraps around, as in eager."""
    if dtype.is_floating_point:
        return float(number)
    if dtype is dt.bool_:
        return bool(number)
    assert dtype.limits is not None
    low, high = (int(limit) for limit in dtype.limits)
    return (int(number) - low) % (high - low + 1) + low


# ---- folds -------------------------------------------------------------------------------------------


def _reduction(state: State, node: Node, args: Arguments) -> Lazy | None:
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
    value = _operand(body, source, wanted.get(kind, meta.dtype), shape, index)
    result = body.emit("reduction", (kind, value), meta.dtype, node.name)
    places = [sympy.Integer(0) if d in folded else symbol(f"i{kept.index(i)}") for d, i in enumerate(index)]
    where = tuple(places) if args["keepdim"] and rank else tuple(kept)
    return state.nest(node, meta, body, ranges, reduction_ranges, where, result)


# ---- the same elements, or made from nothing ---------------------------------------------------------


def _view(state: State, node: Node, args: Arguments) -> Lazy | None:
    result = view(node.target.name, args["input"], state.meta(node), args)
    if result.ref is None and is_half(result.meta):
        return None  # no loop nest can copy it
    return result


def _identity(state: State, node: Node, args: Arguments) -> Lazy | None:
    """detach, clone, contiguous, to_device: in a program without mutation, the same values."""
    source, meta = args["input"], state.meta(node)
    if source.meta.device != meta.device:
        return None
    return Lazy(meta, source.fetch, source.ref)


def _full(state: State, node: Node, args: Arguments) -> Lazy | None:
    meta = state.meta(node)
    if is_half(meta):
        return None
    value = _as_python(args["value"], meta.dtype)
    return Lazy(meta, lambda body, index: body.emit("constant", (value,), meta.dtype, node.name))


def _iota(state: State, node: Node, args: Arguments) -> Lazy | None:
    meta, start, step = state.meta(node), args["start"], args["step"]
    if is_half(meta):
        return None
    exact = isinstance(start, int) and isinstance(step, int)
    between = dt.int64 if exact else dt.float64  # the dtype eager counts in, before the cast

    def fetch(body: Body, index: Index) -> Value:
        if exact and start >= 0 and step >= 0:
            value = body.emit("index_expr", (start + step * index[0],), between, node.name)
        else:
            place = body.emit("index_expr", (index[0],), between)
            by = body.emit("constant", (_as_python(step, between),), between)
            origin = body.emit("constant", (_as_python(start, between),), between)
            scaled = body.emit("mul", (place, by), between)
            value = body.emit("add", (origin, scaled), between, node.name)
        return value if meta.dtype is between else body.emit("cast", (value, meta.dtype), meta.dtype)

    return Lazy(meta, fetch)


# ---- places that the data decides --------------------------------------------------------------------


def _gather(state: State, node: Node, args: Arguments) -> Lazy | None:
    source, places, meta = args["input"], args["index"], state.meta(node)
    if not state.one_device_no_half(node) or not meta.ndim or meta.device.type != "cpu":
        return None  # a GPU kernel cannot raise for a bad index; the eager kernel checks first
    dim = core_metas.wrap_dim(args["dim"], meta.ndim)
    size = source.meta.shape[dim]
    body, ranges, index = _begin(state, meta)
    place = body.emit(
        "indirect_index", (places.fetch(body, index), sympy.Integer(size)), dt.int64, f"{node.name}_at"
    )
    body.sizes[symbol(place)] = size
    at = tuple(symbol(place) if d == dim else i for d, i in enumerate(index))
    return state.nest(node, meta, body, ranges, (), index, source.fetch(body, at))


def _random_bits(state: State, node: Node, args: Arguments) -> Lazy | None:
    meta, rng = state.meta(node), args["rng"]
    body, ranges, index = _begin(state, meta)
    seed, counter = (rng.fetch(body, (sympy.Integer(k),)) for k in (0, 1))
    if args["offset"]:
        offset = body.emit("constant", (int(args["offset"]),), dt.int64)
        counter = body.emit("add", (counter, offset), dt.int64)
    flat = dot(contiguous_strides(meta.shape), index)
    return state.nest(node, meta, body, ranges, (), index,
                      body.emit("random_bits", (seed, counter, flat), dt.int64, node.name))  # fmt: skip


# By name, else by kind. A rule gives None for what it leaves to the eager kernel.
RULES: dict[str, Callable[[State, Node, Arguments], Lazy | None]] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    **dict.fromkeys(VIEWS, _view),
    "identity": _identity,
    "full": _full,
    "iota": _iota,
    "gather": _gather,
    "random_bits": _random_bits,
}
