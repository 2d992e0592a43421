"""Lowering of pointwise operators: one rule for all, which computes one element from one element of each operand.

Input: a node, and its arguments with a Lazy for each tensor. The result is an expression until realize.py makes it a
buffer. Operands broadcast by index maps and are cast to the dtype of the arithmetic. A rule returns None to leave the
operator to its eager kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from stage3_lowering.lowering.convolution_calls import following
from stage3_lowering.lowering.cpp_ops import COSTS
from stage3_lowering.lowering.one_hot import compare, one_hot
from stage3_lowering.lowering.realize import why_realize
from stage3_lowering.lowering.state import State, dense, storage_order
from stage3_lowering.lowering.values import (
    Body,
    Index,
    Lazy,
    broadcast,
    computed,
    is_half,
    loop_sizes,
    strided,
)
from stage_contracts import core_metas, powers
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU
from stage_contracts.dtype import DType
from stage_contracts.graph import Node
from stage_contracts.half_numbers import kept_number
from stage_contracts.loop_ir import ExternCall, Value
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

# What integers and bools have no use for: the value itself is the result.
_IDENTITY_ON_INTEGERS = ("floor", "ceil", "round", "trunc")
_IDENTITY_ON_BOOLS = (*_IDENTITY_ON_INTEGERS, "abs", "sign")
_FALSE_ON_INTEGERS = ("isnan", "isinf")
_EXACT = (*_IDENTITY_ON_BOOLS, "neg", "maximum", "minimum", "where", "copysign")  # of halves, a half
_FOR_SPEED = ("repeated_work", "repeated_reads", "large")  # rules that a buffer of the operand serves as well
_DIVISIONS = ("floor_divide", "remainder", "fmod")


def pointwise(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    name, meta, operands = node.target.name, state.meta(node), list(args.values())
    if not state.one_device(node):
        return None
    compute = args["dtype"] if name in ("cast", "bitcast") else _compute_dtype(name, operands)
    if _left_to_eager(name, compute, operands):
        return None
    args = _in_one_width(state, node, compute, args)
    operands = list(args.values())

    hot = one_hot(node)

    def fetch(body: Body, index: Index) -> Value:
        key = node, index, body.mask
        if key not in body.known:
            element = hot and compare(body, node, state.values[hot.target], hot, meta, index)
            body.known[key] = element or _element(body, node, meta, compute, args, index)
        return body.known[key]

    tensors = [o for o in operands if isinstance(o, Lazy)]
    value = Lazy(
        following(node, meta, tensors),
        fetch,
        size=1 + sum(o.size for o in tensors),
        cost=COSTS.get(name, 1) + sum(o.cost for o in tensors),
        reads=frozenset().union(*(o.reads for o in tensors if not _is_repeated(o, meta))),
    )
    rule = why_realize(node, value)
    if rule is not None and rule.code in _FOR_SPEED and _is_half_given_wide(name, value, args):
        return _wide_view(state, node, value, args, rule.code)
    return value if rule is None else state.realize(node, value, rule.code)


def _is_half_given_wide(name: str, value: Lazy, args: dict[str, Any]) -> bool:
    """Whether, on a GPU, a half is in memory where its float32 is asked for: half the bytes, and the same value."""
    wide = name == "cast" and value.meta.dtype is dt.float32 and value.meta.device != CPU
    return wide and is_half(args["input"].meta.dtype) and value.meta.ndim > 0


def _wide_view(state: State, node: Node, value: Lazy, args: dict[str, Any], rule: str) -> Lazy:
    """The float32 of a half that is in memory, converted as it is read."""
    given = args["input"]
    if given.ref is None:
        source = node.args[0]
        assert isinstance(source, Node)
        given = state.values[source] = state.realize(source, given, rule)

    def fetch(body: Body, index: Index) -> Value:
        return given.fetch(body, index)  # in the dtype that arithmetic is done in: float32

    return replace(value, fetch=fetch, size=given.size, cost=given.cost, reads=given.reads)


def _is_repeated(operand: Lazy, meta: TensorMeta) -> bool:
    """Whether each element of an operand is read for many of the result, on a GPU: the cache has it."""
    return meta.device != CPU and hinted(operand.meta.numel) < hinted(meta.numel)


def _is_wide(operand: Any) -> bool:
    return isinstance(operand, Lazy) and operand.meta.dtype is dt.float64


def _in_one_width(state: State, node: Node, compute: DType, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments; what meets float16 in float64, in float16 (unless it stays float32, as a number does there)."""
    name = node.target.name
    if compute is not dt.float16 or name == "cast":
        return args
    kept = _kept(name, list(args.values()), compute)
    return {
        key: _halved(state, node, o) if _is_wide(o) and k != kept else o
        for k, (key, o) in enumerate(args.items())
    }


