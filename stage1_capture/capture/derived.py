"""Objects of classes derived from dict, list, tuple, set, str or a number: what such an object holds is its `base`.

Input: a class or a real object of one. Methods that the class leaves to Python work on the base; its own are followed.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

from stage1_capture.capture.mro import class_lookup
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    DefaultDictVariable,
    DequeVariable,
    ListVariable,
    SetVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    from_constant,
)

# Python's class, and what an empty one of it is.
EMPTY: dict[type, Any] = {
    OrderedDict: lambda: ConstDictVariable({}, OrderedDict),
    defaultdict: lambda: DefaultDictVariable({}, defaultdict),
    dict: lambda: ConstDictVariable({}),
    deque: lambda: DequeVariable([]),
    list: lambda: ListVariable([]),
    set: lambda: SetVariable(set()),
    frozenset: lambda: SetVariable(set(), frozenset),
    tuple: lambda: TupleVariable([]),
    **{kind: (lambda kind=kind: ConstantVariable(kind())) for kind in (str, bytes, int, float, complex)},
}
FIXED = (tuple, frozenset, str, bytes, int, float, complex)  # filled by `__new__`; the others by `__init__`
# What guards and residual code do to such an object, which must not run code of its class.
_ASKED = ("__getitem__", "__iter__", "__len__", "__getattribute__")


def python_base(cls: type) -> type | None:
    """Which class of Python's a class is derived from, if one whose contents are followed."""
    found = next((c for c in cls.__mro__ if c in EMPTY), None)
    return None if found is cls or issubclass(cls, (BaseException, type)) else found


def blank(cls: type) -> Any:
    """A new object of the class, without contents and without running its code."""
    base = python_base(cls)
    return object.__new__(cls) if base is None else base.__new__(cls)  # type: ignore[call-overload]


def plainly_read(cls: type) -> bool:
    """Whether the contents of an object from outside are read without running code of its class."""
    asked = (*_ASKED, "__eq__") if issubclass(cls, FIXED) else _ASKED
    return not any(isinstance(class_lookup(cls, name), types.FunctionType) for name in asked)


def unwrapped(value: Variable) -> Variable:
    """What a value holds, for an object of a derived class; else the value."""
    base = value.base if isinstance(value, UserDefinedObjectVariable) else None
    return value if base is None else base


# What an object of a derived class is as one of Python's, past any `__str__` or `__int__` of its own.
PLAIN_VALUE: dict[type, Any] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    bytes: lambda real: bytes.__getitem__(real, slice(None)),
    frozenset: frozenset.copy,
}


def constant_of(real: Any, base: type) -> Variable:
    """The contents of an object derived from a string, a number or a frozenset, as the constant they are."""
    return from_constant(PLAIN_VALUE[base](real))
