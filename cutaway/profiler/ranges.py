"""record_function: a range with a name of the user's, as a block or as a decorator.

Input: the name. Outside of a recording it does nothing. Inside a compiled function it is left out, for a graph has no
place for it: ranges go around calls of compiled functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cutaway.compiler import is_compiling
from cutaway.profiler.events import ACTIVE, ProfilerEvent


class record_function:
    """`with record_function("load"): ...`, or `@record_function("load")` over a function."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: list[ProfilerEvent] = []

    def __enter__(self) -> record_function:
        if is_compiling():  # capture knows the answer, and goes no further
            return self
        if ACTIVE:
            more = {} if self.args is None else {"args": self.args}
            self._open.append(ACTIVE[-1].begin(self.name, "user_annotation", **more))
        return self

    def __exit__(self, *_: object) -> None:
        if is_compiling():
            return
        if self._open:
            event = self._open.pop()
            if ACTIVE:
                ACTIVE[-1].end(event)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name, args = self.name, self.args

        @functools.wraps(function)
        def in_range(*given: Any, **options: Any) -> Any:
            with record_function(name, args):
                return function(*given, **options)

        return in_range
