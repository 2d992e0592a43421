"""Which of several programs is the fastest: a pass may ask, and whoever runs the compiler may answer by measuring.

Input: `answering(function)` for a block of code. Stage 3 has no device, so its passes ask here; stage 4 measures, and
cutaway/ brings them together. Without a function nobody answers, and a pass does what its rule says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stage_contracts.program import Program

# (a text that decides the answer, programs with equal inputs and results) -> the number of the fastest; 0 is the rule's
Fastest = Callable[[str, "Sequence[Program]"], int]
_ASKED: ContextVar[Fastest | None] = ContextVar("cutaway_fastest", default=None)


@contextmanager
def answering(function: Fastest | None) -> Iterator[None]:
    """Let passes ask `function` while the block runs."""
    token = _ASKED.set(function)
    try:
        yield
    finally:
        _ASKED.reset(token)


def fastest_of() -> Fastest | None:
    """What answers now; None: nobody."""
    return _ASKED.get()
