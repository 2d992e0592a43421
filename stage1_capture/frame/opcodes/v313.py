"""What CPython 3.13 changed from 3.12: paired loads and stores, CALL_KW, TO_BOOL, f-strings in parts.

Input: the table of frame/opcodes/v312.py. TABLE is what the translator runs on this version.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.control import (
    do_call,
    for_iter,
    left_to_assert,
    new_function,
    set_function_attribute,
)
from stage1_capture.frame.opcodes.shared import Tx, handles, load_local, operations, store_local
from stage1_capture.frame.opcodes.v312 import TABLE as TABLE_312
from stage1_capture.frame.translator import Handler
from stage1_capture.variables.arithmetic import compare
from stage1_capture.variables.base import Variable
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.formatting import CONVERSIONS, format_value, in_text, stand_in

TABLE: dict[str, Handler] = {
    **TABLE_312,
    "FOR_ITER": partial(for_iter, 2),  # END_FOR, POP_TOP
}


@handles("LOAD_FAST_LOAD_FAST", table=TABLE)
def load_fast_load_fast(tx: Tx, i: Instruction) -> None:
    for name in i.argval:
        load_local(tx, name)


@handles("STORE_FAST_STORE_FAST", table=TABLE)
def store_fast_store_fast(tx: Tx, i: Instruction) -> None:
    for name in i.argval:
        store_local(tx, name)


@handles("STORE_FAST_LOAD_FAST", table=TABLE)
def store_fast_load_fast(tx: Tx, i: Instruction) -> None:
    stored, loaded = i.argval
    store_local(tx, stored)
    load_local(tx, loaded)


@handles("CALL_KW", table=TABLE)
def call_kw(tx: Tx, i: Instruction) -> None:
    names = tx.constant(tx.pop(), "a call")
    do_call(tx, i.arg, names)


def _compared(tx: Tx, i: Instruction, left: Variable, right: Variable) -> Variable:
    """Bit 4 of the argument asks for the truth of the result, as a branch needs it."""
    result = compare(tx, i.symbol, left, right)
    return _truth(tx, i, result) if i.arg & 16 else result


def _truth(tx: Tx, i: Instruction, value: Variable) -> Variable:
    return value if left_to_assert(tx, value) else ConstantVariable(value.truth(tx))


def _with_attribute(tx: Tx, i: Instruction, value: Variable, function: Any) -> Variable:
    set_function_attribute(function, i.arg, value)
    return function


def _converted(tx: Tx, i: Instruction, value: Variable) -> Variable:
    convert: Any = CONVERSIONS[i.arg]
    return in_text(tx, "an f-string", lambda: convert(stand_in(tx, value)))


operations(
    {
        "TO_BOOL": (1, _truth),
        "COMPARE_OP": (2, _compared),
        "MAKE_FUNCTION": (1, lambda tx, i, code: new_function(tx, code)),
        "SET_FUNCTION_ATTRIBUTE": (2, _with_attribute),
        "CONVERT_VALUE": (1, _converted),
        "FORMAT_SIMPLE": (1, lambda tx, i, value: format_value(tx, value, None, "")),
        "FORMAT_WITH_SPEC": (
            2,
            lambda tx, i, v, spec: format_value(tx, v, None, tx.constant(spec, "an f-string")),
        ),
    },
    table=TABLE,
)
