"""An open number as an operand: a tensor without dimensions, an input of the graph.

Only in the parameters where that means the same (stage 0's table says which); the operator's meta rule has the last
word: where the tensor would give another dtype or shape, or the rule looks at the number, the number is fixed.
"""

from __future__ import annotations

import operator
from typing import Any

from stage0_eager.table.number_operands import FLOATS, HOLDS, INDICES, TAKEN
from stage0_eager.table.operator import Operator
from stage1_capture.state.machine import Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, as_constant, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.known_results import meta_and_returned
from stage1_capture.variables.number import (
    EXACT,
    NumberVariable,
    as_size,
    hint_of,
    number_operand,
    open_compare,
    text_of,
)
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts import dtype as dt
from stage_contracts.core_metas import promoted_dtype
from stage_contracts.device import Device
from stage_contracts.source import ScalarSource
from stage_contracts.tensor_meta import TensorMeta

_COMPARE = {"!=": operator.ne, "<=": operator.le, ">=": operator.ge, ">": operator.gt}
# Dtypes in which a number and a tensor without dimensions are rounded alike.
ALIKE = (dt.float32, dt.float64, dt.bfloat16, dt.float16, dt.int64, dt.bool_)


def scalars_as_inputs(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments, with a tensor without dimensions in place of each open number that may be one."""
    if not any(value.is_open() for value in (*args, *kwargs.values())):
        return args, kwargs
    given = {**dict(zip(op.params, args)), **kwargs}
    numbers = _open_numbers(op, given)
    if op.opaque or not numbers:
        return args, kwargs
    metas = [a.meta for a in given.values() if a.is_tensor()]
    floats = _float_dtype(metas, numbers.keys() <= {"input", "other"})
    if floats is None:
        return args, kwargs
    device = metas[0].device if metas else Device("cpu")
    tensors = {
        name: scalar_input(tx, value, device, floats if type(value.hint) is float else None)
        for name, value in numbers.items()
    }
    new_args: list[Variable] = [tensors.get(name, a) for name, a in zip(op.params, args)]
    new_kwargs: dict[str, Variable] = {name: tensors.get(name, value) for name, value in kwargs.items()}
    if not _agree(tx, op, (args, kwargs), (new_args, new_kwargs)) or not _valid(tx, op, args, kwargs):
        return args, kwargs
    _guard_exact(tx, list(numbers.values()))
    return new_args, new_kwargs


def _open_numbers(op: Operator, given: dict[str, Variable]) -> dict[str, Any]:
    """The open numbers that may become tensors, by parameter; none if one is an int that a float does not hold."""
    opened: dict[str, Any] = {n: v for n, v in given.items() if v.is_open()}
    if not opened:
        return {}
    ints = (a.is_tensor() and a.meta.dtype.category == dt.int64.category for a in given.values())
    whole = op.name not in INDICES and any(ints)
    always, floats = TAKEN.get(op.name, ()), FLOATS.get(op.name, ())
    # with a tensor of integers floats are rounded
    fits = lambda n, v: n in always or (n in floats and type(v.hint) is float and not whole)  # noqa: E731
    found = {n: v for n, v in opened.items() if fits(n, v)}
    exact = all(type(n.hint) is float or abs(n.hint) <= EXACT for n in found.values())
    return found if exact else {}


def _float_dtype(metas: list[TensorMeta], operands: bool) -> dt.DType | None:
    """The dtype in which a float beside these tensors is computed as the number is; None where no tensor is.

    float64 counts as the number does beside a tensor with dimensions. Beside one without it would win: 0.1 equals
    tensor(0.1), and a float64 of 0.1 does not. Beside integers it would too, with or without dimensions.
    """
    computed = promoted_dtype([*metas, 0.0])
    if not metas or (not operands and computed != promoted_dtype(metas)):  # the meta rules are compared
        return dt.float64
    fits = (d for d in (dt.float64, dt.float32) if promoted_dtype([*metas, TensorMeta((), d)]) == computed)
    return next(fits, None)


def _agree(tx: Tx, op: Operator, before: tuple[list, dict], after: tuple[list, dict]) -> bool:
    """Whether the meta rule gives one result for the numbers and for the tensors."""
    bound = lambda a, kw: op.bind(*map(_meta, a), **{k: _meta(v) for k, v in kw.items()})  # noqa: E731
    try:
        fixed, open_ = (
            meta_and_returned(tx.output.known_results, op, bound(a, kw))[0] for a, kw in (before, after)
        )
    except Exception:  # it looks at the number, or the call is wrong: as if the number were known
        return False
    several = fixed if isinstance(fixed, tuple) else (fixed,)
    return fixed == open_ and all(isinstance(m, TensorMeta) and m.dtype in ALIKE for m in several)


def _meta(value: Variable) -> Any:
    """An operand for a meta rule, an open number as its value in this call; in a shape, as the size that it is."""
    if value.family() in (list, tuple):
        items = map(realize, value.items)
        return value.family()(as_size(i) if i.is_open() and i.sym is not None else _meta(i) for i in items)
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
