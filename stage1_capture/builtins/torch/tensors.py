"""`tensor(data)` of Python numbers: a constant of the graph, copied at each call; an open number stays an input.

Input: abstract arguments of `tensor`, which as_tensor and the others that take data call too. Eager says what tensor
the numbers make, and with which dtype.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterator
from typing import Any

from stage0_eager import TABLE
from stage0_eager.functions import creation
from stage0_eager.tensor import Tensor
from stage1_capture.builtins.numpy.methods import tensor_of_array
from stage1_capture.state.machine import BUILTINS, CALLED_BY_CODE, Args, Kwargs, Tx
from stage1_capture.variables.base import (
    SEQUENCES,
    NotConstant,
    Variable,
    as_constant,
    from_constant,
    realize,
)
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import UserFunctionVariable, function_variable
from stage1_capture.variables.number import EXACT, hint_of, number_operand, text_of
from stage1_capture.variables.operators import UNKNOWN, call_operator
from stage1_capture.variables.scalar_inputs import scalar_input
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts import dtype as dt
from stage_contracts.controls import register
from stage_contracts.source import RegisteredSource

TENSOR: Any = creation.tensor
STACKED = (dt.float32, dt.int64, dt.bool_)  # which a list of tensors keeps; float64 becomes the default dtype


def tensor_call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """tensor(data, dtype=, device=). What is neither numbers nor an array is followed as eager's code does it."""
    data = realize(args[0]) if len(args) == 1 else None
    options = {name: realize(value) for name, value in kwargs.items()}
    if data is not None and data.is_array():
        return tensor_of_array(tx, data, kwargs)  # type: ignore[arg-type]
    if data is not None and set(options) <= {"dtype", "device", "requires_grad"}:
        if tx.constant(options.pop("requires_grad", ConstantVariable(False)), "requires_grad="):
            tx.unsupported("GB0082", "tensor(..., requires_grad=True) makes a leaf of the tape")
        given = {name: tx.constant(value, f"{name}=") for name, value in options.items()}
        made = _of_tensors(tx, data) if not given else None
        made = made or _of_numbers(tx, data, given)
        if made is not None:
            return made
    return tx.inline(function_variable(tx.output, TENSOR, None), args, kwargs)


def _of_numbers(tx: Tx, data: Variable, given: dict[str, Any]) -> Variable | None:
    """The tensor of numbers, nested lists of them too; None where eager refuses them or they are something else."""
    leaves = list(_leaves(data))
    open_ = [leaf for leaf in leaves if leaf.is_open()]
    open_ = [] if any(type(n.hint) is int and abs(n.hint) > EXACT for n in open_) else open_
    try:
        made = TENSOR(_with_hints(data) if open_ else as_constant(data), **given)
    except (NotConstant, TypeError, ValueError, OverflowError):
        return None
    if open_:
        parts = [
            _of_one(tx, leaf, made) if leaf.is_open() else _of_numbers(tx, leaf, _like(made))
            for leaf in leaves
        ]
        if not made.shape:
            return parts[0]
        row = call_operator(tx, TABLE["cutaway.stack"], [ListVariable(parts)], {})  # type: ignore[arg-type]
        return call_operator(tx, TABLE["cutaway.reshape"], [row, from_constant(tuple(made.shape))], {})
    if made.numel() == 1 and cmath.isfinite(number := made.item()):
        op, size = TABLE["cutaway.full_of_shape"], from_constant(tuple(made.shape))
        place: dict[str, Variable] = {
            "dtype": ConstantVariable(made.dtype),
            "device": ConstantVariable(made.device),
        }
        return call_operator(tx, op, [size, ConstantVariable(number)], place)
    return _copy_of(tx, made)


def _leaves(data: Variable) -> Iterator[Variable]:
    if data.family() not in (list, tuple):
        yield data
        return
    for item in data.items:
        yield from _leaves(realize(item))


def _with_hints(data: Variable) -> Any:
    """The numbers as they are in this call."""
    if data.family() in (list, tuple):
        return [_with_hints(realize(item)) for item in data.items]
    return data.hint if data.is_open() else as_constant(data)


def _like(made: Tensor) -> dict[str, Any]:
    return {"dtype": made.dtype, "device": made.device}


def _of_one(tx: Tx, number: Any, made: Tensor) -> Variable:
    """An open number as an input of the graph, in the dtype of the tensor that it is in."""
    if type(number.hint) is int:
        tx.output.guard("SHAPE", None, f"-{EXACT} <= {text_of(number)} <= {EXACT}")
    inside = scalar_input(tx, number, made.device)
    same = inside.meta.dtype is made.dtype
    words = [] if same else [ConstantVariable(made.dtype)]
    return call_operator(tx, TABLE["cutaway.clone" if same else "core.cast"], [inside, *words], {})


def _places(tx: Tx, key: Variable) -> Variable:
    """The key of `x[key]`, with a tensor in place of a row of ints of which one is open: `x[:, [0, n - 1]]`."""
    key = realize(key)
    if key.family() is tuple:
        items = [realize(item) for item in key.items]
        placed = [_places_of(tx, item) for item in items]
        return key if placed == items else TupleVariable(placed)
    return _places_of(tx, key)


def _places_of(tx: Tx, row: Variable) -> Variable:
    leaves = list(_leaves(row)) if row.family() in (list, tuple) else []
    numbers = all(number_operand(leaf) and type(hint_of(leaf)) is int for leaf in leaves)
    made = _of_numbers(tx, row, {}) if numbers and any(leaf.is_open() for leaf in leaves) else None
    return row if made is None else made


UNKNOWN["places"] = _places


def _copy_of(tx: Tx, made: Tensor) -> Variable:
    """A new tensor at each call: the program may write to it. The guard keeps the one that is copied alive."""
    where = RegisteredSource(register(made))
    tx.output.guard("IDENTITY", where, made)
    return call_operator(tx, TABLE["cutaway.clone"], [TensorVariable(made.meta, real=made, source=where)], {})


def _of_tensors(tx: Tx, data: Variable) -> Variable | None:
    """A list of tensors without dimensions, which eager reads one by one: they are stacked."""
    if data.family() not in SEQUENCES or not data.items:
        return None
    items = [realize(v) for v in data.items]
    metas = [v.meta for v in items if v.is_tensor()]
    plain = len(metas) == len(items) and not any(m.shape or m.requires_grad for m in metas)
    if not plain or any(m.dtype is not metas[0].dtype or m.device.type != "cpu" for m in metas):
        return None
    stacked = metas[0].dtype in STACKED
    return call_operator(tx, TABLE["cutaway.stack"], [ListVariable([*items])], {}) if stacked else None


BUILTINS[TENSOR] = tensor_call


_NUMBERS = frozenset((bool, int, float, complex))


def _arithmetic(tx: Tx, method: UserFunctionVariable, args: Args, kwargs: Kwargs) -> Variable:
    """A tensor's method for one of Python's operators. It asks what the other operand is, and calls an operator: for
    tensors and numbers the answer is known, which saves following it at most lines of a model."""
    others = [realize(other) for other in args[1:]]
    if len(others) != 1 or kwargs or not _is_operand(others[0]):
        return tx.inline(method, args, kwargs)
    return tx.call(tx.wrap(method.real.operator, None), [args[0], *others], {})


def _is_operand(value: Variable) -> bool:
    if value.is_tensor() or value.is_open():
        return True
    return value.is_python_constant() and type(as_constant(value)) in _NUMBERS


CALLED_BY_CODE[Tensor.__add__.__code__] = _arithmetic
