"""Instructions that reach a user-defined method and run in Python after a break: that method is compiled on its own.

Input: the instruction a frame broke at, and its operands. The break function calls a function of this file in its
place: Python's own search for the method, and what it finds called through `compiled`. What the search cannot be
sure of (classes of C's) it leaves to Python. The order of the searches is that of CPython's typeobject.c and object.c.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage1_capture.frame.bytecode import VERSION, Instruction
from stage1_capture.state.graph_builder import is_users
from stage1_capture.variables.arithmetic import BINARY, COMPARISONS, derives, turns
from stage1_capture.variables.base import Variable
from stage1_capture.variables.function import InstructionVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup, made_by_python

Compiled = Callable[[Any], Any]

_NUMBERS = (int, float, complex, bool, type(None))  # of C's: their methods are what their operators do


# ---- what runs in place of the instruction -----------------------------------------------------------


def call_found(compiled: Compiled, method: Any, receiver: Any, *args: Any) -> Any:
    """A method that was found on the receiver's class. A user-defined one is compiled."""
    if type(method) is types.FunctionType:
        return (compiled(method) if is_users(method.__globals__) else method)(receiver, *args)
    if isinstance(method, types.WrapperDescriptorType):  # of C's; of None its `__get__` would bind nothing
        return method(receiver, *args)
    get = class_lookup(type(method), "__get__")
    return (method if get is MISSING else get(method, receiver, type(receiver)))(*args)


def python_method(value: Any, name: str) -> Any:
    """The function of Python's that the class has under the name, else None."""
    found = class_lookup(type(value), name)
    return found if type(found) is types.FunctionType else None


def by_method(compiled: Compiled, name: str, plain: Callable[..., Any], receiver: Any, *args: Any) -> Any:
    """What a method of Python's gives, compiled; what `plain` gives where the class has none."""
    method = python_method(receiver, name)
    return call_found(compiled, method, receiver, *args) if method else plain(receiver, *args)


def get_attribute(compiled: Compiled, name: str, value: Any) -> Any:
    """value.name: a property's getter, then `__getattr__`."""
    cls = type(value)
    if class_lookup(cls, "__getattribute__") is not object.__getattribute__:
        return getattr(value, name)
    computed = class_lookup(cls, "__getattr__")
    found = class_lookup(cls, name)
    try:
        try:
            if type(found) is property and type(found.fget) is types.FunctionType:
                return call_found(compiled, found.fget, value)
            return object.__getattribute__(value, name)
        except AttributeError:
            if computed is MISSING:
                raise
        return call_found(compiled, computed, value, name)
    except AttributeError as error:
        if error.name is None and error.obj is None:  # as Python tells it what was asked of whom
            error.name, error.obj = name, value
        raise


def set_attribute(compiled: Compiled, name: str, content: Any, value: Any) -> None:
    """value.name = content: `__setattr__`, or a property's setter."""
    own = class_lookup(type(value), "__setattr__")
    found = class_lookup(type(value), name)
    if type(own) is types.FunctionType:
        call_found(compiled, own, value, name, content)
    elif own is object.__setattr__ and type(found) is property and type(found.fset) is types.FunctionType:
        call_found(compiled, found.fset, value, content)
    else:
        setattr(value, name, content)


def get_item(compiled: Compiled, _: Any, container: Any, key: Any) -> Any:
    return by_method(compiled, "__getitem__", operator.getitem, container, key)


def set_item(compiled: Compiled, _: Any, content: Any, container: Any, key: Any) -> None:
    by_method(compiled, "__setitem__", operator.setitem, container, key, content)


def get_slice(compiled: Compiled, _: Any, container: Any, start: Any, stop: Any) -> Any:
    return get_item(compiled, None, container, slice(start, stop))


def set_slice(compiled: Compiled, _: Any, content: Any, container: Any, start: Any, stop: Any) -> None:
    set_item(compiled, None, content, container, slice(start, stop))


def delete_item(compiled: Compiled, _: Any, container: Any, key: Any) -> None:
    by_method(compiled, "__delitem__", operator.delitem, container, key)


def contains(compiled: Compiled, negated: int, item: Any, container: Any) -> bool:
    return bool(by_method(compiled, "__contains__", operator.contains, container, item)) != bool(negated)


def unary(compiled: Compiled, detail: tuple[str, str], value: Any) -> Any:
    name, method_name = detail
    return by_method(compiled, method_name, getattr(operator, name), value)


def truth(compiled: Compiled, negated: bool, value: Any) -> bool:
    """bool(value): by `__bool__`, else by `__len__`. Python itself checks what they return."""
    for name in ("__bool__", "__len__"):
        if class_lookup(type(value), name) is not MISSING:
            method = python_method(value, name)
            value = method_stub(name, call_found(compiled, method, value)) if method else value
            break
    return bool(value) is not negated


def length(compiled: Compiled, _: Any, value: Any) -> int:
    method = python_method(value, "__len__")
    return len(method_stub("__len__", call_found(compiled, method, value)) if method else value)


def method_stub(name: str, result: Any, kind: str = "stub") -> Any:
    """An object of a class called `kind` whose method returns this, for Python to check."""
    return type(kind, (), {name: lambda *_: result})()


def enter(compiled: Compiled, _: Any, manager: Any) -> tuple[Any, Any]:
    """What `__enter__` returns, and the method that leaves the block."""
    begin, end = (class_lookup(type(manager), name) for name in ("__enter__", "__exit__"))
    if MISSING in (begin, end):
        with manager:  # Python says what is missing
            pass
    get = class_lookup(type(end), "__get__")
    leave = end if get is MISSING else get(end, manager, type(manager))
    return call_found(compiled, begin, manager), leave


