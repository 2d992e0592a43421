"""Lowering of operators that only place data: views, copies, constants, indexed and random elements.

Input: a node, and its arguments with a Lazy for each tensor. Views and constants get no buffer: readers read through a
view, and write a constant where they use it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy

from stage3_lowering.lowering.convolution_calls import following_moved
from stage3_lowering.lowering.pointwise import as_python, begin, operand_element
from stage3_lowering.lowering.realize import (
    PLACED,
    changes_shape,
    is_placed_by_a_kernel,
    is_reshape,
    is_written_turned,
)
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, computed, dot, is_half, view
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_metas import slice_bounds
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU
from stage_contracts.graph import Node, meta_of
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# ---- the same elements, or made from nothing ---------------------------------------------------------


def lower_view(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    if node.target.name == "slice":
        args["start"] = _first(state, node)
    if node.target.name == "reshape" and args["input"].ref is None:
        args["input"] = _in_memory(state, node, args["input"])
    made = view(node.target.name, args["input"], state.meta(node), args)
    if made.ref is None and node.target.name in ("slice", "reshape"):
        return replace(made, meta=following_moved(made.meta, state.values[_unfolded(node)]))
    return made


def _first(state: State, node: Node) -> Any:
    """Where a slice begins, clamped here, where an open size can still be compared."""
    raw = state.bind_nodes(CORE_OPS[node.target.name], node)
    size = meta_of(raw["input"]).shape[raw["dim"]]
    return state.sizes.size(slice_bounds(size, raw["start"], raw["stop"], raw["step"])[0])


def _unfolded(node: Node) -> Node:
    """The tensor that a view is of: past the further dimensions in which `reshape` and `expand` repeat its points."""
    (source,) = node.all_input_nodes
    while (
        source.op == "call_function" and source.target.name in ("reshape", "expand") and source.val.ndim > 4
    ):
        (source,) = source.all_input_nodes
    return source


def _in_memory(state: State, node: Node, source: Lazy) -> Lazy:
    """The input of a reshape. An expression that is turned before it is reshaped is written in its turned order, once:
    in memory a reshape of that costs nothing."""
    (turned,) = node.all_input_nodes
    if not is_written_turned(turned.all_input_nodes[0] if turned.all_input_nodes else turned):
        return source
    meta = source.meta.with_(strides=contiguous_strides(source.meta.shape), shape=source.meta.shape)
    state.values[turned] = state.realize(turned, replace(source, meta=meta), "reshaped")
    return state.values[turned]


def identity(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """detach, clone, contiguous, to_device: in a program without mutation, the same values."""
    source, meta = args["input"], state.meta(node)
    if source.meta.device != meta.device:
        return None
    if node.target.name == "contiguous" and _is_written(node, meta) and not _lies_as(source, meta):
        return state.realize(node, replace(source, meta=meta), "reshaped")
    return replace(source, meta=meta)


def _is_written(node: Node, meta: TensorMeta) -> bool:
    """Whether, on a GPU, what is made of it would be a copy at places found with divisions, or a second copy."""
    reshaped = any(is_reshape(user) and changes_shape(node, user) for user in node.users)
    returned = len(node.users) > 1 and any(user.op == "output" for user in node.users)
    return meta.device != CPU and (reshaped or returned)


def _lies_as(source: Lazy, meta: TensorMeta) -> bool:
    """Whether it is in memory as it should be."""
    return source.ref is not None and source.ref.strides == meta.strides


def full(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    meta = state.meta(node)
    if isinstance(args["value"], sympy.Basic):
        return Lazy(meta, lambda body, index: operand_element(body, args["value"], meta.dtype, (), ()))
    value = as_python(args["value"], meta.dtype)
    return Lazy(meta, lambda body, index: body.emit("constant", (value,), computed(meta.dtype), node.name))


def iota(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    meta, start, step = state.meta(node), args["start"], args["step"]
    if is_half(meta.dtype):
        return None  # eager counts in float64 and rounds once
    exact = isinstance(start, (int, sympy.Basic)) and isinstance(step, (int, sympy.Basic))
    counted = exact and all(isinstance(n, sympy.Basic) or n >= 0 for n in (start, step))
    between = dt.int64 if exact else dt.float64  # the dtype eager counts in, before the cast

    def fetch(body: Body, index: Index) -> Value:
        if counted:
            value = body.emit("index_expr", (start + step * index[0],), between, node.name)
        else:
            place = body.emit("index_expr", (index[0],), between)
            by, origin = (
                body.emit("index_expr", (n,), between)
                if exact and isinstance(n, sympy.Basic)
                else body.emit("constant", (as_python(n, between),), between)
                for n in (step, start)
            )
            scaled = body.emit("mul", (place, by), between)
            value = body.emit("add", (origin, scaled), between, node.name)
        return value if meta.dtype is between else body.emit("cast", (value, meta.dtype), meta.dtype)

    return Lazy(meta, fetch)


# ---- places that the data decides --------------------------------------------------------------------


def gather(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    source, places, meta = args["input"], args["index"], state.meta(node)
    if not state.one_device(node) or not meta.ndim:
        return None
    dim = core_metas.wrap_dim(args["dim"], meta.ndim)
    size = source.meta.shape[dim]
    if size == 0:
        return None  # every index is bad
    body, ranges, index = begin(state, meta)
    place = body.emit(
        "indirect_index", (places.fetch(body, index), sympy.sympify(size)), dt.int64, f"{node.name}_at"
    )
    body.sizes[symbol(place)] = size
    at = tuple(symbol(place) if d == dim else i for d, i in enumerate(index))
    return state.nest(node, meta, body, ranges, (), index, source.fetch(body, at))


def scatter(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """scatter and scatter_add: the kernel that puts values at their places computes both."""
    if not is_placed_by_a_kernel(node) or not state.one_device(node):
        return None
    meta, places = state.meta(node), args["index"]
    dim = core_metas.wrap_dim(args["dim"], meta.ndim)
    shape = places.meta.shape
    if any(size == 0 for size in (*meta.shape, *shape)):  # an open size, too, may be 0: every index is bad
        return None
    body, ranges, index = begin(state, meta.with_(shape=shape, strides=contiguous_strides(shape)))
    value, place = args["src"].fetch(body, index), places.fetch(body, index)
    body.origins = node.origins
    size = sympy.sympify(meta.shape[dim])
    place = body.emit("indirect_index", (place, size), dt.int64, f"{node.name}_at")
    body.sizes[symbol(place)] = meta.shape[dim]
    at = tuple(symbol(place) if d == dim else i for d, i in enumerate(index))
    return state.placed(PLACED[node.target.name].op, node, args["input"], body, ranges, at, value)


def slice_scatter(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """Only the part that changes is written by its kernel; the rest is a copy, or is there already (in_place.py)."""
    if not is_placed_by_a_kernel(node) or not state.one_device(node):
        return None
    meta, source = state.meta(node), args["src"]
    dim = core_metas.wrap_dim(args["dim"], meta.ndim)
    first, step = _first(state, node), args["step"]
    body, ranges, index = begin(state, meta.with_(shape=source.meta.shape, strides=meta.strides))
    value = source.fetch(body, index)
    body.origins = node.origins
    at = tuple(first + i * step if d == dim else i for d, i in enumerate(index))
    return state.placed(PLACED[node.target.name].op, node, args["input"], body, ranges, at, value)


def random_bits(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    meta, rng = state.meta(node), args["rng"]
    body, ranges, index = begin(state, meta)
    seed, counter = (rng.fetch(body, (sympy.Integer(k),)) for k in (0, 1))
    if args["offset"]:
        offset = body.emit("constant", (int(args["offset"]),), dt.int64)
        counter = body.emit("add", (counter, offset), dt.int64)
    flat = dot(contiguous_strides(meta.shape), index)
    return state.nest(node, meta, body, ranges, (), index,
                      body.emit("random_bits", (seed, counter, flat), dt.int64, node.name))  # fmt: skip
