"""The map of the machine: `compile(fn)` and the way one call takes through the seams.

Input: a Python function or a Module. At a call whose guards no entry satisfies, the frame is captured, its graph goes
to a backend (backends.py: the default runs every stage), and the result becomes an Entry for `dispatch` to find.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cutaway.artifacts import Artifacts
from cutaway.backends import Backend, find_backend
from cutaway.compiled_module import twin_of
from cutaway.recompilation import (
    STANCE,
    count_compile,
    forget_counts,
    may_compile_now,
    set_stance,
    within_limits,
)
from cutaway.residual import example_inputs, guard_function, guard_names, residual_function
from stage0_eager import set_grad_enabled
from stage0_eager.batching import is_transformed
from stage0_eager.break_errors import errors_on_graph_break
from stage0_eager.nn.module import Module
from stage0_eager.state import STATE, ordinary_modes
from stage_contracts import config, events, python_version
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.capture import CapturedFrame, Continuation, run_to_end
from stage_contracts.controls import Rule, rule_of
from stage_contracts.errors import BackendFailed
from stage_contracts.graph import GraphError
from stage_contracts.pipeline import DEFAULT_SEAMS, TINY_SEAMS, Entry, Pipeline, load_pipeline
from stage_contracts.sizes import STATIC, ConstraintViolationError, SizePolicy


@functools.cache
def default_pipeline() -> Pipeline:
    """The seams compile() uses unless told otherwise: `cutaway.DEFAULT_PIPELINE`. Loads the stages."""
    return load_pipeline(DEFAULT_SEAMS)


@functools.cache
def tiny_pipeline() -> Pipeline:
    """The one-screen implementations of every seam: `cutaway.TINY_PIPELINE`."""
    return load_pipeline(TINY_SEAMS)


def compile(
    fn: Any = None,
    *,
    backend: str | Callable = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    pipeline: Pipeline | None = None,
) -> Any:
    """A function (or module) that does what `fn` does, compiled at its first call. Signature as torch.compile's.

    backend: "inductor" (every stage), "aot_eager", "eager", "cudagraphs", or a callable
        `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`.
    fullgraph: raise Unsupported at the first graph break instead of splitting the frame there.
    dynamic: None leaves open the sizes that have changed since the last compile (and those marked with
        compiler.mark_dynamic), True all of them, False none. What cannot be compiled with a size left open is
        compiled for each size; the ledger says so ("fallback", "static").
    mode: None, "default", "reduce-overhead" (CUDA graphs on a GPU), "max-autotune", "max-autotune-no-cudagraphs".
    options: configuration fields for this function, e.g. {"runtime.cache": False}.
    pipeline: the seams to use; default cutaway.DEFAULT_PIPELINE.
    Without `fn` it returns a decorator.
    """
    if fn is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options,
            disable=disable, pipeline=pipeline,
        )  # fmt: skip
    if disable:
        return fn
    if not python_version.known():
        python_version.say_so()
        return fn
    if mode not in _MODES:
        raise ValueError(f"mode {mode!r} is unknown; expected one of {', '.join(map(repr, _MODES))}")
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic expects None, True or False, got {dynamic!r}")
    if not callable(fn):
        raise TypeError(f"compile expects a function or a module, got {type(fn).__name__}")
    changes = {**_MODES[mode], **(options or {})}
    config.with_changes(config.current(), changes)  # a wrong option is an error now, not at the first call
    if isinstance(fn, Module):
        call = Module.__call__
        seams = pipeline or default_pipeline()
        return twin_of(fn, CompiledFunction(call, find_backend(backend), fullgraph, changes, seams, dynamic))
    if (rule := rule_of(fn)) is not None and rule.kind in ("disable", "plain"):
        return fn
    fn = getattr(fn, "_torchdynamo_orig_callable", fn)  # compiled twice is compiled once, as asked last
    return CompiledFunction(
        fn, find_backend(backend), fullgraph, changes, pipeline or default_pipeline(), dynamic
    )


# The function transforms (func.grad, ...) under which a compiled function is called as such. Any other batches it, or
# may differentiate twice, and gets the plain function.
RUNS_COMPILED = ((), ("grad",), ("vjp",))
_MODES: dict[str | None, dict[str, Any]] = {
    None: {},
    "default": {},
    "reduce-overhead": {"runtime.cuda_graphs": True},
    # kernels are chosen the same way in every mode: these two say whether CUDA graphs are wanted
    "max-autotune": {"runtime.cuda_graphs": True},
    "max-autotune-no-cudagraphs": {},
}


class CompiledFunction:
    """What `compile` returns for a function. `entries` are its compiled versions, most recently used first;
    `artifacts` are all their stages, oldest first."""

    # code that is captured itself calls the function behind this one
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
        """`outermost`: the compiled function whose calls lead to this one. `whole`: not the rest of a broken frame."""
        functools.update_wrapper(self, fn)
        self._bound_self = (fn.__self__,) if isinstance(fn, types.MethodType) else ()
        self._fn, self._torchdynamo_orig_callable = _python_function(fn), fn
        self._backend, self._options, self._pipeline = backend, options, pipeline
        self.fullgraph, self.dynamic, self.code = fullgraph, dynamic, self._fn.__code__
        self.name = self._fn.__qualname__
        self._dispatch = pipeline.dispatch
        self._lock = threading.RLock()
        self.limit_reported = self.called = False
        self.entries: tuple[Entry, ...] = ()
        # one list, and one of each resume function and nested call, for all that the outermost function leads to
        self.artifacts: list[Artifacts] = outermost.artifacts if outermost else []
        self._leads_to: dict[Any, CompiledFunction] = outermost._leads_to if outermost else {}
        self._whole = whole
        self.policy = SizePolicy(dynamic, backend.open_sizes)
        with _EVERY_LOCK:
            _EVERY.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._bound_self:
            args = self._bound_self + args
        entries = self.entries
        if STANCE.name == "force_eager" or STATE.transforms not in RUNS_COMPILED:
            return self._fn(*args, **kwargs)
        entry = self._dispatch(entries, args, kwargs)
        if entry is None:
            entry = self._miss(args, kwargs)
            if entry is None:
                return self._fn(*args, **kwargs)
        elif entry is not entries[0]:
            self._promote(entry)
        result = entry.run(*args, **kwargs)
        if type(result) is not Continuation or not self._whole:
            return result
        first, result = [result], None  # nothing here may keep what the program drops on the way
        return run_to_end(first.pop())

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

    def run_only(self, *args: Any, **kwargs: Any) -> Any:
        """A call that never compiles: an entry there is, or eager."""
        args = self._bound_self + args
        entry = self._dispatch(self.entries, args, kwargs)
        return run_to_end((entry.run if entry else self._fn)(*args, **kwargs))

    def why_new(self, args: tuple, kwargs: dict[str, Any]) -> str:
        """One line: which fact of the most recently used entry this call does not meet."""
        from stage4_runtime.runtime import explain_miss

        return explain_miss(self.entries[0], args, kwargs, guard_names(self._fn)[1])

    def forget(self) -> None:
        """Drop all entries: the next call compiles again."""
        with self._lock:
            self.entries = ()
            self.artifacts.clear()
            self._leads_to.clear()
            self.policy = SizePolicy(self.dynamic, self._backend.open_sizes)
            self.limit_reported = self.called = False

    def part(self, function: Any, whole: bool) -> Any:
        """A function that this one leads to, compiled likewise: the rest of a broken frame, or a callee (`whole`).

        Resume functions of one place share their entries, and so do calls of one function.
        """
        rule = rule_of(function)
        if rule is not None and rule.kind == "plain":
            function = rule.detail
        elif not isinstance(function, types.FunctionType) or rule is not None:
            return function
        cells = tuple(map(id, function.__closure__ or ()))
        key = function if whole else (function.__code__, id(function.__globals__), cells)
        with self._lock:
            if key not in self._leads_to:
                settings = self._backend, self.fullgraph, self._options, self._pipeline, self.dynamic
                self._leads_to[key] = CompiledFunction(function, *settings, outermost=self, whole=whole)
            return self._leads_to[key]

    def _promote(self, entry: Entry) -> None:
        """Most recently used first: what ran last is looked at first next time."""
        with self._lock:
            if entry in self.entries:
                self.entries = (entry, *(e for e in self.entries if e is not entry))

    def _miss(self, args: tuple, kwargs: dict[str, Any]) -> Entry | None:
        """Compile a new entry for this call; None when a stance or a limit says to run eagerly."""
        with self._lock, config.patch(self._options):
            # another thread may have compiled it meanwhile
            entry = self._dispatch(self.entries, args, kwargs)
            if entry is not None:
                return entry
            if not may_compile_now(self, args, kwargs) or not within_limits(self, args, kwargs):
                return None
            settings = config.current().capture
            self.policy.automatic = settings.automatic_dynamic_shapes
            self.policy.assume_static = settings.assume_static_by_default
            made = self._compile(args, kwargs)
            self.entries = (made, *self.entries)
            count_compile(self.code)
            return made

    def _compile(self, args: tuple, kwargs: dict[str, Any]) -> Entry:
        """A new entry. Another thread may change what capture looks at meanwhile: then it looks again."""
        settings = self._backend, self.fullgraph, self._pipeline, self.artifacts, self.policy, self.part
        for _ in range(_ATTEMPTS if threading.active_count() > 1 else 0):
            with suppress(GuardsFailed):
                return compile_frame(self._fn, args, kwargs, *settings)
        return compile_frame(self._fn, args, kwargs, *settings)


_ATTEMPTS = 4


class GuardsFailed(GraphError):
    """The guards of a new entry fail on the call they were made from."""


# Every compiled function there is, for reset().
_EVERY: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()
_EVERY_LOCK = threading.Lock()


def _python_function(fn: Callable) -> Any:
    """The function to capture: a method's own, or one that calls `fn` (an operator, a partial, func.grad of one)."""
    if isinstance(fn, types.MethodType):
        return fn.__func__
    if isinstance(fn, types.FunctionType) and not is_transformed(fn):
        return fn

    @functools.wraps(fn, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


def compile_frame(
    fn: types.FunctionType,
    args: tuple,
    kwargs: dict[str, Any],
    backend: Backend,
    fullgraph: bool,
    pipeline: Pipeline,
    kept: list[Artifacts],
    policy: SizePolicy = STATIC,
    part: Callable[[Any, bool], Any] = lambda function, whole: function,
) -> Entry:
    """Capture one call, compile its graph, and make the entry: guards, residual function, artifacts."""
    mark = events.LEDGER.mark()
    with events.timed("compile", fn.__qualname__) as details:
        frame, compiled, breaks, artifacts = _captured_and_compiled(
            fn, args, kwargs, backend, pipeline, policy
        )
        if frame.late_guards is not None and breaks:
            known = _captured_and_compiled(fn, args, kwargs, backend, pipeline, STATIC)
            # what breaks only because a size is open is compiled for each size
            if len(known[2]) < len(breaks):
                why, code = f"with open sizes: {breaks[-1].reason}", breaks[-1].code
                events.record("fallback", "static", origin=breaks[-1].origin, reason=why, code=code)
                frame, compiled, breaks, artifacts = known
        if frame.late_guards is not None:  # the later stages may have asked about sizes
            frame = replace(frame, guards=(*frame.guards, *frame.late_guards()))
        for graph_break in breaks:
            events.record("graph_break", graph_break.code, origin=graph_break.origin, graph_break=graph_break)
        wrong = [b for b in breaks if fullgraph or b.error]
        if wrong:
            first = wrong[0]
            raise Unsupported(first.reason, first.origin, code=first.code, hint=first.hint)
        frame = replace(frame, breaks=tuple(breaks))
        run = (
            fn
            if frame.residual is None or (frame.graph is not None and compiled is None)
            else residual_function(frame, fn, compiled, part)
        )
        details.update(graph_breaks=len(breaks), guards=len(frame.guards), frame=weakref.ref(frame))
    entry = Entry(frame.guards, guard_function(frame.guards, fn), run, frame, {"artifacts": artifacts})
    if not entry.check(*args, **kwargs):
        failed = [str(g) for g in frame.guards if not guard_function((g,), fn)(*args, **kwargs)]
        raise GuardsFailed(
            f"internal error: guards fail on the call they were made from: {'; '.join(failed)}"
        )
    artifacts.frame = frame
    artifacts.events = events.LEDGER.since(mark)
    kept.append(artifacts)
    return entry


def _captured_and_compiled(
    fn: types.FunctionType,
    args: tuple,
    kwargs: dict[str, Any],
    backend: Backend,
    pipeline: Pipeline,
    policy: SizePolicy,
) -> tuple[CapturedFrame, Callable | None, list[GraphBreak], Artifacts]:
    """The frame, and its graph as the backend made it: None where there is no graph, or where the backend refused."""
    with events.timed("pass", "capture"):
        leave_open = policy.supported and "policy" in inspect.signature(pipeline.capture).parameters
        frame = pipeline.capture(fn, args, kwargs, **({"policy": policy} if leave_open else {}))
    if frame.closed:
        raise ConstraintViolationError(
            f"marked dynamic, but the program fixes it: {'; '.join(frame.closed)}\n"
            "let the program ask nothing that fixes the size, or mark it with maybe_mark_dynamic"
        )
    artifacts = Artifacts(fn.__qualname__, frame, frame.graph, backend=backend.name, pipeline=pipeline)
    breaks = list(frame.breaks)
    compiled: Callable | None = None
    if frame.graph is not None and frame.residual is not None:
        frame.graph.verify()
        try:
            inputs = example_inputs(frame, fn, args, kwargs)
            with set_grad_enabled(frame.graph_grad_mode), ordinary_modes():
                compiled = backend.compile(frame.graph, inputs, pipeline, artifacts)
        except Unsupported as refusal:
            breaks.append(replace(refusal.graph_break, error=errors_on_graph_break()))
        except Exception as error:
            if not config.current().capture.suppress_errors:
                if backend.builtin and frame.late_guards is not None:  # the same again with known sizes
                    breaks.append(GraphBreak("GB0011", f"{type(error).__name__}: {error}"))
                    return frame, None, breaks, artifacts
                if backend.builtin:
                    raise
                raise BackendFailed(
                    f"backend {backend.name!r} raised {type(error).__name__}: {error}\n"
                    "its own lines are above; config suppress_errors=True runs such graphs eagerly"
                ) from error
            reason = f"backend {backend.name} raised {type(error).__name__}: {error}"
            breaks.append(GraphBreak("GB0012", reason))
    return frame, compiled, breaks, artifacts


def reset(*functions: CompiledFunction) -> None:
    """Forget the entries of the given compiled functions; without any: of all, the ledger and the stance too."""
    with _EVERY_LOCK:
        chosen = functions or tuple(_EVERY)
    for function in chosen:
        with suppress(AttributeError):
            function.forget()
    if not functions:
        events.LEDGER.clear()
        forget_counts()
        set_stance("default")


def emit_for(artifacts: Artifacts, half: str, target: str) -> Any:
    """The Program of one half with source for `target`; emitted now if it was not yet."""
    from cutaway.backends import target_named

    part = getattr(artifacts, half)
    if part is None:
        raise ValueError(f"{artifacts.function_name} has no {half} (backend {artifacts.backend})")
    if target not in part.emitted:
        emit = (artifacts.pipeline or default_pipeline()).emit
        part.emitted[target] = emit(part.planned, target_named(target, part.planned.device))
    return part.emitted[target]
