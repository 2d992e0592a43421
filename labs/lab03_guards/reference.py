"""Guards and dispatch: the facts that a compiled version relies on, as one function; and which version a call runs.

Input: the values that a capture read, each with its source (how it is found at another call). A guard says one fact
about a source. At a call, all guards of a version are checked, the cheap ones first.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stage0_eager.tensor import Tensor
from stage_contracts.guards import CHECKS, GUARD_KINDS, Guard, TensorOf
from stage_contracts.pipeline import Entry
from stage_contracts.source import Source, depth

SINGLE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)  # compared by identity
CONSTANTS = (int, float, str, bytes)
FAILURES = (
    AttributeError,
    LookupError,
    TypeError,
    NameError,
)  # a value is not there any more, or is of another kind


# ---- what you write ----------------------------------------------------------------------------------------------


def facts(source: Source, value: Any) -> list[Guard]:
    """The guards that make sure that `source` is, for a compiled version, what `value` was.

    A tensor: its class and meta (TENSOR). One of SINGLE, True, False, None: the very same object (IDENTITY). An int,
    a float, a string, bytes: type and value (EQUALS). A list or tuple: its type and its length. Any other: its type.
    """
    # lab: begin facts
    if isinstance(value, Tensor):
        return [Guard("TENSOR", source, TensorOf(type(value), value.meta))]
    if value is None or isinstance(value, (bool, *SINGLE)):
        return [Guard("IDENTITY", source, value)]
    if type(value) in CONSTANTS:
        return [Guard("EQUALS", source, value)]
    kind = Guard("TYPE", source, type(value))
    return [kind, Guard("LENGTH", source, len(value))] if type(value) in (list, tuple) else [kind]
    # lab: end


def in_order(guards: Iterable[Guard]) -> list[Guard]:
    """The guards in the order in which to check them.

    A value before what is read from it (`depth(source)` counts the reads). At the same depth, the cheaper kind first
    (`GUARD_KINDS[kind].rank`). Otherwise in the order given.
    """
    # lab: begin in_order
    return sorted(guards, key=lambda guard: (depth(guard.source), GUARD_KINDS[guard.kind].rank))
    # lab: end


def check_text(guards: Iterable[Guard], signature: str, name_of: Callable[[Any], str]) -> str:
    """The text of a function `check` with the parameters of `signature`, which returns whether all guards hold.

    It joins each `guard.expression(name_of)` with `and`, so that the first that fails ends it. Where an attribute or
    an item is missing, the guards do not hold: one of FAILURES returns False. Without guards it is True.
    """
    # lab: begin check_text
    conditions = " and ".join(f"({g.expression(name_of)})" for g in in_order(guards)) or "True"
    return (
        f"def check({signature}):\n"
        "    try:\n"
        f"        return {conditions}\n"
        "    except FAILURES:\n"
        "        return False\n"
    )
    # lab: end


def dispatch(entries: Sequence[Entry], args: tuple, kwargs: dict[str, Any]) -> Entry | None:
    """The seam. The first compiled version whose guards hold for this call; None: a new one has to be made."""
    # lab: begin dispatch
    for entry in entries:
        if entry.check(*args, **kwargs):
            return entry
    return None
    # lab: end


def first_failure(
    guards: Iterable[Guard], signature: str, names: Mapping[str, Any], call: tuple
) -> Guard | None:
    """The first guard, in the order of the check, that does not hold for a call; None if all hold.

    This is what a compiler tells you when it has to compile again. The check of one guard is made as that of many.
    """
    # lab: begin first_failure
    for guard in in_order(guards):
        if not compile_check([guard], signature, names)(*call):
            return guard
    return None
    # lab: end


# ---- what is given -----------------------------------------------------------------------------------------------


def compile_check(guards: Iterable[Guard], signature: str, names: Mapping[str, Any]) -> Callable[..., bool]:
    """The check as a function. `names`: what expressions may use, such as G, the globals of the user's function."""
    scope: dict[str, Any] = {**CHECKS, "FAILURES": FAILURES, **names}

    def name_of(value: Any) -> str:
        """A name under which the check finds a value that is no literal."""
        name = f"expected_{len(scope)}"
        scope[name] = value
        return name

    eval(compile(check_text(guards, signature, name_of), "<guards>", "exec"), scope)
    return scope["check"]
