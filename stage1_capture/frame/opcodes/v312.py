"""What CPython 3.12 does: comprehensions inlined, slices without slice objects, super() in one instruction.

Input: the shared handlers of frame/opcodes/shared.py. TABLE is what the translator runs on this version; 3.13's begins
with it.
"""

from __future__ import annotations

from functools import partial

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.build import list_to_tuple
from stage1_capture.frame.opcodes.control import CONDITIONS, for_iter, format_value_, jump_if, make_function
from stage1_capture.frame.opcodes.exceptions import send
from stage1_capture.frame.opcodes.shared import HANDLERS, Tx, handles, operations, push_callable
from stage1_capture.frame.translator import Handler
from stage1_capture.variables.arithmetic import unary
from stage1_capture.variables.base import NULL, Variable, from_constant, load_attribute
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.sequence import SliceVariable

TABLE: dict[str, Handler] = {
    **HANDLERS,
    **{f"POP_JUMP_IF_{name}": partial(jump_if, name) for name in CONDITIONS},
    "FOR_ITER": partial(for_iter, 1),  # END_FOR
    "SEND": partial(send, True),
    "MAKE_FUNCTION": make_function,
    "FORMAT_VALUE": format_value_,
}


@handles("LOAD_ATTR", table=TABLE)
def load_attr(tx: Tx, i: Instruction) -> None:
    """The low bit of the argument says that a call follows."""
    push_callable(tx, load_attribute(tx, tx.pop(), i.argval), bool(i.arg & 1))


@handles("LOAD_SUPER_ATTR", table=TABLE)
def load_super_attr(tx: Tx, i: Instruction) -> None:
    super_, owner, receiver = tx.popn(3)
    made = tx.call(super_, [owner, receiver], {})
    push_callable(tx, load_attribute(tx, made, i.argval), bool(i.arg & 1))


@handles("LOAD_FAST_AND_CLEAR", table=TABLE)
def load_fast_and_clear(tx: Tx, i: Instruction) -> None:
    """Keep a name's value while an inlined comprehension uses the name for its own. Nobody looks at it: no push."""
    tx.stack.append(tx.locals.pop(i.argval, NULL))


def _slice(*bounds: Variable) -> Variable:
    return SliceVariable([*bounds, NONE])


operations(
    {
        "BINARY_SLICE": (3, lambda tx, i, row, *bounds: row.subscript(tx, _slice(*bounds))),
        "STORE_SLICE": (4, lambda tx, i, new, row, *bounds: row.store_subscript(tx, _slice(*bounds), new)),
    },
    table=TABLE,
)


@handles("RETURN_CONST", table=TABLE)
def return_const(tx: Tx, i: Instruction) -> None:
    tx.result = from_constant(i.argval)


@handles("CALL_INTRINSIC_1", table=TABLE)
def call_intrinsic_1(tx: Tx, i: Instruction) -> None:
    """One-argument helpers of the interpreter: 5 is unary +, 6 makes a tuple of a list."""
    match i.arg:
        case 3:  # a StopIteration leaves a generator
            pass  # frame/translator.py says so
        case 5:
            tx.push(unary(tx, "UNARY_POSITIVE", tx.pop()))
        case 6:
            list_to_tuple(tx, i)
        case _:
            tx.unsupported("GB0001", f"the intrinsic {i.symbol or i.arg}")
