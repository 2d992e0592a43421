"""`debug.verify` of guards: where an entry is chosen for a call, each of its guards is checked alone as well.

Input: the one function that all guards of an entry became, and the guards as data. They may only disagree by a fault of
the compiler: then the entry computes for another call than this one.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from cutaway.repro import compares_values
from cutaway.residual import guard_names
from stage_contracts import config
from stage_contracts.errors import VerifyError
from stage_contracts.guards import Guard
from stage_contracts.messages import say

Check = Callable[..., bool]


def guards_verified(
    check: Check,
    guards: tuple[Guard, ...],
    fn: types.FunctionType,
    save: Callable[[Guard, Any, tuple, dict[str, Any], Exception], None],
) -> Check:
    """`check`; with debug.verify, one that raises VerifyError where it holds, and a guard alone does not.

    `save(guard, what it is about now, args, kwargs, error)` is called first."""
    if not (config.current().debug.verify or compares_values()):
        return check

    @functools.wraps(check)
    def checked(*args: Any, **kwargs: Any) -> bool:
        if not check(*args, **kwargs):
            return False
        from stage4_runtime.runtime.dispatch import first_that_fails

        found = first_that_fails(guards, check, args, kwargs, guard_names(fn)[1])
        if found is not None:
            _, guard, now, change = found
            lines = guard.origin.caret() if guard.origin else "  (no line of yours made it)"
            shown = str(guard).partition("  #")[0]
            error = VerifyError(
                say("verify_guard", function=fn.__qualname__, guard=shown, change=change, lines=lines)
            )
            save(guard, now, args, kwargs, error)
            raise error
        return True

    return checked
