"""What only CPython 3.11 does: jumps with a direction, LOAD_METHOD, PRECALL, the stack effects of FOR_ITER.

Input: the shared handlers of frame/opcodes/shared.py. TABLE is what the translator runs on this version.
"""

from __future__ import annotations

from functools import partial

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.build import list_to_tuple
from stage1_capture.frame.opcodes.control import CONDITIONS, for_iter, format_value_, jump_if, make_function
from stage1_capture.frame.opcodes.exceptions import send
from stage1_capture.frame.opcodes.shared import HANDLERS, Tx, handles, nothing, push_callable
from stage1_capture.frame.translator import Handler
from stage1_capture.variables.base import load_attribute

TABLE: dict[str, Handler] = {
    **HANDLERS,
    **{f"POP_JUMP_{way}_IF_{n}": partial(jump_if, n) for way in ("FORWARD", "BACKWARD") for n in CONDITIONS},
    "FOR_ITER": partial(for_iter, 0),
    "PRECALL": nothing,
    "SEND": partial(send, False),
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
    if tx.stack[-1].truth(tx) is (i.opname == "JUMP_IF_TRUE_OR_POP"):
        tx.index = i.target
    else:
        tx.pop()
