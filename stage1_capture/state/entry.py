"""Where a frame is entered: at its beginning, or in its middle with what its stack holds there.

Input: a code object. breaks/resume.py makes code that is entered in its middle and leaves a `Derived` among its
constants; frame/translator.py reads that and begins there.
"""

from __future__ import annotations

import types
from dataclasses import dataclass

# What a slot of the stack holds: a value (a parameter), NULL, or the exception that was handled outside an except
# block: there the parameter is the block's own, and PUSH_EXC_INFO finds the outer one.
VALUE, NULL, OUTER = "value", "null", "outer"
# The outer exception of an except block that has ended: nothing reads it. And, with the offset behind it, where the
# exception above was raised, which is an offset in the code that runs.
ENDED, PLACE = "ended", "place "

STACK_PREFIX = "__stack_"


@dataclass(frozen=True)
class Entry:
    """A place to enter a frame at: the instruction, the stack's slots there, live locals that are not assigned."""

    index: int
    layout: tuple[str, ...]
    unbound: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Derived:
    """Kept among the constants of an entered code object: the user's code, and where it is entered."""

    code: types.CodeType
    entry: Entry


def users_code(code: types.CodeType) -> Derived:
    """The code that `code` was made from: capture follows the user's, from the instruction it is entered at."""
    return next((c for c in code.co_consts if type(c) is Derived), Derived(code, Entry(0, ())))


def slots(code: types.CodeType) -> tuple[str, ...]:
    """All variables of a frame, cells included, in the order of their slots."""
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return (*code.co_varnames, *cells, *code.co_freevars)


def stack_name(index: int) -> str:
    return f"{STACK_PREFIX}{index}"