def _halved(state: State, node: Node, operand: Lazy) -> Lazy:
    """A float64 operand (an optimizer's step size, say) in float16: by a call of eager's cast, which rounds once. Only
    the operand is made so, and once for all that read it."""
    meta = operand.meta.with_(dtype=dt.float16)
    if operand not in state.halved:
        ref = state.shorten(operand.ref) if operand.ref else state.copy(operand, operand.meta, node.origins)
        name = state.new_buffer(dense(meta))
        state.nodes.append(ExternCall((name,), "cast", (ref, dt.float16), {}, node.origins))
        state.halved[operand] = strided(name, meta, state.buffers[name].strides)
    return state.halved[operand]


def _left_to_eager(name: str, compute: DType, operands: list[Any]) -> bool:
    """Whether eager must compute it: a division that may raise, or an operator that in half precision is not float32
    arithmetic rounded once. (Of float64, eager makes a bfloat16 through float32.)"""
    if (
        name in _DIVISIONS and not compute.is_floating_point
    ):  # by zero raises: the eager kernel looks at the divisors
        return isinstance(operands[1], (Lazy, sympy.Basic)) or not operands[1]
    if any(type(operand) is complex for operand in operands):  # to which real numbers are compared
        return True
    if name == "bitcast":
        return is_half(compute) or is_half(operands[0].meta.dtype)
    narrows = (
        name == "cast" and compute is dt.float16 and _is_wide(operands[0])
    )  # to float32 and then to a half
    return narrows or (is_half(compute) and name in _DIVISIONS)


def _element(
    body: Body, node: Node, meta: TensorMeta, compute: DType, args: dict[str, Any], index: Index
) -> Value:
    """The instructions of one element of a pointwise node, after those of its operands' elements."""
    value = _arithmetic(body, node, meta, compute, args, index)
    return value if node.target.name in _EXACT else body.rounded(value, meta.dtype)


def _arithmetic(
    body: Body, node: Node, meta: TensorMeta, compute: DType, args: dict[str, Any], index: Index
) -> Value:
    name, operands = node.target.name, list(args.values())
    element = lambda operand, dtype: operand_element(body, operand, dtype, meta.shape, index)  # noqa: E731
    unchanged = name in (_IDENTITY_ON_BOOLS if compute is dt.bool_ else _IDENTITY_ON_INTEGERS)
    body.origins = node.origins
    if name == "cast":
        return operand_element(
            body, args["input"], compute, meta.shape, index, asked=not _is_own_rounding(node)
        )
    if unchanged and not compute.is_floating_point:
        return element(args["input"], compute)
    if name == "bitcast":
        value = element(args["input"], args["input"].meta.dtype)
        return body.emit(name, (value, args["dtype"]), args["dtype"], node.name)
    if not compute.is_floating_point and name in _FALSE_ON_INTEGERS:
        return body.emit("constant", (False,), dt.bool_, node.name)
    if name == "where":
        values = [
            element(args["condition"], dt.bool_),
            element(args["input"], compute),
            element(args["other"], compute),
        ]
    else:
        kept = _kept(name, operands, compute)
        values = [element(o, dt.float32 if k == kept else compute) for k, o in enumerate(operands)]
    body.origins = node.origins
    steps = powers.steps_of(operands[1], compute) if name == "pow" else ()
    if steps:
        return _power(body, values[0], steps, node)
    return body.emit(name, values, computed(compute if name == "where" else meta.dtype), node.name)


