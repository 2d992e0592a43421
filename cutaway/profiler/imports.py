"""Imports as the profiler's events, for `cutaway profile`: a short script often does little else.

Input: the import statements that run inside the block. Only those that take a millisecond are kept.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.profiler.events import ACTIVE

LEAST_NS = 1_000_000


@contextmanager
def imports_recorded() -> Iterator[None]:
    """Events of the outermost imports in the block; those that an import leads to are part of it."""
    plain, depth = builtins.__import__, 0

    def timed(name: str, *more: Any, **named: Any) -> Any:
        nonlocal depth
        if depth or not ACTIVE:
            return plain(name, *more, **named)
        event, depth = ACTIVE[-1].begin(f"import {name}", "import"), 1
        try:
            return plain(name, *more, **named)
        finally:
            depth = 0
            if ACTIVE:
                ACTIVE[-1].end(event)
                if event.duration_ns < LEAST_NS:
                    ACTIVE[-1].events.pop()

    builtins.__import__ = timed
    try:
        yield
    finally:
        builtins.__import__ = plain
