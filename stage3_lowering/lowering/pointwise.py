"""Lowering of pointwise operators: one element from one element of each operand, by one rule for all of them.

Input: a node, and its arguments with a Lazy for each tensor. Operands broadcast by index maps and are cast to
the dtype the arithmetic is done in. A rule gives None for what it leaves to the eager kernel.
"""

from __future__ import annotations

from typing import Any

import sympy

from stage3_lowering.lowering.state import State, storage_order
from stage3_lowering.lowering.values import Body, Index, Lazy, broadcast, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import DType
from stage_contracts.graph import Node
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

# What integers and bools have no use for: the value itself is the result.
_IDENTITY_ON_INTEGERS = ("floor", "ceil", "round", "trunc")
_IDENTITY_ON_BOOLS = (*_IDENTITY_ON_INTEGERS, "abs", "sign")
_FALSE_ON_INTEGERS = ("isnan", "isinf")
_DIVISIONS = ("floor_divide", "remainder", "fmod")


def pointwise(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    name, meta, operands = node.target.name, state.meta(node), list(args.values())
    if not state.one_device_no_half(node):
        return None
    compute = args["dtype"] if name in ("cast", "bitcast") else _compute_dtype(name, operands)
    if (
        name in _DIVISIONS
        and not compute.is_floating_point
        and (isinstance(operands[1], (Lazy, sympy.Basic)) or not operands[1])
    ):
        return None  # an integer division by zero raises; the eager kernel looks at the divisors
    body, ranges, index = begin(state, meta)
    element = lambda operand, dtype: operand_element(body, operand, dtype, meta.shape, index)  # noqa: E731
    unchanged = name in (_IDENTITY_ON_BOOLS if compute is dt.bool_ else _IDENTITY_ON_INTEGERS)
    if name == "cast" or (unchanged and not compute.is_floating_point):
        result = element(args["input"], compute)
    elif name == "bitcast":
        value = element(args["input"], args["input"].meta.dtype)
        result = body.emit(name, (value, args["dtype"]), args["dtype"], node.name)
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
    metas = [o.meta if isinstance(o, Lazy) else 0 if isinstance(o, sympy.Basic) else o for o in operands]
    compute = core_metas.promoted_dtype(metas[1:] if name == "where" else metas)
    floats = CORE_OPS[name].meta is core_metas.pointwise_float
    return dt.DEFAULT_DTYPE.dtype if floats and not compute.is_floating_point else compute


def begin(state: State, meta: TensorMeta) -> tuple[Body, tuple[int, ...], Index]:
    """A body whose loops run over the elements of `meta` in the order they lie in memory."""
    ranges, index = storage_order(meta)
    return Body(state.fresh, loop_sizes(ranges)), ranges, index


def operand_element(body: Body, operand: Any, dtype: DType, shape: tuple[int, ...], index: Index) -> Value:
    """One operand's element, of the wanted dtype: a Python number, or a tensor broadcast to `shape`."""
    if isinstance(operand, sympy.Basic):  # a number made of open sizes
        number = body.emit("index_expr", (operand,), dt.int64)
        return number if dtype is dt.int64 else body.emit("cast", (number, dtype), dtype)
    if not isinstance(operand, Lazy):
        return body.emit("constant", (as_python(operand, dtype),), dtype)
    value = operand.fetch(body, broadcast(operand, shape, index))
    return (
        value
        if operand.meta.dtype is dtype
        else body.emit("cast", (value, dtype), dtype, f"{value}_{dtype.name}")
    )


def as_python(number: Any, dtype: DType) -> bool | int | float:
    """A constant of `dtype`; an integer that does not fit wraps around, as in eager."""
    if dtype.is_floating_point:
        return float(number)
    if dtype is dt.bool_:
        return bool(number)
    assert dtype.limits is not None
    low, high = (int(limit) for limit in dtype.limits)
    return (int(number) - low) % (high - low + 1) + low