def _power(body: Body, x: Value, steps: tuple[str, ...], node: Node) -> Value:
    """x ** number by the steps of powers.py."""
    so_far, dtype = x, computed(node.val.dtype)
    for step in steps:
        if step in ("square", "times"):
            so_far = body.emit("mul", (so_far, so_far if step == "square" else x), dtype, node.name)
        else:
            so_far = body.emit(step, (so_far,), dtype, node.name)
    return so_far


def _kept(name: str, operands: list[Any], compute: DType) -> int | None:
    """The place of a number that stays in float32 beside halves."""
    known = [(o.meta.dtype, o.meta.ndim) if isinstance(o, Lazy) else None for o in operands]
    return kept_number(name, known, compute)


def _compute_dtype(name: str, operands: list[Any]) -> DType:
    """The dtype the arithmetic is done in; operands are cast to it."""
    metas = [o.meta if isinstance(o, Lazy) else 0 if isinstance(o, sympy.Basic) else o for o in operands]
    compute = core_metas.promoted_dtype(metas[1:] if name == "where" else metas)
    floats = core_metas.computes_in_floats(CORE_OPS[name].meta)
    return dt.DEFAULT_DTYPE.dtype if floats and not compute.is_floating_point else compute


def begin(state: State, meta: TensorMeta) -> tuple[Body, tuple[int, ...], Index]:
    """A body whose loops run over the elements of `meta` in the order they lie in memory."""
    ranges, index = storage_order(meta)
    return Body(state.fresh, loop_sizes(ranges)), ranges, index


def _is_own_rounding(node: Node) -> bool:
    """Whether a cast is how an operator that computes in float32 ends: one expression with what it casts. A cast of the
    user's is an expression of its own."""
    made = node.args[0]
    known = bool(node.origins) and all(origin.is_one_expression for origin in node.origins)
    return known and isinstance(made, Node) and made.op == "call_function" and made.origins == node.origins


def operand_element(
    body: Body, operand: Any, dtype: DType, shape: tuple[int, ...], index: Index, asked: bool = True
) -> Value:
    """One operand's element, of the wanted dtype: a Python number, or a tensor broadcast to `shape`. Of a half it is
    a float32 that the half can hold. `asked`: if that rounds it, the user asked for it (Body.rounded)."""
    if isinstance(operand, sympy.Basic):  # a number made of open sizes
        value, given = body.emit("index_expr", (operand,), dt.int64), dt.int64
    elif not isinstance(operand, Lazy):
        return body.emit("constant", (as_python(operand, dtype),), computed(dtype))
    else:
        value, given = operand.fetch(body, broadcast(operand, shape, index)), operand.meta.dtype
    if given is dtype:
        return value
    wide = computed(dtype)
    if computed(given) is not wide:
        value = body.emit("cast", (value, wide), wide, f"{value}_{wide.name}")
    return body.rounded(value, dtype, asked=asked and wide is not dtype and computed(given) is given)


def as_python(number: Any, dtype: DType) -> bool | int | float:
    """A constant of `dtype`; an integer that does not fit wraps around, as in eager."""
    if dtype.is_floating_point:
        with np.errstate(over="ignore"):
            return float(dtype.numpy.type(number)) if is_half(dtype) else float(number)
    if dtype is dt.bool_:
        return bool(number)
    assert dtype.limits is not None
    low, high = (int(limit) for limit in dtype.limits)
    return (int(number) - low) % (high - low + 1) + low
