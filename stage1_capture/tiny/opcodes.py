"""What the instructions that CPython 3.11, 3.12 and 3.13 share do: a table from opcode name to handler.

Input: the translator calls `HANDLERS[opname](tx, instruction)`. opcodes_311.py, opcodes_312.py and opcodes_313.py
add what only their version has. Meanings are those of the `dis` module's documentation.
"""

from __future__ import annotations

from collections.abc import Callable

from stage1_capture.tiny.bytecode import Instruction
from stage1_capture.tiny.calls import call_function, iterate, make_iterator
from stage1_capture.tiny.python_ops import (
    CONVERSIONS,
    binary,
    compare,
    contains,
    format_value,
    is_same,
    store_subscript,
    subscript,
    truth,
    unary,
)
from stage1_capture.tiny.symbolic_convert import Handler, InstructionTranslator
from stage1_capture.tiny.variables import (
    NULL,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    IteratorVariable,
    ListVariable,
    SliceVariable,
    TupleVariable,
    UserFunctionVariable,
    Variable,
    from_constant,
    realize,
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


# ---- the stack -------------------------------------------------------------------------------------------------


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


# ---- names -----------------------------------------------------------------------------------------------------


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


# ---- attributes and items --------------------------------------------------------------------------------------


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


# ---- operators -------------------------------------------------------------------------------------------------


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


# ---- containers ------------------------------------------------------------------------------------------------


@handles("BUILD_TUPLE")
def build_tuple(tx: Tx, i: Instruction) -> None:
    tx.push(TupleVariable(tx.popn(i.arg)))


@handles("BUILD_LIST")
def build_list(tx: Tx, i: Instruction) -> None:
    tx.push(ListVariable(tx.popn(i.arg)))


@handles("BUILD_SLICE")
def build_slice(tx: Tx, i: Instruction) -> None:
    items = tx.popn(i.arg)
    tx.push(SliceVariable(items if len(items) == 3 else [*items, ConstantVariable(None)]))


@handles("BUILD_MAP")
def build_map(tx: Tx, i: Instruction) -> None:
    flat = tx.popn(2 * i.arg)
    keys = [tx.constant(k, "a dict's key") for k in flat[::2]]
    tx.push(ConstDictVariable(dict(zip(keys, flat[1::2]))))


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: Tx, i: Instruction) -> None:
    keys = tx.constant(tx.pop(), "a dict's keys")
    tx.push(ConstDictVariable(dict(zip(keys, tx.popn(i.arg)))))


@handles("BUILD_STRING")
def build_string(tx: Tx, i: Instruction) -> None:
    tx.push(ConstantVariable("".join(tx.constant(part, "an f-string") for part in tx.popn(i.arg))))


@handles("LIST_APPEND")
def list_append(tx: Tx, i: Instruction) -> None:
    value = tx.pop()
    tx.stack[-i.arg].items.append(value)  # type: ignore[attr-defined]


@handles("LIST_EXTEND")
def list_extend(tx: Tx, i: Instruction) -> None:
    values = iterate(tx, tx.pop())
    tx.stack[-i.arg].items.extend(values)  # type: ignore[attr-defined]


@handles("MAP_ADD")
def map_add(tx: Tx, i: Instruction) -> None:
    key, value = tx.popn(2)
    tx.stack[-i.arg].items[tx.constant(key, "a dict's key")] = value  # type: ignore[attr-defined]


@handles("DICT_UPDATE", "DICT_MERGE")
def dict_update(tx: Tx, i: Instruction) -> None:
    update, target = tx.pop(), tx.stack[-i.arg]
    if not isinstance(update, ConstDictVariable):
        tx.unsupported("GB0001", "** of something that is not a dict")
    repeated = set(update.items) & set(target.items)  # type: ignore[attr-defined]
    if i.opname == "DICT_MERGE" and repeated:
        tx.unsupported("GB0002", f"a call with the keyword {repeated.pop()!r} given twice")
    target.items.update(update.items)  # type: ignore[attr-defined]


@handles("UNPACK_SEQUENCE")
def unpack_sequence(tx: Tx, i: Instruction) -> None:
    items = iterate(tx, tx.pop())
    if len(items) != i.arg:
        tx.unsupported("GB0001", f"{len(items)} values to unpack into {i.arg} names")
    for item in reversed(items):
        tx.push(item)


@handles("UNPACK_EX")
def unpack_ex(tx: Tx, i: Instruction) -> None:
    """a, *b, c = items: the low byte counts the names before the star, the next one those after it."""
    before, after = i.arg & 0xFF, i.arg >> 8
    items = iterate(tx, tx.pop())
    if len(items) < before + after:
        tx.unsupported("GB0001", f"{len(items)} values to unpack into at least {before + after} names")
    end = len(items) - after
    for item in reversed([*items[:before], ListVariable(items[before:end]), *items[end:]]):
        tx.push(item)


