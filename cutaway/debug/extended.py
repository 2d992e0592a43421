"""Where a guard or a symbol was made: the user's stack and the compiler's then (TORCHDYNAMO_EXTENDED_DEBUG_*).

Input: the events "guard" and "symbol" that capture records while `debug.guard_added` or `debug.symbol_made` asks. A
guard may be spelt as torch prints it ("Eq(s0, 10)") or as the log `guards` does; `*` stands for any text.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stage_contracts import config
from stage_contracts.events import EVENT_LOG, Event

ROOT = Path(__file__).parents[2]
WATCHED = {"guard": "guard_added", "symbol": "symbol_made"}  # event -> the field that asks for it
_RETURNED: ContextVar[bool] = ContextVar(
    "cutaway_why_guard", default=False
)  # why_guard returns what it finds
SAID = {"guard": "guard added", "symbol": "symbol made"}


def show(event: Event) -> None:
    """Print an event that was asked for. To be called while it is recorded: the stack is that of now."""
    text = told(event)
    if text is not None and not _RETURNED.get():
        print(text, file=sys.stderr)


def told(event: Event) -> str | None:
    """What to say of an event, or None if it is not the one that was asked for."""
    if event.kind != "trace" or event.name not in WATCHED:
        return None
    wanted = getattr(config.current().debug, WATCHED[event.name])
    if not any(_is_asked(wanted, spelling) for spelling in event.details["spellings"]):
        return None
    lines = [f"cutaway: {SAID[event.name]}: {'  or  '.join(event.details['spellings'])}", "your stack:"]
    for origin in event.details["stack"]:
        lines += origin.caret().splitlines()
    lines.append("the compiler's stack:")
    lines += [f"  {_place(frame)}, in {frame.name}" for frame in traceback.extract_stack() if _is_ours(frame)]
    return "\n".join(lines)


def why_guard(fn: Callable, guard: str, *, symbol: str = "") -> Callable[..., str]:
    """`why_guard(f, "Eq(s0, 10)")(*args)` compiles one call afresh and returns where this guard was added, with both
    stacks. The guard may be spelt as a log prints it, and `*` stands for any text. `symbol="s0"` asks for a symbol.

    Without a guard of that spelling, the answer lists those that there are.
    """
    from cutaway.explain import explain  # loads the compiler

    def report(*args: Any, **kwargs: Any) -> str:
        found: list[str] = []
        seen: list[str] = []

        def listener(event: Event) -> None:
            if event.kind == "trace" and event.name in WATCHED:
                seen.append("  " + "  or  ".join(event.details["spellings"]))
                found.extend(filter(None, [told(event)]))

        asked = {"debug.guard_added": guard, "debug.symbol_made": symbol or "-"}
        token = _RETURNED.set(True)
        try:
            with config.patch(asked), EVENT_LOG.listening(listener):
                explain(fn)(*args, **kwargs)
        finally:
            _RETURNED.reset(token)
        missing = (
            f"no guard {guard!r} was added; there are:" if guard else f"no symbol {symbol!r} was made; seen:"
        )
        return "\n".join(found) if found else "\n".join([missing, *dict.fromkeys(seen)])

    return report


def _is_asked(wanted: str, spelling: str) -> bool:
    """Spaces and brackets do not count: `x.shape[0] == 10` is `(x.shape[0] == 10)`. Only `*` stands for other text."""
    texts = [text.translate(_DROPPED) for text in (spelling, wanted)]
    return bool(wanted) and fnmatchcase(*texts)


_DROPPED = str.maketrans("", "", " ()[]?")


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"


def _is_ours(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    return path.is_relative_to(ROOT / "stage1_capture") and frame.name != "tell"  # which records it
