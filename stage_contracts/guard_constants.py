"""Constants that `==` cannot tell apart, or tells apart from themselves: -0.0 and 0.0, 1 and True, NaN.

Input: guards of constants and of what a class has. No user code runs: neither an `==` nor a hash.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np


def same_constant(found: Any, wanted: Any) -> bool:
    """Whether a program cannot tell two constants apart, but for `is`."""
    if type(found) is not type(wanted):
        return False
    rule = _RULES.get(type(wanted)) or (_by_text if isinstance(wanted, np.generic) else _by_equality)
    return rule(found, wanted)


def _by_text(found: Any, wanted: Any) -> bool:
    """Whose text has every bit of the value that a program can see, and no more."""
    return repr(found) == repr(wanted)


def _by_equality(found: Any, wanted: Any) -> bool:
    return bool(found == wanted)


def _in_order(found: Any, wanted: Any) -> bool:
    """Sets too: a program that walks over one sees their order."""
    return len(found) == len(wanted) and all(map(same_constant, found, wanted))


def _dtype(found: Any, wanted: Any) -> bool:
    return bool(found == wanted) and found.num == wanted.num


_RULES: dict[type, Callable[[Any, Any], bool]] = {
    **dict.fromkeys((float, complex, range, slice), _by_text),
    **dict.fromkeys((tuple, set, frozenset), _in_order),
}


def is_told_by_equality(constant: Any) -> bool:
    """Whether type and `==` say all about a constant, so that its guard needs no call."""
    return type(constant) in (str, bytes, int, bool, type(None)) or (
        type(constant) is float and abs(constant) > 0
    )


def computes(cls: type, name: str) -> bool:
    """Whether looking the name up on the class or on an object of it asks a descriptor that may be Python code."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return type(found) not in _PLAIN and not lacks(type(found), "__get__")


def lacks(cls: type, name: str) -> bool:
    """Whether neither the class nor a base of it has the name. A metaclass is not asked."""
    return not any(name in base.__dict__ for base in cls.__mro__)


# What runs no Python code though it has a `__get__`.
_PLAIN = frozenset((types.FunctionType, types.MemberDescriptorType, staticmethod))
