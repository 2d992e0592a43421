"""Classes that the program defines while it is captured: the prototypes that names are looked up in.

Input: a real class. variables/class_.py makes them.
"""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

from stage_contracts.class_lookup import made_by_python

# where the prototype of a class that the program defines has its abstract value
MADE_INSIDE = "<made inside>"


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
