"""What only CPython 3.11 does: jumps with a direction, LOAD_METHOD, PRECALL, the stack effects of FOR_ITER.

Input: the shared handlers of opcodes.py. TABLE is what the translator runs on this version.
"""

from __future__ import annotations

from stage1_capture.capture.arithmetic import truth
from stage1_capture.capture.attributes import load_attribute
from stage1_capture.capture.bytecode import Instruction
from stage1_capture.capture.opcodes import HANDLERS, Tx, handles, nothing, push_callable
from stage1_capture.capture.opcodes_build import list_to_tuple
from stage1_capture.capture.opcodes_control import (
    CONDITIONS,
    for_iter,
    format_value_,
    jump_if,
    make_function,
)
from stage1_capture.capture.opcodes_exceptions import send
from stage1_capture.capture.symbolic_convert import Handler

TABLE: dict[str, Handler] = {
    **HANDLERS,
    **{
        f"POP_JUMP_{way}_IF_{n}": jump_if(c) for way in ("FORWARD", "BACKWARD") for n, c in CONDITIONS.items()
    },
    "FOR_ITER": for_iter(skipped=0),
    "PRECALL": nothing,
    "SEND": send(keeps=False),
    "ASYNC_GEN_WRAP": nothing,
    "MAKE_FUNCTION": make_function,
    "LIST_TO_TUPLE": list_to_tuple,
    "FORMAT_VALUE": format_value_,
}


@handles("LOAD_ATTR", "LOAD_METHOD", table=TABLE)
def load_attr(tx: Tx, i: Instruction) -> None:
    push_callable(tx, load_attribute(tx, tx.pop(), i.argval), i.opname == "LOAD_METHOD")


@handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", table=TABLE)
def jump_if_or_pop(tx: Tx, i: Instruction) -> None:
    """`a or b`, `a and b`: jump with the value, or drop it and go on."""
    if truth(tx, tx.stack[-1]) is (i.opname == "JUMP_IF_TRUE_OR_POP"):
        tx.index = i.target
    else:
        tx.pop()
