"""Whole numbers that only the data knows where Python chooses: bounds of slices, min, max, abs; and what is asserted.

Input: abstract numbers of variables/unbacked.py. The choice is made by operators, on tensors without dimensions. Its
result is a new symbol with what is certain of it: a bound of a slice lies between 0 and the size.
"""

from __future__ import annotations

import operator
from typing import Any

from stage0_eager import TABLE
from stage0_eager.functions import unbacked as ops
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.operators import UNKNOWN, call_operator, record_node
from stage1_capture.variables.sequence import SliceVariable, TupleVariable
from stage1_capture.variables.unbacked import (
    UnbackedBoolVariable,
    UnbackedIntVariable,
    as_size,
    as_tensor,
    compared,
    hold,
    maker,
    negated,
    new_symbol,
)
from stage_contracts import config
from stage_contracts.symbolic import SymBool
from stage_contracts.unbacked import learn

_CHOOSE: dict[str, tuple[str, Any]] = {
    "min": ("cutaway.minimum", operator.le),
    "max": ("cutaway.maximum", operator.ge),
}


def chosen(tx: Tx, name: str, left: Variable, right: Variable) -> Variable | None:
    """`min(left, right)` or `max(left, right)`, one of which only the data knows; None for other values."""
    sizes = as_size(left), as_size(right)
    if None in sizes or not any(isinstance(v, UnbackedIntVariable) for v in (left, right)):
        return None
    function, relation = _CHOOSE[name]
    both = call_operator(tx, TABLE[function], [_scalar(tx, left), _scalar(tx, right)], {})
    found = _read(tx, both, 0 if all(_is_known(size >= 0) for size in sizes) else None)
    for size in sizes:
        _certainly(relation(_size(found), size))
    return found


def _size(value: Variable) -> Any:
    return as_size(value)


def absolute(tx: Tx, value: Variable) -> Variable | None:
    """`abs(n)` of such a number."""
    if not isinstance(value, UnbackedIntVariable):
        return None
    minus = negated(tx, value)
    return value if _is_known(_size(value) >= 0) or minus is None else chosen(tx, "max", value, minus)


def _read(tx: Tx, tensor: Any, low: int | None) -> UnbackedIntVariable:
    symbol = new_symbol(tx, low)
    maker(tx, ops.item, [tensor], symbol)
    return UnbackedIntVariable(symbol)


def _scalar(tx: Tx, value: Variable) -> Variable:
    """A whole number as a tensor without dimensions."""
    if isinstance(value, UnbackedIntVariable):
        return as_tensor(tx, value)
    return record_node(tx, ops.scalar, [value], {}, ops.scalar.meta(as_size(value)))


def _is_known(condition: Any) -> bool:
    """Whether a relation of sizes is known to hold."""
    return condition.env.known(condition.expr) is True if isinstance(condition, SymBool) else bool(condition)


def _certainly(condition: Any) -> None:
    """A fact that needs no check: it holds by how the number was made."""
    if isinstance(condition, SymBool) and condition.env.known(condition.expr) is None:
        learn(condition.env, condition.expr)
        condition.env.deferred.pop()


# ---- slices ----------------------------------------------------------------------------------------------------


def bounded(tx: Tx, tensor: Variable, key: Variable) -> Variable:
    """The key of `tensor[key]`, where a bound that only the data knows is one that fits the dimension, as Python's."""
    key = realize(key)
    if isinstance(key, SliceVariable):
        return _bounded_slice(tx, key, tensor.meta.shape[0]) if tensor.meta.shape else key
    if not isinstance(key, TupleVariable):
        return key
    parts = [realize(part) for part in key.items]
    if not any(isinstance(part, SliceVariable) and _can_be_bounded(part) for part in parts) or not all(
        map(_takes_one, parts)
    ):
        return key
    dims, made = iter(tensor.meta.shape), []
    for part in parts:
        size = None if part.is_none() else next(dims, None)
        made.append(part if size is None else _bounded_slice(tx, part, size))
    return TupleVariable(made)


def _takes_one(part: Variable) -> bool:
    """Whether a part of a key is for one dimension, or for none."""
    number = part.is_python_constant() and type(part.value) in (int, type(None))
    return number or isinstance(part, (SliceVariable, UnbackedIntVariable))


def _bounded_slice(tx: Tx, key: Variable, size: Any) -> Variable:
    if not isinstance(key, SliceVariable) or not _can_be_bounded(key):
        return key
    start, stop, step = (_fitting(tx, realize(v), size) for v in key.items)
    if not stop.is_none() and not start.is_none() and not _is_known(_size(start) <= _size(stop)):
        stop = chosen(tx, "max", start, stop) or stop
        _certainly(_size(stop) <= size)
    return SliceVariable([start, stop, step])


def _can_be_bounded(key: SliceVariable) -> bool:
    """Whether a slice has a bound that only the data knows, no step, and no known bound from behind."""
    start, stop, step = map(realize, key.items)
    if not isinstance(start, UnbackedIntVariable) and not isinstance(stop, UnbackedIntVariable):
        return False  # before anything is read: to read an open number's value is to rely on it
    known = [v.value for v in (start, stop) if v.is_python_constant() and not v.is_none()]
    one = step.is_none() or step.is_python_constant() and step.value == 1
    return one and all(type(value) is int and value >= 0 for value in known)


def _fitting(tx: Tx, bound: Variable, size: Any) -> Variable:
    """The bound as a place between 0 and the size: one from behind is counted from the end."""
    if not isinstance(bound, UnbackedIntVariable) or (
        _is_known(_size(bound) >= 0) and _is_known(_size(bound) <= size)
    ):
        return bound
    place: Any = as_tensor(tx, bound)
    end = record_node(tx, ops.scalar, [ConstantVariable(size)], {}, ops.scalar.meta(size))
    zero = ConstantVariable(0)
    if not _is_known(_size(bound) >= 0):
        behind = call_operator(tx, TABLE["cutaway.lt"], [place, zero], {})
        from_end = call_operator(tx, TABLE["cutaway.add"], [place, end], {})
        place = call_operator(tx, TABLE["cutaway.where"], [behind, from_end, place], {})
        place = call_operator(tx, TABLE["cutaway.clamp"], [place, zero], {})
    found = _read(tx, call_operator(tx, TABLE["cutaway.minimum"], [place, end], {}), 0)
    _certainly(_size(found) <= size)
    return found


# ---- assert ----------------------------------------------------------------------------------------------------


def can_be_asserted(value: Variable) -> bool:
    """Whether `assert value` can be a check in the graph."""
    if isinstance(value, (UnbackedBoolVariable, UnbackedIntVariable)):
        return True
    return value.is_tensor() and not value.meta.shape and config.current().capture.capture_scalar_outputs


def asserted(tx: Tx, value: Variable, message: str) -> None:
    """`assert value, message`: a check when the data is there, and a fact from here on."""
    if isinstance(value, UnbackedIntVariable):
        value = compared(tx, "!=", operator.ne, value, ConstantVariable(0)) or value
    if value.is_tensor():
        holds: Any = call_operator(tx, TABLE["cutaway.ne"], [value, ConstantVariable(0)], {})
        value = UnbackedBoolVariable(tensor=holds)
    if isinstance(value, UnbackedBoolVariable):
        hold(tx, value, AssertionError, message)
    elif not value.truth(tx):
        tx.throw(AssertionError, *([message] if message else []))


UNKNOWN.update(bounds=bounded, asserted=asserted, can_be_asserted=can_be_asserted)
