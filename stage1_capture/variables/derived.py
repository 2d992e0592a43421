"""Objects of classes derived from dict, list, tuple, set, str or a number: what such an object holds is its `base`.

Input: a class or a real object of one. Methods that the class leaves to Python work on the base; its own are followed.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.constant import ConstantVariable
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import register
from stage_contracts.source import CallSource, ItemSource, RegisteredSource, Source

# Python's class, and what an empty one of it is: the kinds of value have rows of their own.
EMPTY: dict[type, Any] = {
    kind: (lambda kind=kind: ConstantVariable(kind())) for kind in (str, bytes, int, float, complex)
}
# Python's class, and what an object of a class derived from it holds; that of a set from outside is not followed.
HELD: dict[type, Callable[[OutputGraph, Any, Source | None, type], Variable | None]] = {
    set: lambda output, real, source, base: None
}
FIXED = (tuple, frozenset, str, bytes, int, float, complex)  # filled by `__new__`; the others by `__init__`


def python_base(cls: type) -> type | None:
    """Which class of Python's a class is derived from, if one whose contents are followed."""
    found = next((c for c in cls.__mro__ if c in EMPTY), None)
    return None if found is cls or issubclass(cls, (BaseException, type, np.generic)) else found


def blank(cls: type) -> Any:
    """A new object of the class, without contents and without running its code."""
    base = python_base(cls)
    return object.__new__(cls) if base is None else base.__new__(cls)  # type: ignore[call-overload]


def asked_of(base: type, method: str, real: Any, source: Source | None, *words: Any) -> Source | None:
    """Where guards and residual code read what `real` holds: past a method of its class's own, by Python's."""
    if source is None:
        return None
    return CallSource(RegisteredSource(register(class_lookup(base, method))), (source, *words))


def item_sources(real: Any, source: Source | None) -> Callable[[Any], Source | None]:
    """A function of `key`: `real[key]`, as Python's own class has it."""
    if source is None:
        return lambda key: None
    base = python_base(type(real))
    if base is None or not _own(type(real), "__getitem__"):
        return partial(ItemSource, source)
    return lambda key: asked_of(base, "__getitem__", real, source, key)


def _own(cls: type, name: str) -> bool:
    return isinstance(class_lookup(cls, name), types.FunctionType)


def guard_length(output: OutputGraph, real: Any, source: Source | None, length: int) -> None:
    base = python_base(type(real))
    if base is not None and _own(type(real), "__len__"):
        output.guard("EQUALS", asked_of(base, "__len__", real, source), length)
    else:
        output.guard("LENGTH", source, length)


def guard_keys(output: OutputGraph, real: Any, source: Source | None, keys: tuple) -> None:
    base = python_base(type(real))
    # tuple(real) asks for the length too
    if base is not None and any(_own(type(real), name) for name in ("__iter__", "__len__")):
        source = asked_of(base, "keys", real, source)
    output.guard("KEYS", source, keys)


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


def contents_of(output: OutputGraph, real: Any, source: Source | None) -> Variable | None:
    """What an object of a derived class holds; None where reading it would run code of its class."""
    base = python_base(type(real))
    if base is None or _own(type(real), "__getattribute__"):
        return None
    if base in HELD:
        return HELD[base](output, real, source, base)
    made = constant_of(real, base)
    plain = source and CallSource(RegisteredSource(register(PLAIN_VALUE[base])), (source,))
    output.guard("EQUALS", plain, PLAIN_VALUE[base](real))
    return made
