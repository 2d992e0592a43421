"""Comparing constants where `==` is not enough: -0.0 and 0.0, 1 and True, and NaN, which differs from itself.

Input: guards on constants and on the members of a class. No user code runs: neither an `==` nor a hash.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from stage_contracts.class_lookup import MISSING, class_lookup


def same_constant(found: Any, wanted: Any) -> bool:
    """Whether two constants are the same for a program, unless it uses `is`."""
    if type(found) is not type(wanted):
        return False
    rule = _RULES.get(type(wanted)) or (_by_text if isinstance(wanted, np.generic) else _by_equality)
    return rule(found, wanted)


def _by_text(found: Any, wanted: Any) -> bool:
    """Whether the text of the value determines it completely."""
    return repr(found) == repr(wanted)


def _by_equality(found: Any, wanted: Any) -> bool:
    return bool(found == wanted)


def _in_order(found: Any, wanted: Any) -> bool:
    """The members in order; also of a set, because a program that iterates over it sees the order."""
    return len(found) == len(wanted) and all(map(same_constant, found, wanted))


def _dtype(found: Any, wanted: Any) -> bool:
    return bool(found == wanted) and found.num == wanted.num


_RULES: dict[type, Callable[[Any, Any], bool]] = {
    **dict.fromkeys((float, complex, range, slice), _by_text),
    **dict.fromkeys((tuple, set, frozenset), _in_order),
}


def is_told_by_equality(constant: Any) -> bool:
    """Whether type and `==` are enough to compare a constant, so that its guard needs no call."""
    return type(constant) in (str, bytes, int, bool, type(None)) or (
        type(constant) is float and abs(constant) > 0
    )


def computes(cls: type, name: str) -> bool:
    """Whether reading the name from the class, or from an object of it, may run Python code (a descriptor)."""
    found = class_lookup(cls, name)
    return type(found) not in _PLAIN and not lacks(type(found), "__get__")


def lacks(cls: type, name: str) -> bool:
    """Whether neither the class nor a base of it has the name. Metaclasses are not searched."""
    return class_lookup(cls, name) is MISSING


# Descriptors that have a `__get__`, but run no Python code.
_PLAIN = frozenset((types.FunctionType, types.MemberDescriptorType, staticmethod))