# ---- control ---------------------------------------------------------------------------------------------------


@handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Tx, i: Instruction) -> None:
    tx.index = i.target


def jump_if(condition: Callable[[Tx, Variable], bool]) -> Handler:
    def handler(tx: Tx, i: Instruction) -> None:
        if condition(tx, tx.pop()):
            tx.index = i.target

    return handler


def is_none(tx: Tx, value: Variable) -> bool:
    return isinstance(value, ConstantVariable) and value.value is None


CONDITIONS: dict[str, Callable[[Tx, Variable], bool]] = {
    "TRUE": truth,
    "FALSE": lambda tx, value: not truth(tx, value),
    "NONE": is_none,
    "NOT_NONE": lambda tx, value: not is_none(tx, value),
}


@handles("GET_ITER")
def get_iter(tx: Tx, i: Instruction) -> None:
    tx.push(make_iterator(tx, tx.pop()))


def for_iter(skipped: int) -> Handler:
    """FOR_ITER. At the end it goes past its target by the `skipped` instructions that only tidy the stack."""

    def handler(tx: Tx, i: Instruction) -> None:
        iterator = tx.stack[-1]
        assert isinstance(iterator, IteratorVariable)
        item = next(iterator.iterator, None)
        if item is None:
            tx.pop()
            tx.index = i.target + skipped
        else:
            tx.push(item)

    return handler


@handles("RETURN_VALUE")
def return_value(tx: Tx, i: Instruction) -> None:
    tx.result = tx.pop()


# ---- calls -----------------------------------------------------------------------------------------------------


@handles("KW_NAMES")
def kw_names(tx: Tx, i: Instruction) -> None:
    tx.keyword_names = tx.function.code.co_consts[i.arg]


@handles("CALL")
def call_(tx: Tx, i: Instruction) -> None:
    names, tx.keyword_names = tx.keyword_names, ()
    do_call(tx, i.arg, names)


def do_call(tx: Tx, count: int, keyword_names: tuple[str, ...]) -> None:
    """Call with `count` values from the stack, the last ones by keyword. Below them: a callable, and NULL or self."""
    values = tx.popn(count)
    first, second = tx.popn(2)
    if first is NULL or second is NULL:
        function = second if first is NULL else first
    else:
        function, values = first, [second, *values]
    split = len(values) - len(keyword_names)
    tx.push(call_function(tx, function, values[:split], dict(zip(keyword_names, values[split:]))))


@handles("CALL_FUNCTION_EX")
def call_function_ex(tx: Tx, i: Instruction) -> None:
    kwargs = tx.pop() if i.arg & 1 else ConstDictVariable({})
    args = iterate(tx, tx.pop())
    first, second = tx.popn(2)
    if not isinstance(kwargs, ConstDictVariable):
        tx.unsupported("GB0001", "** of something that is not a dict")
    function = second if first is NULL else first
    tx.push(call_function(tx, function, args, {k: realize(v) for k, v in kwargs.items.items()}))


def new_function(tx: Tx, code: Variable) -> UserFunctionVariable:
    """What MAKE_FUNCTION makes of a code object, before defaults and closure."""
    assert isinstance(code, ConstantVariable)
    made = tx.function
    return UserFunctionVariable(
        code.value, made.globals, code.value.co_name, [], {}, [], globals_source=made.globals_source
    )


# Bits of MAKE_FUNCTION's argument, and SET_FUNCTION_ATTRIBUTE's: what each attribute's value sets. Annotations (4)
# and whatever else is ignored: a function made inside is only ever called.
def set_function_attribute(function: UserFunctionVariable, flag: int, value: Variable) -> None:
    match flag, value:
        case 1, TupleVariable(items=items):
            function.defaults = items
        case 2, ConstDictVariable(items=items):
            function.kwdefaults = items
        case 8, TupleVariable(items=items):
            function.closure = items  # type: ignore[assignment]


def make_function(tx: Tx, i: Instruction) -> None:
    """MAKE_FUNCTION up to 3.12: the attributes lie on the stack below the code, lowest bit deepest."""
    function = new_function(tx, tx.pop())
    for flag in (8, 4, 2, 1):
        if i.arg & flag:
            set_function_attribute(function, flag, tx.pop())
    tx.push(function)


def list_to_tuple(tx: Tx, i: Instruction) -> None:
    made = tx.pop()
    assert isinstance(made, ListVariable)
    tx.push(TupleVariable(made.items))


def format_value_(tx: Tx, i: Instruction) -> None:
    """FORMAT_VALUE up to 3.12: two bits say which conversion (!s, !r, !a), the third that a format follows."""
    spec = tx.constant(tx.pop(), "an f-string") if i.arg & 4 else ""
    tx.push(format_value(tx, tx.pop(), CONVERSIONS[i.arg & 3], spec))
