"""Looking a name up in a class and its bases, as Python does, without asking any descriptor.

Input: a real class. Capture looks with these, and guards and residual code that are made of what it found.
"""

from __future__ import annotations

from typing import Any

MISSING: Any = object()


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
