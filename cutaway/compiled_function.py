"""What `compile` returns for a function: finds the entry that fits a call, or makes a new one.

Input: the function and the arguments of compile(). The seam `dispatch` finds entries; compile_frame.py makes them.
"""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from cutaway.artifacts import ArtifactList, Artifacts
from cutaway.backends import Backend
from cutaway.compile_frame import GuardsFailed, compile_frame
from cutaway.full_collections import put_off
from cutaway.internal_errors import Failures, Fault, reaches_the_user, run_eagerly, stage_of, worth_trying
from cutaway.policies import on_trial
from cutaway.recompilation import count_compile, forget_counts, within_limits
from cutaway.residual import guard_names, rebound
from cutaway.room_for_frames import call_with_room
from cutaway.stances import ELSEWHERE, RUNS_COMPILED, STANCE, may_compile_now, set_stance
from stage0_eager.matmul_precision import compile_settings
from stage0_eager.state import STATE
from stage0_eager.transforms.vmap import is_transformed
from stage_contracts import config, events
from stage_contracts.breaks import GraphBreak
from stage_contracts.capture import run_to_end
from stage_contracts.controls import Rule, rule_of
from stage_contracts.pipeline import Entry, Pipeline
from stage_contracts.report import report_once
from stage_contracts.sizes import SizePolicy

if TYPE_CHECKING:
    from cutaway.saved_functions import AOTCompiledFunction


