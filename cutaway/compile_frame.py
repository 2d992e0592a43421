"""Makes one entry of a compiled function: captures the frame, passes its graph to the backend, checks the guards.

Input: a function, the arguments of a call that no entry fits, the Pipeline, the Backend. Output: an Entry.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutaway import repro
from cutaway.array_context import arrays_placed
from cutaway.artifacts import Artifacts
from cutaway.backends import Backend
from cutaway.debug.verify_guards import guards_verified
from cutaway.internal_errors import Fault, reaches_the_user, stage_of
from cutaway.pipelines import default_pipeline
from cutaway.residual import example_inputs, guard_function, residual_function
from stage0_eager import set_grad_enabled
from stage0_eager.defaults import get_default_device
from stage0_eager.nn.module import structure_epoch
from stage0_eager.state import ordinary_modes
from stage0_eager.utils.break_errors import errors_on_graph_break
from stage_contracts import config, events
from stage_contracts.around_backend import around_backend
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.capture import CapturedFrame
from stage_contracts.errors import BackendFailed
from stage_contracts.generated_code import keep_by
from stage_contracts.graph import Graph, GraphError
from stage_contracts.guards import Guard
from stage_contracts.messages import say
from stage_contracts.pipeline import Entry, Pipeline
from stage_contracts.sizes import STATIC, ConstraintViolationError, SizePolicy


def _kept_code(text: str, make: Callable[[], types.CodeType]) -> types.CodeType:
    # here, for stage 4 is loaded by a first compile, and not before
    from stage4_runtime.runtime.kept_code import kept_code

    return kept_code(text, make)


keep_by(_kept_code)


class GuardsFailed(GraphError):
    """The guards of a new entry fail on the very call that they were made from."""


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
    mark, epoch = events.EVENT_LOG.mark(), structure_epoch()
    with events.timed("compile", fn.__qualname__) as details:
        _phase(f"Step 1: torchdynamo start tracing {_place(fn)}")
        made = _captured_and_compiled(fn, args, kwargs, backend, pipeline, policy, fullgraph)
        if made.frame.late_guards is not None and (made.breaks or made.error):
            stage = stage_of(mark)
            known = _captured_and_compiled(fn, args, kwargs, backend, pipeline, STATIC, fullgraph)
            made = _better(made, known, stage)
        frame, breaks, artifacts = made.frame, made.breaks, made.artifacts
        if frame.late_guards is not None:  # later stages may have added guards on sizes
            frame = replace(frame, guards=(*frame.guards, *frame.late_guards()))
        for graph_break in breaks:
            events.record(
                "graph_break",
                graph_break.code,
                origin=graph_break.origin,
                graph_break=graph_break,
                passed_on=_is_passed_on(graph_break, frame),
            )
        wrong = [b for b in breaks if fullgraph or b.error]
        if wrong:
            first = wrong[0]
            raise Unsupported(first.reason, first.origin, code=first.code)
        frame = replace(frame, breaks=tuple(breaks))
        run = (
            fn
            if frame.residual is None or (frame.graph is not None and made.run is None)
            else residual_function(frame, fn, made.run, part)
        )
        artifacts.frame = frame
        with events.timed("pass", "compile_guards"):
            check = guards_verified(
                guard_function(frame.guards, fn, epoch),
                frame.guards,
                fn,
                functools.partial(_wrong_guard, frame, fn, backend),
            )
        entry = Entry(frame.guards, check, run, frame, {"artifacts": artifacts})
        with events.timed("pass", "check_guards", function=fn.__qualname__):
            holds = check(*args, **kwargs) and _later_ones_hold(check, args, kwargs)
        if not holds:
            failed = [str(g) for g in frame.guards if not guard_function((g,), fn)(*args, **kwargs)]
            raise GuardsFailed(
                f"internal error: the new guards fail on the call that they were made from: {'; '.join(failed)}"
            )
        details.update(graph_breaks=len(breaks), guards=len(frame.guards), frame=weakref.ref(frame))
        details["artifacts"] = weakref.ref(artifacts)
    artifacts.events = events.EVENT_LOG.since(mark)
    kept.append(artifacts)
    return entry


ALWAYS_CHECK_ALL = False  # in Cutaway's own tests: guards that no module's change has made necessary, too


def _later_ones_hold(check: Callable[..., bool], args: tuple, kwargs: dict[str, Any]) -> bool:
    under_epoch = getattr(check, "under_epoch", None) if ALWAYS_CHECK_ALL else None
    return under_epoch is None or under_epoch(*args, **kwargs)


def _wrong_guard(
    frame: CapturedFrame, fn: types.FunctionType, backend: Backend, guard: Guard, now: Any,
    args: tuple, kwargs: dict[str, Any], error: Exception,
) -> None:  # fmt: skip
    """With repro_after, saves the call for which this guard of the frame does not hold."""
    if frame.graph is not None:
        inputs = example_inputs(frame, fn, args, kwargs)
        repro.guard_failed(fn.__qualname__, backend, frame.graph, inputs, guard, now, error)


def _is_passed_on(graph_break: GraphBreak, frame: CapturedFrame) -> bool:
    """Whether the break is in a function that the frame inlines. That function is then compiled alone, and has the
    break itself."""
    if graph_break not in frame.breaks or graph_break.origin is None:
        return False
    from stage1_capture.frame.bytecode import instructions  # imported here: only a frame with breaks needs it

    return all(instruction.origin != graph_break.origin for instruction in instructions(frame.code))


def _phase(text: str) -> None:
    events.record("phase", text)


def _place(fn: types.FunctionType) -> str:
    return f"{fn.__qualname__} {fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"


def _compile_part(
    backend: Backend, pipeline: Pipeline, artifacts: Artifacts, graph: Graph, inputs: Sequence[Any]
) -> Callable[..., tuple]:
    """The backend on the captured graph, or on a part of it, which gets artifacts of its own."""
    if graph is not artifacts.captured:
        part = Artifacts(f"{artifacts.function_name}.{graph.name}", artifacts.frame, graph)
        part.backend, part.pipeline = artifacts.backend, pipeline
        artifacts.parts.append(part)
        artifacts = part
    return backend.compile(graph, list(inputs), pipeline, artifacts)


@dataclass
class Compiled:
    """One attempt to compile a frame: what was captured, and what the backend made of its graph."""

    frame: CapturedFrame
    artifacts: Artifacts
    breaks: list[GraphBreak]
    run: Callable | None = None  # None if there is no graph, or if the backend refused it
    error: Exception | None = None  # a bug in the compiler while sizes were open


def _better(open_: Compiled, known: Compiled, stage: str) -> Compiled:
    """The better of two attempts: one with open sizes that broke or failed, and one with known sizes. An event records
    that the open sizes were given up."""
    name = open_.artifacts.function_name
    if open_.error is not None:
        if reaches_the_user(
            open_.error,
            stage,
            name,
            open_.artifacts.fullgraph,
            open_.artifacts.pipeline or default_pipeline(),
        ):
            raise open_.error
        Fault(name, stage, open_.error, "compiling with open sizes").tell()
        return known
    if len(known.breaks) >= len(open_.breaks):
        return open_
    last = open_.breaks[-1]  # code that breaks only because a size is open is compiled for each size
    events.record(
        "fallback", "static", origin=last.origin, reason=f"with open sizes: {last.reason}", code=last.code
    )
    return known


# What one graph must hold is captured, as torch does: with breaks, a number of the data is read in Python.
WHOLE = {"capture.capture_scalar_outputs": True, "capture.capture_dynamic_output_shape_ops": True}


def _captured_and_compiled(
    fn: types.FunctionType,
    args: tuple,
    kwargs: dict[str, Any],
    backend: Backend,
    pipeline: Pipeline,
    policy: SizePolicy,
    fullgraph: bool,
) -> Compiled:
    """One attempt to compile the frame. The policy says which sizes are open."""
    with events.timed("pass", "capture"), config.patch(WHOLE if fullgraph else {}):
        frame = pipeline.capture(fn, args, kwargs, policy if policy.supported else STATIC)
        frame = arrays_placed(frame, get_default_device())
    if frame.closed and not config.current().capture.allow_ignore_mark_dynamic:
        raise ConstraintViolationError(
            f"you marked a size as dynamic, but your code specializes it: {'; '.join(frame.closed)}\n"
            "remove the code that needs one value, or mark the size with maybe_mark_dynamic instead of mark_dynamic"
        )
    artifacts = Artifacts(fn.__qualname__, frame, frame.graph, backend=backend.name, pipeline=pipeline)
    artifacts.fullgraph = fullgraph
    made = Compiled(frame, artifacts, list(frame.breaks))
    _phase(
        f"Step 1: torchdynamo done tracing {fn.__qualname__} ({'; '.join(b.code for b in frame.breaks) or 'return'})"
    )
    if frame.graph is not None and frame.residual is not None:
        _verify_of_others(frame.graph, pipeline)
        try:
            inputs = example_inputs(frame, fn, args, kwargs)
            _phase(f"Step 2: calling compiler function {backend.name}")
            with set_grad_enabled(frame.graph_grad_mode), ordinary_modes():
                compile_part = functools.partial(_compile_part, backend, pipeline, artifacts)
                compile_graph = functools.partial(around_backend, compile_part, frame.graph, inputs)
                made.run = repro.compiled(
                    "dynamo", fn.__qualname__, backend, frame.graph, inputs, compile_graph
                )
            _phase(f"Step 2: done compiler function {backend.name}")
        except Unsupported as refusal:
            made.breaks.append(replace(refusal.graph_break, error=errors_on_graph_break()))
        except Exception as error:
            if backend.builtin and frame.late_guards is not None and policy is not STATIC:
                made.error = error  # tried again with known sizes
                return made
            if backend.builtin:  # a bug in the compiler (internal_errors.py)
                raise
            made.breaks.append(_backend_failed(backend, error))
    return made


def _verify_of_others(graph: Graph, pipeline: Pipeline) -> None:
    """Check what another stage 1 captured; ours has verified this very graph."""
    if pipeline.capture is not default_pipeline().capture:
        graph.verify()


def _backend_failed(backend: Backend, error: Exception) -> GraphBreak:
    """The user's backend raised: with suppress_errors, a break, after which the frame runs as it is."""
    what = f"{type(error).__name__}: {error}"
    settings = config.current().capture
    if not settings.suppress_errors or settings.repro_after:
        raise BackendFailed(say("backend_raised", name=backend.name, error=what)) from error
    return GraphBreak("GB0012", f"backend {backend.name} raised {what}")
