"""What the instructions that CPython 3.11, 3.12 and 3.13 share do: a table from opcode name to handler.

Input: the translator calls `HANDLERS[opname](tx, instruction)`. frame/opcodes/v311.py, frame/opcodes/v312.py and
frame/opcodes/v313.py add what only their version has. Meanings are those of the `dis` module's documentation.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from stage1_capture.frame.bytecode import VERSION, Instruction
from stage1_capture.frame.translator import Handler, InstructionTranslator, unassigned
from stage1_capture.state.graph_builder import is_library
from stage1_capture.state.side_effects import DELETED
from stage1_capture.variables.arithmetic import UNARY, binary, compare, unary
from stage1_capture.variables.base import (
    NULL,
    LazyVariable,
    Variable,
    from_constant,
    is_same,
    load_attribute,
    realize,
)
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import CellVariable
from stage1_capture.variables.store import delete_attribute
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.controls import OWN_IMPORTS, register
from stage_contracts.source import ItemSource, RegisteredSource

Tx = InstructionTranslator
HANDLERS: dict[str, Handler] = {}


def handles(*names: str, table: dict[str, Handler] = HANDLERS) -> Callable[[Handler], Handler]:
    """Decorator: enter a handler under its opcodes' names."""

    def enter(handler: Handler) -> Handler:
        table.update(dict.fromkeys(names, handler))
        return handler

    return enter


def operations(rows: dict[str, tuple[int, Callable[..., Any]]], table: dict[str, Handler] = HANDLERS) -> None:
    """Enter instructions that only compute: how many values each takes from the stack, and what is pushed of them
    (None: nothing)."""
    table.update({name: partial(operation, *row) for name, row in rows.items()})


def operation(count: int, compute: Callable[..., Any], tx: Tx, i: Instruction) -> None:
    stack = tx.stack
    if count:
        values = stack[-count:]
        del stack[-count:]
        made = compute(tx, i, *values)
    else:
        made = compute(tx, i)
    if made is not None:
        tx.stack.append(realize(made) if type(made) is LazyVariable else made)


def known(answer: object) -> Variable:
    return ConstantVariable(bool(answer))


@handles("NOP", "RESUME", "COPY_FREE_VARS")
def nothing(tx: Tx, i: Instruction) -> None:
    pass


# ---- the stack -----------------------------------------------------------------------------------


@handles("POP_TOP")
def pop_top(tx: Tx, i: Instruction) -> None:
    let_go(tx, tx.stack[-1])
    tx.pop()


def let_go(tx: Tx, value: Variable | None) -> None:
    """Dropping a generator from outside, as a `break` out of its loop does, ends it now and not later. So does the
    `__del__` of an object."""
    real = getattr(value, "real", None)
    if isinstance(real, types.GeneratorType):
        tx.unsupported("GB0010", "a generator from outside is dropped")
    if real is not None and not isinstance(real, type) and class_lookup(type(real), "__del__") is not MISSING:
        tx.unsupported("GB0054", f"an object of class {type(real).__name__}, which has a __del__, is dropped")


@handles("SWAP")
def swap(tx: Tx, i: Instruction) -> None:
    tx.stack[-1], tx.stack[-i.arg] = tx.stack[-i.arg], tx.stack[-1]


# ---- names ---------------------------------------------------------------------------------------


@handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(tx: Tx, i: Instruction) -> None:
    load_local(tx, i.argval)


def load_local(tx: Tx, name: str) -> None:
    value = tx.locals.get(name)
    if value is None:
        tx.throw(UnboundLocalError, unassigned(name))
    tx.stack.append(realize(value) if type(value) is LazyVariable else value)


@handles("STORE_FAST")
def store_fast(tx: Tx, i: Instruction) -> None:
    store_local(tx, i.argval)


def store_local(tx: Tx, name: str) -> None:
    """Storing NULL, which LOAD_FAST_AND_CLEAR found, unbinds the name again."""
    value = tx.pop()
    if value is NULL:
        tx.locals.pop(name, None)
    else:
        if tx.locals.get(name) is not value:
            let_go(tx, tx.locals.get(name))
        tx.locals[name] = value


@handles("DELETE_FAST")
def delete_fast(tx: Tx, i: Instruction) -> None:
    if i.argval not in tx.locals:
        tx.throw(UnboundLocalError, unassigned(i.argval))
    let_go(tx, tx.locals[i.argval])
    del tx.locals[i.argval]


@handles("LOAD_GLOBAL")
def load_global(tx: Tx, i: Instruction) -> None:
    push_callable(tx, tx.load_global(i.argval), bool(i.arg & 1))


