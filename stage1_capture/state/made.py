"""The moment at which a guard is added or a size is opened: an event with the user's stack, while a tool asks for it.

Input: the frames under way. `debug.guard_added` and `debug.symbol_made` of the configuration ask; a listener sees the
compiler's own stack, because it is called here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage_contracts import config, events

if TYPE_CHECKING:
    from stage1_capture.state.graph_builder import OutputGraph


def made(output: OutputGraph, what: str, *spellings: str) -> None:
    """Record that a guard or a symbol was made; `what` is "guard" or "symbol", and `spellings` are its texts."""
    stack = [frame.current.origin for frame in output.frames if frame.current is not None]
    events.record("trace", what, origin=output.origin(), text=spellings[0], spellings=spellings, stack=stack)


def is_watched() -> bool:
    """Whether anything asks for these events."""
    debug = config.current().debug
    return bool(debug.guard_added or debug.symbol_made)
