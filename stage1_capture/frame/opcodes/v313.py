"""What CPython 3.13 changed from 3.12: paired loads and stores, CALL_KW, TO_BOOL, f-strings in parts.

Input: the table of frame/opcodes/v312.py. TABLE is what the translator runs on this version.
"""

from __future__ import annotations

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.control import do_call, for_iter, new_function, set_function_attribute
from stage1_capture.frame.opcodes.shared import Tx, handles, load_local, store_local
from stage1_capture.frame.opcodes.v312 import TABLE as TABLE_312
from stage1_capture.frame.translator import Handler
from stage1_capture.variables.arithmetic import compare
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.formatting import CONVERSIONS, format_value, in_text, stand_in

TABLE: dict[str, Handler] = {
    **TABLE_312,
    "FOR_ITER": for_iter(skipped=2),  # END_FOR, POP_TOP
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


@handles("TO_BOOL", table=TABLE)
def to_bool(tx: Tx, i: Instruction) -> None:
    tx.push(ConstantVariable(tx.pop().truth(tx)))


@handles("COMPARE_OP", table=TABLE)
def compare_op(tx: Tx, i: Instruction) -> None:
    """Bit 4 of the argument asks for the truth of the result, as a branch needs it."""
    left, right = tx.popn(2)
    result = compare(tx, i.symbol, left, right)
    tx.push(ConstantVariable(result.truth(tx)) if i.arg & 16 else result)


@handles("CALL_KW", table=TABLE)
def call_kw(tx: Tx, i: Instruction) -> None:
    names = tx.constant(tx.pop(), "a call")
    do_call(tx, i.arg, names)


@handles("MAKE_FUNCTION", table=TABLE)
def make_function(tx: Tx, i: Instruction) -> None:
    tx.push(new_function(tx, tx.pop()))


@handles("SET_FUNCTION_ATTRIBUTE", table=TABLE)
def set_function_attribute_(tx: Tx, i: Instruction) -> None:
    value, function = tx.popn(2)
    set_function_attribute(function, i.arg, value)  # type: ignore[arg-type]
    tx.push(function)


@handles("CONVERT_VALUE", table=TABLE)
def convert_value(tx: Tx, i: Instruction) -> None:
    convert = CONVERSIONS[i.arg]
    assert convert is not None
    value = tx.pop()
    tx.push(in_text(tx, "an f-string", lambda: convert(stand_in(tx, value))))


@handles("FORMAT_SIMPLE", table=TABLE)
def format_simple(tx: Tx, i: Instruction) -> None:
    tx.push(format_value(tx, tx.pop(), None, ""))


@handles("FORMAT_WITH_SPEC", table=TABLE)
def format_with_spec(tx: Tx, i: Instruction) -> None:
    value, spec = tx.popn(2)
    tx.push(format_value(tx, value, None, tx.constant(spec, "an f-string")))
