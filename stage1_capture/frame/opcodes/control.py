"""Jumps, loops, calls and function objects: the rest of the instructions that all versions share.

Input: these enter the table of frame/opcodes/shared.py. What differs between versions only in its stack effects is
written here once and entered by frame/opcodes/v311.py, frame/opcodes/v312.py and frame/opcodes/v313.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from stage1_capture.builtins.python import as_mapping
from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles, operations
from stage1_capture.variables.base import NULL, Variable, iterate, realize
from stage1_capture.variables.formatting import CONVERSIONS, format_value
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.operators import UNKNOWN
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Tx, i: Instruction) -> None:
    tx.index = i.target


def jump_if(name: str, tx: Tx, i: Instruction) -> None:
    value = tx.pop()
    message = asserted_at(tx, i, name)
    if message is not None and UNKNOWN["can_be_asserted"](value):
        UNKNOWN["asserted"](tx, value, message)
        if name == "TRUE":
            tx.index = i.target
    elif CONDITIONS[name](tx, value):
        tx.index = i.target


def asserted_at(tx: Tx, i: Instruction, name: str) -> str | None:
    """The message of the assert statement whose condition this branch takes, "" where it has none. None: no assert.

    One that has to be computed (an f-string) is not: the source of the condition stands for it.
    """
    failed = tx.index if name == "TRUE" else i.target if name == "FALSE" else len(tx.program)
    while tx.program[failed : failed + 1] and tx.program[failed].opname in ("POP_TOP", "JUMP_FORWARD"):
        jumps = tx.program[failed].opname == "JUMP_FORWARD"  # as a chain of comparisons ends
        failed = tx.program[failed].target if jumps else failed + 1
    words = [w for w in tx.program[failed : failed + 5] if w.opname != "PRECALL"]
    names = [w.opname for w in words]
    if names[:1] != ["LOAD_ASSERTION_ERROR"]:
        return None
    if names[1:2] == ["RAISE_VARARGS"]:
        return ""
    said = names[1:4] == ["LOAD_CONST", "CALL", "RAISE_VARARGS"] and type(words[1].argval) is str
    return words[1].argval if said else i.origin.text


def left_to_assert(tx: Tx, value: Variable) -> bool:
    """Whether the next instruction is the branch of an assert, which takes the value as it is."""
    i = tx.program[tx.index]
    name = i.opname.rpartition("_IF_")[2]
    if not i.opname.startswith("POP_JUMP") or name not in ("TRUE", "FALSE"):
        return False
    tx.index += 1  # where the branch would be seen from
    message = asserted_at(tx, i, name)
    tx.index -= 1
    return message is not None and UNKNOWN["can_be_asserted"](value)


CONDITIONS: dict[str, Callable[[Tx, Variable], bool]] = {
    "TRUE": lambda tx, value: value.truth(tx),
    "FALSE": lambda tx, value: not value.truth(tx),
    "NONE": lambda tx, value: value.is_none(),
    "NOT_NONE": lambda tx, value: not value.is_none(),
}


def for_iter(skipped: int, tx: Tx, i: Instruction) -> None:
    """FOR_ITER. At the end it goes past its target by the `skipped` instructions that only tidy the stack."""
    item = tx.stack[-1].next_variable(tx)
    if item is None:
        tx.pop()
        tx.index = i.target + skipped
    else:
        tx.push(item)


@handles("RETURN_VALUE")
def return_value(tx: Tx, i: Instruction) -> None:
    tx.result = tx.pop()


operations({"LOAD_BUILD_CLASS": (0, lambda tx, i: UserDefinedObjectVariable(builtins.__build_class__))})


@handles("KW_NAMES")
def kw_names(tx: Tx, i: Instruction) -> None:
    tx.keyword_names = tx.function.code.co_consts[i.arg]


@handles("CALL")
def call_(tx: Tx, i: Instruction) -> None:
    names, tx.keyword_names = tx.keyword_names, ()
    do_call(tx, i.arg, names)


def do_call(tx: Tx, count: int, keyword_names: tuple[str, ...]) -> None:
    """Call with `count` values, the last ones by keyword. Below them: a callable, and NULL or self."""
    values = tx.popn(count)
    first, second = tx.popn(2)
    if first is NULL or second is NULL:
        function = second if first is NULL else first
    else:
        function, values = first, [second, *values]
    split = len(values) - len(keyword_names)
    tx.push(tx.call(function, values[:split], dict(zip(keyword_names, values[split:]))))


@handles("CALL_FUNCTION_EX")
def call_function_ex(tx: Tx, i: Instruction) -> None:
    kwargs = tx.pop() if i.arg & 1 else ConstDictVariable({})
    args = iterate(tx, tx.pop())
    first, second = tx.popn(2)
    entries = as_mapping(tx, kwargs)
    if entries is None:
        tx.unsupported("GB0042", "** of something that is not a dict")
    function = second if first is NULL else first
    tx.push(tx.call(function, args, {k: realize(v) for k, v in entries.items()}))


def new_function(tx: Tx, code: Variable) -> UserFunctionVariable:
    """What MAKE_FUNCTION makes of a code object, before defaults and closure."""
    made = tx.function
    return UserFunctionVariable(
        code.value, made.globals, code.value.co_name, [], {}, [], globals_source=made.globals_source
    )


def set_function_attribute(function: UserFunctionVariable, flag: int, value: Variable) -> None:
    """What one bit of MAKE_FUNCTION's (from 3.13 on SET_FUNCTION_ATTRIBUTE's) argument sets."""
    match flag, value:
        case 1, TupleVariable(items=items):
            function.defaults = items
        case 2, ConstDictVariable(items=items):
            function.kwdefaults = items
        case 4, TupleVariable(items=items):
            names = [v.value for v in map(realize, items[::2]) if v.is_python_constant()]
            function.annotations = dict(zip(names, items[1::2]))
        case 8, TupleVariable(items=items):
            function.closure = items  # type: ignore[assignment]


def make_function(tx: Tx, i: Instruction) -> None:
    """MAKE_FUNCTION up to 3.12: the attributes lie on the stack below the code, lowest bit deepest."""
    function = new_function(tx, tx.pop())
    for flag in (8, 4, 2, 1):
        if i.arg & flag:
            set_function_attribute(function, flag, tx.pop())
    tx.push(function)


def format_value_(tx: Tx, i: Instruction) -> None:
    """FORMAT_VALUE up to 3.12: two bits give the conversion (!s, !r, !a), a third that a format follows."""
    spec = tx.constant(tx.pop(), "an f-string") if i.arg & 4 else ""
    tx.push(format_value(tx, tx.pop(), CONVERSIONS[i.arg & 3], spec))