class CompiledFunction:
    """What `compile` returns for a function. `entries` are its compiled versions, the most recently used first;
    `artifacts` are what each stage made for each entry, oldest first."""

    # when a captured function calls this one, capture follows the function behind it
    __capture_rule__ = Rule("follow", "_fn")

    def __init__(
        self,
        fn: Callable,
        backend: Backend,
        fullgraph: bool,
        options: dict[str, Any],
        pipeline: Pipeline,
        dynamic: bool | None = None,
        outermost: CompiledFunction | None = None,
        whole: bool = True,
    ) -> None:
        """`outermost`: the compiled function whose calls lead to this one; None if it is itself the outermost. `whole`:
        False for a resume function, which is the rest of a frame with a graph break."""
        functools.update_wrapper(self, fn)
        self._bound_self = (fn.__self__,) if _is_bound(fn) else ()
        self._fn, self._torchdynamo_orig_callable = _python_function(fn), fn
        self._backend, self._options, self._pipeline = backend, options, pipeline
        self.fullgraph, self.dynamic, self.code = fullgraph, dynamic, self._fn.__code__
        self.name = self._fn.__qualname__
        self._dispatch = pipeline.dispatch
        self._lock = threading.RLock()
        self.limit_reported = self.called = False
        self.failures = Failures()
        self.entries: tuple[Entry, ...] = ()
        # one list of artifacts, and one table of resume functions and callees, for everything that the outermost
        # function leads to
        self.artifacts: list[Artifacts] = outermost.artifacts if outermost else ArtifactList(self.name)
        self._leads_to: dict[Any, CompiledFunction] = outermost._leads_to if outermost else {}
        self._codes: dict[tuple, list[CompiledFunction]] = outermost._codes if outermost else {}
        self._alike: list[CompiledFunction] = []  # callees of the same code
        self._forced: dict[Any, CompiledFunction] = {}  # by the backend that a stance forces
        self._whole = whole
        self.policy = SizePolicy(dynamic, backend.open_sizes)
        with _EVERY_LOCK:
            _EVERY.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._bound_self:
            args = self._bound_self + args
        entries = self.entries
        if STANCE.name in ELSEWHERE or STATE.transforms not in RUNS_COMPILED:
            other = self._elsewhere()
            if other is not self:
                return other(*args, **kwargs)
        entry = self._dispatch(entries, args, kwargs)
        if entry is None:
            made = self._miss(args, kwargs)
            if made is None:
                return self._fn(*args, **kwargs)
            if isinstance(made, Fault):
                return run_eagerly(made, self, args, kwargs)
            entry = made
        elif entry is not entries[0]:
            self._promote(entry)
        if self._whole and entry.frame.resumes:
            return _run_through_breaks(entry, args, kwargs)
        return entry.run(*args, **kwargs)

    def _elsewhere(self) -> Any:
        """What runs this call: the plain function, or this one with the backend that the stance forces."""
        forced = STANCE.backend
        if forced is None or STATE.transforms not in RUNS_COMPILED:
            return self._fn
        name = forced.function or forced.name
        if name == (self._backend.function or self._backend.name):
            return self
        with self._lock:
            if name not in self._forced:
                settings = forced, self.fullgraph, self._options, self._pipeline, self.dynamic
                self._forced[name] = CompiledFunction(self._fn, *settings)
            return self._forced[name]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self._fn.__qualname__}: {len(self.entries)} entries>"

    @property
    def breaks(self) -> list[GraphBreak]:
        return [b for made in self.artifacts for b in made.frame.breaks]

    @property
    def location(self) -> str:
        """`name (file:line)` of the function, for messages."""
        return f"{self._fn.__qualname__} ({self.code.co_filename}:{self.code.co_firstlineno})"

    def explain_html(self, path: str | Path = "explain.html") -> Path:
        """Write a page that shows how this function was compiled, at every stage, and return its path.

        Raises IndexError if it was not compiled yet: call it first. One file, which loads nothing.
        """
        from cutaway.explorer import explain_html

        return explain_html(self, Path(path))

    def aot_compile(self, example_inputs: tuple[tuple, dict[str, Any]]) -> AOTCompiledFunction:
        """Compile for one call, `((args...), {kwargs})`, without making it, as in torch. The result can be saved
        to a file: see AOTCompiledFunction."""
        from cutaway.saved_functions import aot_compile  # imported here: few programs save functions

        return aot_compile(self, example_inputs)

    def run_only(self, *args: Any, **kwargs: Any) -> Any:
        """A call that never compiles: it uses an entry that fits, or runs eagerly."""
        args = self._bound_self + args
        entry = self._dispatch(self.entries, args, kwargs)
        return run_to_end((entry.run if entry else self._fn)(*args, **kwargs))

    def has_entry(self, *args: Any, **kwargs: Any) -> bool:
        """Whether an entry fits this call."""
        return self._dispatch(self.entries, self._bound_self + args, kwargs) is not None

    def why_new(self, args: tuple, kwargs: dict[str, Any]) -> str:
        """One line: the first guard that fails on this call, of the entry where the most guards hold before it."""
        from stage4_runtime.runtime import explain_misses

        return explain_misses(self.entries, args, kwargs, guard_names(self._fn)[1])

    def why_each(self, args: tuple, kwargs: dict[str, Any]) -> tuple[str, ...]:
        """The same as why_new, for every entry."""
        from stage4_runtime.runtime import explain_miss

        names = guard_names(self._fn)[1]
        return tuple(explain_miss(entry, args, kwargs, names) for entry in self.entries)

    def forget(self) -> None:
        """Drop all entries: the next call compiles again."""
        with self._lock:
            self.entries = ()
            self.artifacts.clear()
            self._leads_to.clear()
            self._codes.clear()
            self._forced.clear()
            self.policy = SizePolicy(self.dynamic, self._backend.open_sizes)
            self.limit_reported = self.called = False
            self.failures = Failures()

    def part(self, function: Any, whole: bool) -> Any:
        """A function that this one leads to, compiled with the same settings: a resume function, or a callee (`whole`).

        All resume functions of one place share their entries. So do all calls of one function.
        """
        rule = rule_of(function)
        if rule is not None and rule.kind == "plain":
            function = rule.detail
        elif not isinstance(function, types.FunctionType) or rule is not None:
            return function
        cells = tuple(map(id, function.__closure__ or ()))
        place = function.__code__, id(function.__globals__)
        key = function if whole else (*place, cells)
        with self._lock:
            if key not in self._leads_to:
                settings = self._backend, self.fullgraph, self._options, self._pipeline, self.dynamic
                made = CompiledFunction(function, *settings, outermost=self, whole=whole)
                self._leads_to[key] = made
                if whole:
                    self._of_one_code(place, made)
            return self._leads_to[key]

    def _of_one_code(self, place: tuple, made: CompiledFunction) -> None:
        """Functions of one code share their policy, and try each other's entries: a caller may make them anew for each
        call. Of those only the last few are kept."""
        made._alike = self._codes.setdefault(place, [])
        if made._alike:
            made.policy = made._alike[0].policy
        made._alike.append(made)
        if len(made._alike) > ALIKE:
            del self._leads_to[made._alike.pop(0)._fn]

    def _entry_of_another(self, args: tuple, kwargs: dict[str, Any]) -> Entry | None:
        """The entry of another function of this code that fits the call, as one of this function's."""
        for other in reversed(self._alike):
            for entry in other.entries if other is not self else ():
                mine = rebound(entry, self._fn, self.part)
                if mine is not None and mine.check(*args, **kwargs):
                    self.entries = (mine, *self.entries)
                    return mine
        return None

    def _promote(self, entry: Entry) -> None:
        """Move the entry to the front: the next call tries it first."""
        with self._lock:
            if entry in self.entries:
                self.entries = (entry, *(e for e in self.entries if e is not entry))

    def _miss(self, args: tuple, kwargs: dict[str, Any]) -> Entry | Fault | None:
        """Compile a new entry for this call. None if the stance, a limit or earlier failures say to run eagerly."""
        with self._lock, config.patch({**compile_settings(), **self._options}):
            # another thread may have compiled it in the meantime
            entry = self._dispatch(self.entries, args, kwargs)
            entry = entry or self._entry_of_another(args, kwargs)
            if entry is not None:
                return entry
            if (
                not worth_trying(self.failures, args, kwargs)
                or not may_compile_now(self, args, kwargs)
                or not within_limits(self, args, kwargs)
            ):
                return None
            settings = config.current().capture
            self.policy.supported = self._backend.open_sizes and settings.dynamic_shapes
            self.policy.automatic = settings.automatic_dynamic_shapes and settings.dynamic_shapes
            self.policy.assume_static = settings.assume_static_by_default
            mark = events.EVENT_LOG.mark()
            try:
                with put_off():
                    made = call_with_room(self._compile, (args, kwargs))
            except Exception as error:
                stage = stage_of(mark)
                raised = reaches_the_user(error, stage, self.name, self.fullgraph, self._pipeline)
                if settings.replay_record_enabled:
                    self._record(error, args, kwargs, raised)
                if raised:
                    raise
                return Fault(self.name, stage, error)
            if self._whole:
                on_trial(made, self._fn, self.name, made.frame.breaks)
            self.entries = (made, *self.entries)
            count_compile(self.code)
            if settings.run_gc_after_compile:
                gc.collect()
            return made

    def _record(self, error: Exception, args: tuple, kwargs: dict[str, Any], raised: bool) -> None:
        """Save the frame for torch._dynamo.replay, and say so: below the error, if that is raised."""
        from cutaway.debug.replay.record import recorded  # imported here: few programs record

        settings: dict[str, Any] = {
            "backend": self._backend.function or self._backend.name,
            "fullgraph": self.fullgraph,
            "dynamic": self.dynamic,
        }
        said = recorded(self._fn, args, kwargs, settings, error)
        error.add_note(said) if raised else report_once(said)

    def _compile(self, args: tuple, kwargs: dict[str, Any]) -> Entry:
        """A new entry. If another thread changes a value while capture reads it, the guards fail, and capture starts
        again."""
        settings = self._backend, self.fullgraph, self._pipeline, self.artifacts, self.policy, self.part
        for _ in range(ATTEMPTS if threading.active_count() > 1 else 0):
            with suppress(GuardsFailed):
                return compile_frame(self._fn, args, kwargs, *settings)
        return compile_frame(self._fn, args, kwargs, *settings)


