"""Builtins that call a special method for you (`str`, `getattr`, `iter`, `int`), run in Python after a break.

Input: the arguments of such a call, or the operands of an instruction that does the same (`for`, f-strings, unpacking).
The special method is called through `compiled`, as in breaks/special_methods.py. Python's own function then checks its
result.
"""

from __future__ import annotations

import builtins
import operator
import types
from typing import Any

from stage1_capture.breaks.special_methods import (
    ROWS,
    TRUTH,
    Compiled,
    Row,
    by_method,
    call_found,
    get_attribute,
    length,
    method_stub,
    named,
    no_detail,
    python_method,
    set_attribute,
)
from stage1_capture.frame.bytecode import Instruction
from stage1_capture.variables.base import Variable
from stage_contracts.class_lookup import class_lookup


def iterator(compiled: Compiled, _: Any, value: Any) -> Any:
    method = python_method(value, "__iter__")
    return iter(method_stub("__iter__", call_found(compiled, method, value)) if method else value)


def walked(compiled: Compiled, _: Any, value: Any) -> Any:
    """A value to iterate over, as Python would: `__iter__` is called once, and `__len__` where Python wants a hint."""
    if python_method(value, "__iter__") is None:
        return value
    asked = {
        "__iter__": lambda _: iterator(compiled, None, value),
        "__length_hint__": lambda _: operator.length_hint(value),
    }
    return type(type(value).__name__, (), asked)()


def over_items(compiled: Compiled, function: str, value: Any) -> Any:
    return getattr(builtins, function)(walked(compiled, None, value))


def text(compiled: Compiled, function: str, value: Any) -> str:
    """str(value) or repr(value); without a `__str__` of its own the first asks `__repr__`."""
    own = function == "str" and class_lookup(type(value), "__str__") is not object.__str__
    name = "__str__" if own else "__repr__"
    method = python_method(value, name)
    shown = method_stub(name, call_found(compiled, method, value)) if method else value
    return getattr(builtins, function)(shown)


_CONVERSIONS = (None, "str", "repr", "ascii")


def formatted(compiled: Compiled, conversion: int, value: Any, spec: str = "") -> str:
    """One {...} of an f-string, and format(value, spec)."""
    convert = _CONVERSIONS[conversion]
    if convert is not None:
        value = text(compiled, convert, value)
    method = python_method(value, "__format__")
    if method is not None:
        value = method_stub("__format__", call_found(compiled, method, value, spec))
    elif not spec and class_lookup(type(value), "__format__") is object.__format__:
        return text(compiled, "str", value)
    return format(value, spec)


def get_named(compiled: Compiled, _: Any, value: Any, name: Any, *default: Any) -> Any:
    """getattr(value, name), getattr(value, name, default)."""
    if type(name) is not str:
        return getattr(value, name, *default)
    try:
        return get_attribute(compiled, name, value)
    except AttributeError:
        if default:
            return default[0]
        raise


def has_named(compiled: Compiled, _: Any, value: Any, name: Any) -> bool:
    nothing = object()
    return get_named(compiled, None, value, name, nothing) is not nothing


def set_named(compiled: Compiled, _: Any, value: Any, name: Any, content: Any) -> None:
    """setattr(value, name, content)."""
    if type(name) is not str:
        setattr(value, name, content)
    else:
        set_attribute(compiled, name, content, value)


def number(compiled: Compiled, function: str, value: Any) -> Any:
    """int(value), hash(value): the result of the special method, which Python checks."""
    name, ask = f"__{function}__", getattr(builtins, function)
    method = python_method(value, name)
    if method is None:
        return ask(value)
    return ask(method_stub(name, call_found(compiled, method, value), type(value).__name__))


def direct(compiled: Compiled, function: str, value: Any) -> Any:
    """abs(value), next(value): the result of the special method as it is."""
    return by_method(compiled, f"__{function}__", getattr(builtins, function), value)


# ---- the tables ------------------------------------------------------------------------------------------

_TEXT = named("__str__", "__repr__")
_FORMAT = named("__format__", "__str__", "__repr__")


def _rows(run: Any, names: Any, *functions: Any) -> dict[tuple[Any, int], Row]:
    return {(f, 1): Row(1, run, lambda _, word=f.__name__: word, names(f)) for f in functions}  # type: ignore[misc]


def _own(function: Any) -> Any:
    return named(f"__{function.__name__}__")


# The function and how many arguments it is given, all of them by place.
FUNCTIONS: dict[tuple[Any, int], Row] = {
    (len, 1): Row(1, length, no_detail, named("__len__")),
    (bool, 1): TRUTH,
    (iter, 1): Row(1, iterator, no_detail, named("__iter__")),
    **_rows(over_items, lambda _: named("__iter__"), list, tuple, set, sum, any, all, sorted, min, max, enumerate),
    **_rows(text, lambda _: _TEXT, str, repr),
    (format, 1): Row(1, formatted, lambda _: 0, _FORMAT),
    (format, 2): Row(2, formatted, lambda _: 0, _FORMAT),
    (getattr, 2): Row(2, get_named, no_detail, named("__getattr__")),
    (getattr, 3): Row(3, get_named, no_detail, named("__getattr__")),
    (hasattr, 2): Row(2, has_named, no_detail, named("__getattr__")),
    (setattr, 3): Row(3, set_named, no_detail, named("__setattr__")),
    **_rows(number, _own, int, float, complex, hash),
    **_rows(direct, _own, abs, next, reversed, round),
}  # fmt: skip
_NAMING = (getattr, hasattr, setattr)  # a property under that name is reached too

_FORMATTED = Row(1, formatted, lambda i: i.arg & 3, _FORMAT)
ROWS["GET_ITER"] = Row(1, iterator, no_detail, named("__iter__"))
ROWS["FORMAT_VALUE"] = _FORMATTED
ROWS["CONVERT_VALUE"] = Row(1, text, lambda i: _CONVERSIONS[i.arg], _TEXT)
ROWS["FORMAT_SIMPLE"] = Row(1, formatted, lambda _: 0, _FORMAT)
ROWS["FORMAT_WITH_SPEC"] = Row(2, formatted, lambda _: 0, _FORMAT)


def row_of(instruction: Instruction) -> Row | None:
    """How an instruction is called, if it may reach a method."""
    name = instruction.opname
    if name.startswith("POP_JUMP_") and "NONE" not in name:
        return TRUTH
    if name == "FORMAT_VALUE" and instruction.arg & 4:
        return Row(2, formatted, lambda i: i.arg & 3, _FORMAT)
    if name in ("UNPACK_SEQUENCE", "UNPACK_EX"):
        return Row(1, walked, no_detail, named("__iter__"), ((name, instruction.arg),))
    return ROWS.get(name)


def row_of_call(called: Any, instruction: Instruction, arguments: list[Variable]) -> Row | None:
    """The same of a call whose arguments are all given by place."""
    if instruction.opname != "CALL" or type(called) not in (type, types.BuiltinFunctionType):
        return None
    row = FUNCTIONS.get((called, len(arguments)))
    word = getattr(arguments[1], "value", None) if called in _NAMING else None
    if row is not None and type(word) is str:
        return Row(row.operands, row.run, row.detail, lambda detail: (word, *row.names(detail)))
    return row
