"""What the instructions that CPython 3.11, 3.12 and 3.13 share do: a table from opcode name to handler.

Input: the translator calls `HANDLERS[opname](tx, instruction)`. opcodes_311.py, opcodes_312.py and
opcodes_313.py add what only their version has. Meanings are those of the `dis` module's documentation.
"""

from __future__ import annotations

from collections.abc import Callable

from stage1_capture.capture.arithmetic import binary, compare, is_same, truth, unary
from stage1_capture.capture.bytecode import Instruction
from stage1_capture.capture.containers import contains, store_subscript, subscript
from stage1_capture.capture.symbolic_convert import Handler, InstructionTranslator
from stage1_capture.capture.variables import (
    NULL,
    CellVariable,
    ConstantVariable,
    Variable,
    from_constant,
)

Tx = InstructionTranslator
HANDLERS: dict[str, Handler] = {}


def handles(*names: str, table: dict[str, Handler] = HANDLERS) -> Callable[[Handler], Handler]:
    """Decorator: enter a handler under its opcodes' names."""

    def enter(handler: Handler) -> Handler:
        table.update(dict.fromkeys(names, handler))
        return handler

    return enter


@handles("NOP", "RESUME", "COPY_FREE_VARS", "SETUP_ANNOTATIONS")
def nothing(tx: Tx, i: Instruction) -> None:
    pass


# ---- the stack -----------------------------------------------------------------------------------


@handles("POP_TOP")
def pop_top(tx: Tx, i: Instruction) -> None:
    tx.pop()


@handles("PUSH_NULL")
def push_null(tx: Tx, i: Instruction) -> None:
    tx.push(NULL)


@handles("COPY")
def copy(tx: Tx, i: Instruction) -> None:
    tx.push(tx.stack[-i.arg])


@handles("SWAP")
def swap(tx: Tx, i: Instruction) -> None:
    tx.stack[-1], tx.stack[-i.arg] = tx.stack[-i.arg], tx.stack[-1]


# ---- names ---------------------------------------------------------------------------------------


@handles("LOAD_CONST")
def load_const(tx: Tx, i: Instruction) -> None:
    tx.push(from_constant(i.argval))


@handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(tx: Tx, i: Instruction) -> None:
    load_local(tx, i.argval)


def load_local(tx: Tx, name: str) -> None:
    if name not in tx.locals:
        tx.unsupported("GB0001", f"the variable {name} is not assigned yet")
    tx.push(tx.locals[name])


@handles("STORE_FAST")
def store_fast(tx: Tx, i: Instruction) -> None:
    store_local(tx, i.argval)


def store_local(tx: Tx, name: str) -> None:
    """Storing NULL, which LOAD_FAST_AND_CLEAR found, unbinds the name again."""
    value = tx.pop()
    if value is NULL:
        tx.locals.pop(name, None)
    else:
        tx.locals[name] = value


@handles("DELETE_FAST")
def delete_fast(tx: Tx, i: Instruction) -> None:
    load_local(tx, i.argval)
    tx.pop()
    del tx.locals[i.argval]


@handles("LOAD_GLOBAL")
def load_global(tx: Tx, i: Instruction) -> None:
    push_callable(tx, tx.load_global(i.argval), bool(i.arg & 1))


def push_callable(tx: Tx, value: Variable, with_null: bool) -> None:
    """Push a value, and a NULL where the instruction asks for one: before it up to 3.12, after it in 3.13.

    `do_call` takes the NULL on either side, so one order serves all versions.
    """
    if with_null:
        tx.push(NULL)
    tx.push(value)


@handles("MAKE_CELL")
def make_cell(tx: Tx, i: Instruction) -> None:
    tx.locals[i.argval] = CellVariable(tx.locals.get(i.argval))


@handles("LOAD_DEREF")
def load_deref(tx: Tx, i: Instruction) -> None:
    tx.push(tx.load_cell(i.argval))


@handles("STORE_DEREF")
def store_deref(tx: Tx, i: Instruction) -> None:
    cell = tx.locals[i.argval]
    assert isinstance(cell, CellVariable)
    if cell.outside:
        tx.unsupported("GB0006", f"an assignment to {i.argval}, a variable of an enclosing function")
    cell.contents = tx.pop()


# ---- attributes and items ------------------------------------------------------------------------


@handles("STORE_ATTR")
def store_attr(tx: Tx, i: Instruction) -> None:
    tx.unsupported("GB0006", f"an assignment to the attribute {i.argval}")


@handles("BINARY_SUBSCR")
def binary_subscr(tx: Tx, i: Instruction) -> None:
    container, key = tx.popn(2)
    tx.push(subscript(tx, container, key))


@handles("STORE_SUBSCR")
def store_subscr(tx: Tx, i: Instruction) -> None:
    value, container, key = tx.popn(3)
    store_subscript(tx, container, key, value)


# ---- operators -----------------------------------------------------------------------------------


@handles("BINARY_OP")
def binary_op(tx: Tx, i: Instruction) -> None:
    left, right = tx.popn(2)
    tx.push(binary(tx, i.symbol, left, right))


@handles("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary_op(tx: Tx, i: Instruction) -> None:
    tx.push(unary(tx, i.opname, tx.pop()))


@handles("UNARY_NOT")
def unary_not(tx: Tx, i: Instruction) -> None:
    tx.push(ConstantVariable(not truth(tx, tx.pop())))


@handles("COMPARE_OP")
def compare_op(tx: Tx, i: Instruction) -> None:
    left, right = tx.popn(2)
    tx.push(compare(tx, i.symbol, left, right))


@handles("IS_OP")
def is_op(tx: Tx, i: Instruction) -> None:
    left, right = tx.popn(2)
    tx.push(ConstantVariable(is_same(tx, left, right) != bool(i.arg)))


@handles("CONTAINS_OP")
def contains_op(tx: Tx, i: Instruction) -> None:
    item, container = tx.popn(2)
    tx.push(ConstantVariable(contains(tx, item, container) != bool(i.arg)))
