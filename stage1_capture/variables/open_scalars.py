"""Numbers that an operator takes as an argument, left open: tensors without dimensions that are inputs of the graph.

Input: a call of an operator with open numbers (number.py) among its arguments. TAKEN and FLOATS say in which parameter
a number means the same as such a tensor; elsewhere the number is fixed, with a guard. The operator's meta rule has the
last word: where the tensor would give another dtype or shape, or the rule looks at the number, it is fixed too.
"""

from __future__ import annotations

import operator
from typing import Any

from stage0_eager.table.number_operands import FLOATS, HOLDS, TAKEN
from stage0_eager.table.operator import Operator
from stage1_capture.state.machine import Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, as_constant
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.number import (
    EXACT,
    NumberVariable,
    hint_of,
    number_operand,
    open_compare,
    text_of,
)
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.source import ScalarSource
from stage_contracts.tensor_meta import TensorMeta

_COMPARE = {"!=": operator.ne, "<=": operator.le, ">=": operator.ge, ">": operator.gt}
# Dtypes in which a number and a tensor without dimensions are rounded alike.
WIDE = (dt.float32, dt.float64, dt.int64, dt.bool_)


def scalars_as_inputs(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments, with a tensor without dimensions in place of each open number that may be one."""
    given = {**dict(zip(op.params, args)), **kwargs}
    numbers = _open_numbers(op, given)
    if op.opaque or not numbers:
        return args, kwargs
    device = next((a.meta.device for a in given.values() if a.is_tensor()), Device("cpu"))
    tensors = {name: scalar_input(tx, value, device) for name, value in numbers.items()}
    new_args: list[Variable] = [tensors.get(name, a) for name, a in zip(op.params, args)]
    new_kwargs: dict[str, Variable] = {name: tensors.get(name, value) for name, value in kwargs.items()}
    if not _agree(op, (args, kwargs), (new_args, new_kwargs)) or not _valid(tx, op, args, kwargs):
        return args, kwargs
    _guard_exact(tx, list(numbers.values()))
    return new_args, new_kwargs


def _open_numbers(op: Operator, given: dict[str, Variable]) -> dict[str, Any]:
    """The open numbers that may become tensors, by parameter; none if one is an int that a float does not hold."""
    whole = any(a.is_tensor() and a.meta.dtype.category == dt.int64.category for a in given.values())
    always, floats = TAKEN.get(op.name, ()), FLOATS.get(op.name, ())
    opened: dict[str, Any] = {n: v for n, v in given.items() if v.is_open()}
    # with a tensor of integers floats are rounded
    fits = lambda n, v: n in always or (n in floats and type(v.hint) is float and not whole)  # noqa: E731
    found = {n: v for n, v in opened.items() if fits(n, v)}
    exact = all(type(n.hint) is float or abs(n.hint) <= EXACT for n in found.values())
    return found if exact else {}


def _agree(op: Operator, before: tuple[list, dict], after: tuple[list, dict]) -> bool:
    """Whether the meta rule gives one result for the numbers and for the tensors."""
    try:
        fixed, open_ = (
            op.meta(*map(_meta, a), **{k: _meta(v) for k, v in kw.items()}) for a, kw in (before, after)
        )
    except Exception:  # it looks at the number, or the call is wrong: as if the number were known
        return False
    return isinstance(fixed, TensorMeta) and fixed.dtype in WIDE and fixed == open_


def _meta(value: Variable) -> Any:
    """An operand for a meta rule, an open number as its value in this call."""
    return value.meta if value.is_tensor() else value.hint if value.is_open() else as_constant(value)


def _valid(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> bool:
    """Whether eager accepts the numbers, which is guarded then."""
    if op.name not in HOLDS:
        return True
    bound = dict(zip(op.params, op.bind(*args, **kwargs)))  # with the defaults
    for left, comparison, right in HOLDS[op.name]:
        pair = [
            v if isinstance(v, Variable) else ConstantVariable(v)
            for v in (bound[left], bound.get(right, right))  # type: ignore[arg-type]
        ]
        if not all(map(number_operand, pair)) or not _COMPARE[comparison](*map(hint_of, pair)):
            return False
        open_compare(comparison, _COMPARE[comparison], *pair)
    return True


def _guard_exact(tx: Tx, numbers: list[Any]) -> None:
    """Guard that an integer is one that a float holds exactly, or that a drawn one is within its bounds."""
    drawn = {draw.name for draw in tx.output.draws}
    for number in numbers:
        text = text_of(number)
        if type(number.hint) is int and text not in drawn:
            tx.output.guard("SHAPE", None, f"-{EXACT} <= {text} <= {EXACT}")


def scalar_input(
    tx: Tx, number: NumberVariable, device: Device, dtype: dt.DType | None = None
) -> TensorVariable:
    """The tensor without dimensions that holds an open number; one per expression, device and dtype."""
    assert number.source is not None
    dtype = dtype or (dt.int64 if type(number.hint) is int else dt.float64)
    source = ScalarSource(number.source, dtype.name, str(device))
    if source not in tx.output.scalars:
        meta = TensorMeta((), dtype, device=device)
        tx.output.scalars[source] = TensorVariable(meta, source=source)
    return tx.output.scalars[source]
