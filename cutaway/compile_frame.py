"""One entry of a compiled function: capture the frame, hand its graph to the backend, check the guards.

Input: a function, the arguments of the call that no entry was for, the Pipeline, the Backend. Output: an Entry.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cutaway.artifacts import Artifacts
from cutaway.backends import Backend
from cutaway.residual import example_inputs, guard_function, residual_function
from stage0_eager import set_grad_enabled
from stage0_eager.state import ordinary_modes
from stage0_eager.utils.break_errors import errors_on_graph_break
from stage_contracts import config, events
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.capture import CapturedFrame
from stage_contracts.errors import BackendFailed
from stage_contracts.graph import GraphError
from stage_contracts.messages import say
from stage_contracts.pipeline import Entry, Pipeline
from stage_contracts.sizes import STATIC, ConstraintViolationError, SizePolicy


class GuardsFailed(GraphError):
    """The guards of a new entry fail on the call they were made from."""


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
            if backend.builtin and frame.late_guards is not None:  # the same again with known sizes
                breaks.append(GraphBreak("GB0011", f"{type(error).__name__}: {error}"))
                return frame, None, breaks, artifacts
            if backend.builtin:  # a fault of ours (internal_errors.py)
                raise
            if not config.current().capture.suppress_errors:
                what = f"{type(error).__name__}: {error}"
                raise BackendFailed(say("backend_raised", name=backend.name, error=what)) from error
            reason = f"backend {backend.name} raised {type(error).__name__}: {error}"
            breaks.append(GraphBreak("GB0012", reason))
    return frame, compiled, breaks, artifacts
