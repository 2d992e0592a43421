"""The limits on recompiles, and their messages: whether one more entry is allowed, and why it is needed.

Input: a compiled function, and the arguments of a call that no entry fits (compiled_function.py). There are two limits:
on the entries of one compiled function (`recompile_limit`), and on those of all compiled functions with the same code
object (`accumulated_recompile_limit`).
"""

from __future__ import annotations

import threading
import types
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from cutaway.user_frame import level_of_the_user
from stage_contracts import config, events
from stage_contracts.errors import RecompileError

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction

_COUNTS: weakref.WeakKeyDictionary[types.CodeType, int] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def count_compile(code: types.CodeType) -> None:
    """One more entry was made from this code object."""
    with _LOCK:
        _COUNTS[code] = _COUNTS.get(code, 0) + 1


def forget_counts() -> None:
    with _LOCK:
        _COUNTS.clear()


def within_limits(compiled: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether one more entry is allowed. Records an event with the reason why it is needed. At a limit, warns once and
    returns False.

    The entries that exist stay in use. Under fullgraph=True, a limit raises RecompileError, as in torch.
    """
    settings = config.current().capture
    total = _COUNTS.get(compiled.code, 0)
    limits = (
        ("recompile_limit", len(compiled.entries), settings.recompile_limit),
        ("accumulated_recompile_limit", total, settings.accumulated_recompile_limit),
    )
    reached = next((l for l in limits if l[1] >= l[2]), None)
    if not compiled.entries and reached is None:
        return True
    name = compiled.name
    reason = compiled.why_new(args, kwargs) if compiled.entries else "another function with this code"
    if compiled.entries:
        events.record("guard_failure", name, reason=reason)
    if reached is None:
        if settings.error_on_recompile:
            raise RecompileError(
                f"{name} would be recompiled, but error_on_recompile is set: {reason}; keep that value the same, or "
                "unset config capture.error_on_recompile"
            )
        entries = compiled.why_each(args, kwargs) if compiled.entries else ()
        events.record("recompile", name, reason=reason, entries=entries)
        return True
    what = f"the {reached[0].replace('_', ' ')} ({reached[2]})"
    if compiled.fullgraph or settings.fail_on_recompile_limit_hit:
        strict = "fullgraph=True" if compiled.fullgraph else "fail_on_recompile_limit_hit"
        more = f"to allow more compiles, raise config capture.{reached[0]}"
        raise RecompileError(f"{name} reached {what}, and {strict} is set. Last reason: {reason}; {more}")
    if not compiled.limit_reported:
        compiled.limit_reported = True
        events.record("fallback", name, reason=f"{what} reached: {reason}")
        message = (
            f"cutaway: {name} reached {what}; calls that need another recompile run eagerly. Last reason: {reason}; "
            f"to allow more compiles, raise config capture.{reached[0]}"
        )
        warnings.warn(message, stacklevel=level_of_the_user())
    return False
