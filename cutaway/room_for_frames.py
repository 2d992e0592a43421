"""Memory for Python's frames, taken once for a whole compile.

Input: a function to call. CPython keeps frames in chunks of 16 KB. A call that no longer fits maps a new chunk, and its
return unmaps it; where a loop stands at the end of a chunk, each call in it does both. A compile calls deeply and a few
hundred thousand times: that was up to a third of a first call. A chunk is as large as the frame that it is made for, so
one frame that asks for much room, and uses none of it, leaves the rest of its chunk to all calls from it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

SLOTS = 33_000  # of 8 bytes: just above 256 KB, so a chunk has 512 KB, and as much again is left. No page is touched


def _call(function: Callable[..., Any], args: tuple) -> Any:
    return function(*args)


call_with_room: Callable[[Callable[..., Any], tuple], Any] = types.FunctionType(
    _call.__code__.replace(co_stacksize=SLOTS, co_name="call_with_room"), {}, "call_with_room"
)
