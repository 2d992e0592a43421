"""Looking a name up in a class and its bases, as Python does, without asking any descriptor.

Input: a real class.
"""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

MISSING = object()
MADE_INSIDE = (
    "<made inside>"  # where the prototype of a class that the program defines has its abstract value
)


def class_lookup(cls: type, name: str) -> Any:
    """What the class or a base of it has under `name`, unbound; MISSING if nothing."""
    # Capture asks this about every object it sees: a loop takes half the time of next() and a generator.
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def lookup_behind(cls: type, start: int, name: str) -> Any:
    """What super() finds: as class_lookup, in the bases from a place on."""
    return next((c.__dict__[name] for c in cls.__mro__[start:] if name in c.__dict__), MISSING)


def made_by_python(cls: type) -> bool:
    """Whether Python code made the class, rather than C: its members may change."""
    return bool(cls.__flags__ & 1 << 9)  # Py_TPFLAGS_HEAPTYPE


def has_dict(real: Any) -> bool:
    """Whether the object has a `__dict__`, past any code of its class."""
    try:
        return isinstance(object.__getattribute__(real, "__dict__"), dict)
    except AttributeError:
        return False


def full_name(cls: type) -> str:
    """What Python calls a class in such a message: those written in C by their full name."""
    try:
        type.__getattribute__(cls, "a name that no class has")
    except AttributeError as error:
        return str(error).split("'")[1]
    return cls.__name__


def made_inside(cls: type) -> Any:
    """The abstract value of a class that the program defines while it is captured; None for any other class."""
    return cls.__dict__.get(MADE_INSIDE)


def of_a_prototype(value: Any) -> bool:
    """Whether it is such a class's prototype, an object of one, a method bound to one, or `list[it]`."""
    if isinstance(value, (types.GenericAlias, types.UnionType)):
        return any(map(of_a_prototype, value.__args__))
    if isinstance(value, (types.BuiltinMethodType, types.MethodType)):
        return of_a_prototype(value.__self__)
    return made_inside(value if isinstance(value, type) else type(value)) is not None


def empty_prototypes(prototypes: list[type]) -> None:
    """Take classes that were made only to be looked at out of their bases' `__subclasses__()`, and empty them.

    A class lives until the garbage collector comes. The program may ask its bases before, and what lies in the class
    shall live no longer for it.
    """
    for cls in reversed(prototypes):
        for name in list(vars(cls)):
            with suppress(AttributeError, TypeError):
                type.__delattr__(cls, name)
        python = next(c for c in cls.__mro__ if not made_by_python(c))
        with suppress(TypeError):  # where the layouts differ
            cls.__bases__ = (type("Gone", (python,), {}),)
