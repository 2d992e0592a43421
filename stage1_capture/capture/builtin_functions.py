"""Builtin functions on abstract values: the table that calls.py looks a builtin up in.

Input: abstract arguments. Pure functions of constants are folded by Python itself; the others here work on
the structure (len, zip, enumerate) and touch no data.
"""

from __future__ import annotations

import math
import types
from typing import Any

from stage0_eager.type_info import finfo, iinfo
from stage1_capture.capture.arithmetic import binary, truth
from stage1_capture.capture.attributes import special_method
from stage1_capture.capture.calls import (
    BUILTINS,
    FOLDED,
    Args,
    Kwargs,
    attempt,
    call_function,
    fold,
    iterate,
    make_iterator,
)
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    SliceVariable,
    TupleVariable,
    Variable,
    describe,
    realize,
)
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import dtype_of

Tx = InstructionTranslator

# Defaults of the builtins below.
FALSE, ZERO, EMPTY = ConstantVariable(False), ConstantVariable(0), TupleVariable([])

FOLDED.update({abs, ascii, chr, divmod, hex, max, min, oct, ord, pow, range, repr, round, sorted, str})
FOLDED.update({int, float, bytes, Device, device_of, dtype_of, finfo, iinfo})
FOLDED.update(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType))


def builtin(*functions: Any) -> Any:
    """Decorator: enter a handler of (tx, *args, **kwargs); a call that does not fit it is a break."""

    def enter(handler: Any) -> Any:
        def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
            try:
                return handler(tx, *args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # not the call itself: an error of our own
                tx.unsupported("GB0002", f"a call of {functions[0].__name__}: {error}")

        BUILTINS.update(dict.fromkeys(functions, call))
        return handler

    return enter


# ---- size, truth, sums ---------------------------------------------------------------------------


@builtin(len)
def len_(tx: Tx, value: Variable) -> Variable:
    match value:
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return ConstantVariable(len(items))
        case ConstDictVariable(items=entries):
            return ConstantVariable(len(entries))
    method = special_method(tx, value, "__len__")
    return call_function(tx, method, [], {}) if method else fold(tx, len, [value], {})


@builtin(bool)
def bool_(tx: Tx, value: Variable = FALSE) -> Variable:
    return ConstantVariable(truth(tx, value))


@builtin(any)
def any_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(any(truth(tx, v) for v in iterate(tx, values)))


@builtin(all)
def all_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(all(truth(tx, v) for v in iterate(tx, values)))


@builtin(sum)
def sum_(tx: Tx, values: Variable, start: Variable = ZERO) -> Variable:
    for value in iterate(tx, values):
        start = binary(tx, "+", start, value)
    return start


# ---- containers and iterators --------------------------------------------------------------------


@builtin(list)
def list_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return ListVariable(iterate(tx, values))


@builtin(tuple)
def tuple_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return values if isinstance(values, TupleVariable) else TupleVariable(iterate(tx, values))


@builtin(dict)
def dict_(tx: Tx, values: Variable | None = None, /, **more: Variable) -> Variable:
    entries: dict[Any, Variable] = {}
    if isinstance(values, ConstDictVariable):
        entries.update(values.items)
    elif values is not None:
        for pair in iterate(tx, values):
            key, value = iterate(tx, pair)
            entries[tx.constant(key, "a dict's key")] = value
    return ConstDictVariable({**entries, **more})


@builtin(slice)
def slice_(tx: Tx, *bounds: Variable) -> Variable:
    start, stop, step = {1: (NONE, *bounds, NONE), 2: (*bounds, NONE), 3: bounds}[len(bounds)]
    return SliceVariable([start, stop, step])


@builtin(iter)
def iter_(tx: Tx, values: Variable) -> Variable:
    return make_iterator(tx, values)


@builtin(next)
def next_(tx: Tx, iterator: Variable, *default: Variable) -> Variable:
    if not isinstance(iterator, IteratorVariable):
        tx.unsupported("GB0002", f"next of {describe(iterator)}")
    found = next(iterator.iterator, default[0] if default else None)
    if found is None:
        tx.unsupported("GB0002", "next of an iterator that is used up")
    return realize(found)


@builtin(enumerate)
def enumerate_(tx: Tx, values: Variable, start: Variable = ZERO) -> Variable:
    first = tx.constant(start, "enumerate")
    pairs = enumerate(make_iterator(tx, values).iterator, first)
    return IteratorVariable(TupleVariable([ConstantVariable(i), v]) for i, v in pairs)


@builtin(zip)
def zip_(tx: Tx, *several: Variable, strict: Variable = FALSE) -> Variable:
    if truth(tx, strict):
        return IteratorVariable(
            TupleVariable(list(row))
            for row in attempt(tx, "zip", lambda: list(zip(*[iterate(tx, v) for v in several], strict=True)))
        )
    return IteratorVariable(
        TupleVariable(list(r)) for r in zip(*[make_iterator(tx, v).iterator for v in several])
    )


@builtin(reversed)
def reversed_(tx: Tx, values: Variable) -> Variable:
    return IteratorVariable(iter(iterate(tx, values)[::-1]))


@builtin(map)
def map_(tx: Tx, function: Variable, *several: Variable) -> Variable:
    rows = zip(*[make_iterator(tx, v).iterator for v in several])
    return IteratorVariable(call_function(tx, function, [realize(v) for v in row], {}) for row in rows)
