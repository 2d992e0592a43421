"""`debug.verify` of guards: where an entry is chosen for a call, each of its guards is checked alone as well.

Input: the one function that all guards of an entry became, and the guards as data. They may only disagree by a fault of
the compiler: then the entry computes for another call than this one.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from cutaway.residual import guard_names
from stage_contracts import config
from stage_contracts.errors import VerifyError
from stage_contracts.guards import Guard
from stage_contracts.messages import say

Check = Callable[..., bool]


def guards_verified(check: Check, guards: tuple[Guard, ...], fn: types.FunctionType) -> Check:
    """`check`; with debug.verify, one that raises VerifyError where it holds, and a guard alone does not."""
    if not config.current().debug.verify:
        return check

    @functools.wraps(check)
    def checked(*args: Any, **kwargs: Any) -> bool:
        if not check(*args, **kwargs):
            return False
        from stage4_runtime.runtime.dispatch import first_that_fails

        found = first_that_fails(guards, check, args, kwargs, guard_names(fn)[1])
        if found is not None:
            _, guard, change = found
            raise VerifyError(say("verify_guard", function=fn.__qualname__, guard=str(guard).partition("  #")[0], change=change))
        return True

    return checked