def binary(compiled: Compiled, symbol: str, left: Any, right: Any) -> Any:
    """left + right or left += right, by the methods of both in Python's order."""
    in_place = symbol.endswith("=")
    function, name = BINARY[symbol.removesuffix("=")]
    if in_place:
        function = getattr(operator, f"i{name}")
    if not all(_by_methods(v, f"__{name}__", f"__r{name}__", f"__i{name}__") for v in (left, right)):
        return function(left, right)
    order = turns(type(left), type(right), name, in_place)
    tries = [(left, own, right) if is_left else (right, own, left) for is_left, own in order]
    result = _first_answer(compiled, tries)
    return function(_blank(left), _blank(right)) if result is NotImplemented else result


def compare(compiled: Compiled, detail: tuple[str, bool], left: Any, right: Any) -> Any:
    """left < right, by the methods of both in Python's order."""
    symbol, as_bool = detail
    function, own, reflected = COMPARISONS[symbol]
    if not all(_by_methods(v, own, reflected) for v in (left, right)):
        result = function(left, right)
    else:
        there, back = (left, own, right), (right, reflected, left)
        right_first = derives(type(left), type(right))
        result = _first_answer(compiled, [back, there] if right_first else [there, back])
    if result is NotImplemented:
        if symbol in ("==", "!="):
            result = (left is right) == (symbol == "==")
        else:
            result = function(_blank(left), _blank(right))
    return bool(result) if as_bool else result


def _first_answer(compiled: Compiled, tries: list[tuple[Any, str, Any]]) -> Any:
    for receiver, name, other in tries:
        method = class_lookup(type(receiver), name)
        result = NotImplemented if method is MISSING else call_found(compiled, method, receiver, other)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _by_methods(value: Any, *names: str) -> bool:
    """Whether Python would call only these methods of a value."""
    cls = type(value)
    if cls in _NUMBERS:
        return True
    found = [(name, class_lookup(cls, name)) for name in names]
    return all(made_by_python(c) for c in cls.__mro__[:-1]) and not any(
        isinstance(f, types.WrapperDescriptorType) and f is not object.__dict__.get(name) for name, f in found
    )


def _blank(value: Any) -> Any:
    """A value that shows only the name of its class: for the message where no method takes the operands."""
    return type(type(value).__name__, (), {})()


# ---- which instructions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """An instruction as a call: how many operands, the function, what it is told beside them, whose methods
    (names, from what it is told) must be the user's for it, and what is left to do with the result."""

    operands: int
    run: Callable[..., Any]
    detail: Callable[[Instruction], Any]
    names: Callable[[Any], tuple[str, ...]]
    behind: tuple[tuple[str, int | None], ...] = ()


_DROP = (("POP_TOP", None),)


def no_detail(_: Instruction) -> None:
    return None


def named(*names: str) -> Callable[[Any], tuple[str, ...]]:
    return lambda _: names


TRUTH = Row(1, truth, lambda _: False, named("__bool__", "__len__"))
ROWS: dict[str, Row] = {
    "LOAD_ATTR": Row(1, get_attribute, lambda i: i.argval, lambda name: (name, "__getattr__")),
    "STORE_ATTR": Row(2, set_attribute, lambda i: i.argval, lambda name: (name, "__setattr__"), _DROP),
    "BINARY_SUBSCR": Row(2, get_item, no_detail, named("__getitem__")),
    "BINARY_SLICE": Row(3, get_slice, no_detail, named("__getitem__")),
    "STORE_SLICE": Row(4, set_slice, no_detail, named("__setitem__"), _DROP),
    "STORE_SUBSCR": Row(3, set_item, no_detail, named("__setitem__"), _DROP),
    "DELETE_SUBSCR": Row(2, delete_item, no_detail, named("__delitem__"), _DROP),
    "CONTAINS_OP": Row(2, contains, lambda i: i.arg, named("__contains__")),
    "BINARY_OP": Row(
        2,
        binary,
        lambda i: i.symbol,
        lambda symbol: tuple(f"__{way}{BINARY[symbol.removesuffix('=')][1]}__" for way in ("", "r", "i")),
    ),
    "COMPARE_OP": Row(
        2,
        compare,
        lambda i: (i.symbol, VERSION >= (3, 13) and bool(i.arg & 16)),
        lambda detail: (*COMPARISONS[detail[0]][1:], "__eq__"),
    ),
    "UNARY_NEGATIVE": Row(1, unary, lambda _: ("neg", "__neg__"), named("__neg__")),
    "UNARY_INVERT": Row(1, unary, lambda _: ("invert", "__invert__"), named("__invert__")),
    "UNARY_NOT": Row(1, truth, lambda _: True, named("__bool__", "__len__")),
    "TO_BOOL": TRUTH,
    "BEFORE_WITH": Row(1, enter, no_detail, named("__enter__"), (("UNPACK_SEQUENCE", 2),)),
}
ROWS["LOAD_METHOD"] = ROWS["LOAD_ATTR"]


def reaching(row: Row, instruction: Instruction, operands: list[Variable]) -> InstructionVariable | None:
    """What to call in place of the instruction; None where it reaches no user-defined method."""
    detail = row.detail(instruction)
    reached = any(_reaches(v, name) for v in operands for name in row.names(detail))
    return InstructionVariable(row.run, detail) if reached else None


def _reaches(value: Variable, name: str) -> bool:
    if not isinstance(value, UserDefinedObjectVariable) or isinstance(value.real, (type, types.ModuleType)):
        return False
    found = class_lookup(type(value.real), name)
    if type(found) is property:
        return any(_is_users(f) for f in (found.fget, found.fset))
    return name.startswith("__") and _is_users(found)


def _is_users(function: Any) -> bool:
    return type(function) is types.FunctionType and is_users(function.__globals__)
