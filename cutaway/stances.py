"""The stance of the process: whether calls that no entry fits compile, run eagerly, or raise; set_stance sets it.

Input: `set_stance(...)` of the program; a compiled function, and the arguments of a call that no entry fits.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cutaway.backends import Backend, find_backend
from stage_contracts import config
from stage_contracts.controls import Rule, set_rule
from stage_contracts.errors import RecompileError
from stage_contracts.messages import did_you_mean, say

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction

# The function transforms (func.grad, ...) under which compiled code runs. Any other one batches the function, or may
# differentiate it twice, and then the plain function runs.
RUNS_COMPILED = ((), ("grad",), ("vjp",))

STANCES: dict[str, str] = {
    "default": "compile what is new",
    "force_eager": "run everything eagerly",
    "eager_on_recompile": "use the entries there are; run what is new eagerly",
    "fail_on_recompile": "use the entries there are; raise for what is new",
    "eager_then_compile": "run the first call of a function eagerly, compile from the second on",
    "aot_eager_then_compile": "as eager_then_compile: the first call's results are the same",
}


FORCED = "force_backend"  # the name in force while set_stance(force_backend=...) is
ELSEWHERE = frozenset((FORCED, "force_eager"))  # a call may go past the function's own entries
THEN_COMPILE = ("eager_then_compile", "aot_eager_then_compile")


class _Stance:
    """The stance of the whole process. A lock protects writes; a call only reads one attribute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.name = "default"
        self.backend: Backend | None = None


STANCE = _Stance()


class set_stance:
    """`set_stance("force_eager")` sets the stance from here on; as a context manager or a decorator, for a block or a
    function only."""

    def __init__(self, stance: str = "default", *, force_backend: Any = None, **options: Any) -> None:
        """force_backend: under the stance "default", every compiled function is compiled by this backend instead of its
        own, and has entries of its own for it."""
        if stance not in STANCES:
            hint = did_you_mean(stance, STANCES)
            raise RuntimeError(say("unknown_stance", name=stance, known=", ".join(STANCES), hint=hint))
        # skip_guard_eval_unsafe only allows to skip checks; all checks are made
        unknown = {k for k, v in options.items() if v not in (None, False) and k != "skip_guard_eval_unsafe"}
        if unknown:
            raise NotImplementedError(
                f"set_stance does not support the option {', '.join(sorted(unknown))}; leave it out"
            )
        if force_backend is not None and stance != "default":
            raise RuntimeError(
                f"force_backend goes with the stance 'default', but got {stance!r}; leave out one of both"
            )
        self.forced = force_backend
        backend = None if force_backend is None else find_backend(force_backend)
        with STANCE.lock:
            self.before = STANCE.name, STANCE.backend
            self.wanted = stance if backend is None else FORCED, backend
            STANCE.name, STANCE.backend = self.wanted
        self.stance = stance

    def __enter__(self) -> None:
        with STANCE.lock:
            STANCE.name, STANCE.backend = self.wanted

    def __exit__(self, *_: object) -> None:
        with STANCE.lock:
            STANCE.name, STANCE.backend = self.before

    def __call__(self, function: Callable) -> Callable:
        self.__exit__()  # used as a decorator: the stance begins with the call

        @functools.wraps(function)
        def under_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance, force_backend=self.forced):
                return function(*args, **kwargs)

        return under_stance


set_rule(set_stance, Rule("forbid", "set_stance changes how code is compiled; call it around compiled code"))


def may_compile_now(compiled: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the settings and the stance allow a compile for a call that no entry fits. Raises RecompileError under
    the stance fail_on_recompile."""
    stance, settings = STANCE.name, config.current().capture
    if settings.disable or settings.only_function not in ("", compiled.name, compiled.code.co_name):
        return False
    if stance == "fail_on_recompile":
        why = compiled.why_new(args, kwargs) if compiled.entries else "it was not compiled yet"
        raise RecompileError(
            f"Detected recompile when torch.compile stance is 'fail_on_recompile'. {compiled.location}: {why}; "
            "call it like this once before you set the stance"
        )
    if stance in THEN_COMPILE and not compiled.called:
        compiled.called = True
        return False
    return stance in ("default", FORCED, *THEN_COMPILE)
