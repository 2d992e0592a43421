"""The check of a frozen artifact: once it has passed, it passes again without being made.

Input: the method `verify` of a frozen dataclass. Every stage checks what it makes and what it is given, so that most
parts of a program would be checked ten times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_PASSED = "_passed_its_check"


def checked_once(verify: Callable[[T], T]) -> Callable[[T], T]:
    """`verify`, made the first time. What it raises, it raises each time. `dataclasses.replace` makes a new artifact,
    which has to pass anew."""

    @functools.wraps(verify)
    def check(artifact: T) -> T:
        if _PASSED not in vars(artifact):
            verify(artifact)
            vars(artifact)[_PASSED] = True
        return artifact

    return check