def push_callable(tx: Tx, value: Variable, with_null: bool) -> None:
    """Push a value, and a NULL where the instruction asks for one: before it up to 3.12, after it in 3.13."""
    if with_null and VERSION < (3, 13):
        tx.push(NULL)
    tx.push(value)
    if with_null and VERSION >= (3, 13):
        tx.push(NULL)


@handles("STORE_GLOBAL")
def store_global(tx: Tx, i: Instruction) -> None:
    if is_library(tx.function.globals):
        tx.unsupported("GB0092", "a change of the library's own state")
    tx.output.store_global(tx.function.globals, i.argval, tx.pop())


@handles("DELETE_GLOBAL")
def delete_global(tx: Tx, i: Instruction) -> None:
    tx.load_global(i.argval)
    tx.output.store_global(tx.function.globals, i.argval, DELETED)


@handles("MAKE_CELL")
def make_cell(tx: Tx, i: Instruction) -> None:
    tx.locals[i.argval] = CellVariable(tx.locals.get(i.argval))


@handles("STORE_DEREF")
def store_deref(tx: Tx, i: Instruction) -> None:
    cell = tx.cell(i.argval)
    tx.output.will_change(cell)
    cell.contents = tx.pop()


@handles("DELETE_DEREF")
def delete_deref(tx: Tx, i: Instruction) -> None:
    tx.load_cell(i.argval)
    cell = tx.cell(i.argval)
    tx.output.will_change(cell)
    cell.contents = None


# ---- attributes and imports ----------------------------------------------------------------------


@handles("DELETE_ATTR")
def delete_attr(tx: Tx, i: Instruction) -> None:
    delete_attribute(tx, tx.pop(), i.argval)


@handles("IMPORT_NAME")
def import_name(tx: Tx, i: Instruction) -> None:
    """A module that is loaded already; another one is loaded by Python, which may run anything."""
    level, names = tx.popn(2)
    package = tx.function.globals.get("__package__") or ""
    depth = tx.constant(level, "an import")
    name = i.argval if not depth else importlib.util.resolve_name("." * depth + i.argval, package)
    asked = tx.constant(names, "an import")
    loaded = _loaded_for(tx.function.globals, name)
    if loaded is None:
        tx.unsupported("GB0055", f"an import of {name} by an __import__ of the module's own")
    found = loaded.get(name if asked else name.partition(".")[0])
    if found is None or name not in loaded or (asked and not all(hasattr(found, n) for n in asked)):
        tx.unsupported("GB0055", f"an import of {name}, which is not loaded yet")
    source = RegisteredSource(register(loaded))
    tx.push(wrap(tx.output, found, ItemSource(source, found.__name__)))


def _loaded_for(names: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The modules among which an import by a module's functions finds `name`; None if only Python knows."""
    found = names.get("__builtins__", builtins)  # a dict, or the module `builtins`
    importer = found.get("__import__") if isinstance(found, dict) else found.__import__
    if importer is builtins.__import__:
        return sys.modules
    given = OWN_IMPORTS.get(importer)
    return given and (given if name.partition(".")[0] in given else sys.modules)


operations(
    {
        "LOAD_CONST": (0, lambda tx, i: from_constant(i.argval)),
        "LOAD_DEREF": (0, lambda tx, i: tx.load_cell(i.argval)),
        "PUSH_NULL": (0, lambda tx, i: NULL),
        "COPY": (0, lambda tx, i: tx.stack[-i.arg]),
        "IMPORT_FROM": (0, lambda tx, i: load_attribute(tx, tx.stack[-1], i.argval)),
        "STORE_ATTR": (2, lambda tx, i, value, target: target.store_attribute(tx, i.argval, value)),
        "BINARY_SUBSCR": (2, lambda tx, i, container, key: container.subscript(tx, key)),
        "STORE_SUBSCR": (3, lambda tx, i, value, container, key: container.store_subscript(tx, key, value)),
        "DELETE_SUBSCR": (2, lambda tx, i, container, key: container.delete_subscript(tx, key)),
        "BINARY_OP": (2, lambda tx, i, left, right: binary(tx, i.symbol, left, right)),
        "COMPARE_OP": (2, lambda tx, i, left, right: compare(tx, i.symbol, left, right)),
        "IS_OP": (2, lambda tx, i, left, right: known(is_same(tx, left, right) != bool(i.arg))),
        "CONTAINS_OP": (2, lambda tx, i, item, container: known(container.contains(tx, item) != bool(i.arg))),
        "UNARY_NOT": (1, lambda tx, i, value: known(not value.truth(tx))),
        **dict.fromkeys(UNARY, (1, lambda tx, i, value: unary(tx, i.opname, value))),
    }
)