def _run_through_breaks(entry: Entry, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run an entry of a frame with graph breaks, through its resume functions, to the end of the frame."""
    modes = STATE.grad_enabled, STATE.inference
    first = [entry.run(*args, **kwargs)]  # no local variable may keep alive what the program drops
    try:
        return run_to_end(first.pop())
    except BaseException:  # a break may divide a `with torch.no_grad()` block, whose end was not reached
        STATE.grad_enabled, STATE.inference = modes
        raise


# How often a frame is captured again when other threads change values in the meantime, so that its guards fail.
ATTEMPTS = 4

# How many callees of one code are kept, of those that the program made.
ALIKE = 8

# All compiled functions that exist, for reset().
_EVERY: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()
_EVERY_LOCK = threading.Lock()


def _is_bound(fn: Any) -> TypeGuard[types.MethodType]:
    """Whether it is a method of Python's. An operator of a tensor (x.add) is one, too, but has no code."""
    return isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType)


def _python_function(fn: Callable) -> Any:
    """The function to capture: `fn`, the function of a method, or a new function that calls `fn` (an operator, a
    partial, the result of func.grad)."""
    if _is_bound(fn):
        return fn.__func__
    if isinstance(fn, types.FunctionType) and not is_transformed(fn):
        return fn

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


def compiled_from(fn: Any) -> list[CompiledFunction]:
    """The compiled functions that were made from a plain one. Those of a frame's rest are not among them."""
    with _EVERY_LOCK:
        every = tuple(_EVERY)
    return [c for c in every if c._whole and (c._fn is fn or c._torchdynamo_orig_callable == fn)]


def reset(*functions: CompiledFunction) -> None:
    """Forget the entries of the given compiled functions, so that their next calls compile again. Without arguments:
    forget the entries of all compiled functions, clear the event log, and set the default stance."""
    with _EVERY_LOCK:
        chosen = functions or tuple(_EVERY)
    for function in chosen:
        forget = getattr(getattr(function, "compiled", function), "forget", None)
        if forget is None:
            raise TypeError(
                f"reset expects compiled functions or modules, as compile() returns them, but got "
                f"{type(function).__name__}; reset() without arguments resets all"
            )
        forget()
    if not functions:
        events.EVENT_LOG.clear()
        forget_counts()
        set_stance("default")
