"""Comparisons of class numbers with targets: if one side is a counter, a sum over classes reads one element of a row.

Input: the graph's nodes, as reduction.py and pointwise.py reach them. Losses write `where(target == iota, x, 0)`, so
that they fuse and have a gradient without scatter. Their sum is x at the target. The comparison uses 32-bit lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, broadcast, computed, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import DType
from stage_contracts.graph import Node, meta_of
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

FITS_INT32 = 1 << 31


@dataclass(frozen=True)
class OneHot:
    """`target == iota` along `dim` of the comparison's result: the target has one value there."""

    target: Node
    dim: int


def one_hot(node: Any) -> OneHot | None:
    """What `node` compares, if it is such a comparison."""
    if not _is(node, "eq") or not all(isinstance(getattr(a, "val", 0), TensorMeta) for a in node.args):
        return None
    shape = meta_of(node).shape
    for ids, target in (node.args, node.args[::-1]):
        own = (1,) * (len(shape) - meta_of(ids).ndim) + tuple(meta_of(ids).shape)
        dims = [d for d, size in enumerate(own) if not (isinstance(size, int) and size == 1)]
        if len(dims) != 1 or not _counts(ids) or meta_of(target).dtype is not dt.int64:
            continue
        (dim,) = dims
        meta = meta_of(target)
        at = dim - (len(shape) - meta.ndim)
        if at < 0 or (isinstance(meta.shape[at], int) and meta.shape[at] == 1):
            return OneHot(target, dim)
    return None


def picks(node: Node) -> OneHot | None:
    """The comparison, if `node` is the sum of `where(one_hot, x, 0)` over the classes."""
    if not _is(node, "sum") or len(node.args) < 2 or not _is(node.args[0], "where"):
        return None
    where, dims = node.args[0], node.args[1]
    if len(where.args) != 3:
        return None
    hot = one_hot(where.args[0])
    zero = isinstance(where.args[2], (int, float)) and where.args[2] == 0
    rank = meta_of(where).ndim
    if hot is None or not zero or len(dims) != 1 or rank != meta_of(where.args[0]).ndim:
        return None
    return hot if core_metas.wrap_dim(dims[0], rank) == hot.dim else None


def only_picked(node: Node) -> bool:
    """Whether only such sums read `node`: then each of them reads one element of a row, not the row."""
    return _is(node, "where") and bool(node.users) and all(picks(user) for user in node.users)


def pick(state: State, node: Node, hot: OneHot) -> Lazy | None:
    """The sum as a load at the target's index; 0 where no class is the target."""
    where: Node = node.args[0]
    meta, shape = state.meta(node), state.meta(where).shape
    value = state.bind_nodes(CORE_OPS["where"], where)["input"]
    if not isinstance(value, Node) or not state.one_device(where):
        return None
    classes = shape[hot.dim]
    if classes == 0:
        return None
    ranges = tuple(size for d, size in enumerate(shape) if d != hot.dim)
    kept = [symbol(f"i{k}") for k in range(len(ranges))]
    body = Body(state.fresh, loop_sizes(ranges))
    body.origins = node.origins
    at = (*kept[: hot.dim], sympy.Integer(0), *kept[hot.dim :])
    target = _element(body, state.values[hot.target], shape, at)
    inside = _inside(body, target, classes)
    place = body.emit("where", (inside, target, _number(body, 0)), dt.int64)
    place = body.emit("indirect_index", (place, sympy.sympify(classes)), dt.int64, f"{node.name}_at")
    body.sizes[symbol(place)] = classes
    source = state.values[value]
    picked = _element(body, source, shape, (*kept[: hot.dim], symbol(place), *kept[hot.dim :]))
    dtype = computed(meta.dtype)
    if computed(source.meta.dtype) is not dtype:
        picked = body.emit("cast", (picked, dtype), dtype)
    body.origins = node.origins
    zero = body.emit("constant", (0.0 if dtype.is_floating_point else 0,), dtype)
    result = body.emit("where", (inside, picked, zero), dtype, node.name)
    result = body.emit("add", (result, zero), dtype)  # as in a sum, -0.0 comes out as 0.0
    places = at if meta.ndim == len(shape) else tuple(kept)
    return state.nest(node, meta, body, ranges, (), places, result)


def compare(body: Body, node: Node, target: Lazy, hot: OneHot, meta: Any, index: Index) -> Value | None:
    """The comparison of 32-bit numbers: a target that is no class becomes -1, once per row."""
    classes = meta.shape[hot.dim]
    if not isinstance(classes, int) or classes >= FITS_INT32:
        return None
    value = _element(body, target, meta.shape, index)
    body.origins = node.origins
    inside = _inside(body, value, classes)
    known = body.emit("where", (inside, value, _number(body, -1)), dt.int64)
    narrow = body.emit("cast", (known, dt.int32), dt.int32, f"{value}_int32")
    counter = body.emit("index_expr", (index[hot.dim],), dt.int32, "class_id")
    return body.emit("eq", (narrow, counter), dt.bool_, node.name)


def _inside(body: Body, value: Value, classes: Any) -> Value:
    if isinstance(classes, int):
        limit = _number(body, classes)
    else:
        limit = body.emit("index_expr", (sympy.sympify(classes),), dt.int64)
    below = body.emit("lt", (value, limit), dt.bool_)
    return body.emit("logical_and", (body.emit("ge", (value, _number(body, 0)), dt.bool_), below), dt.bool_)


def _number(body: Body, number: int, dtype: DType = dt.int64) -> Value:
    return body.emit("constant", (number,), dtype)


def _element(body: Body, value: Lazy, shape: Any, index: Index) -> Value:
    return value.fetch(body, broadcast(value, shape, index))


def _counts(node: Any) -> bool:
    """Whether `node` holds 0, 1, 2, ...: an iota, in another shape or not."""
    while _is(node, "reshape"):
        node = node.args[0]
    return _is(node, "iota") and tuple(node.args[1:3]) == (0, 1) and meta_of(node).dtype is dt.int64


def _is(node: Any, name: str) -> bool:
    core = isinstance(node, Node) and node.op == "call_function"
    return core and getattr(node.target, "namespace", "") == "core" and node.target.name == name
