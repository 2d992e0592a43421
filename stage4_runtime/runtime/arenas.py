"""Arenas: the memory of a call's temporaries, kept between calls.

Input: what makes an arena, the stream of the call, and the open sizes that decide how large one is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SETS = 4  # sets of open sizes whose memory is kept between calls


def arenas() -> dict[str, Callable]:
    """Memory for a call's temporaries, kept between calls: one arena per call that runs at the same time.

    A list's append and pop are atomic, so threads and nested calls each get an arena of their own. On a GPU
    work of the last call may still run, but on its own stream, and arenas never change streams. Where open sizes
    decide how large an arena is, those of the last few sets of sizes are kept, until `forget_arenas`.
    """
    free: dict[Any, list[Any]] = {}

    def take(new: Callable[..., Any], stream: Any = None, *sizes: int) -> Any:
        try:
            return free[stream, sizes].pop()
        except (KeyError, IndexError):
            return new(*sizes)

    def give(arena: Any, stream: Any = None, *sizes: int) -> None:
        if (stream, sizes) not in free and sizes and len(free) >= _SETS:
            free.pop(next(iter(free), None), None)  # another thread may be doing the same
        free.setdefault((stream, sizes), []).append(arena)

    return {"take_arena": take, "give_arena": give, "forget_arenas": free.clear}
