"""Phases of a compile as the profiler's events: a view of the event log, which times them already.

Input: what the event log records while a profiler does.
"""

from __future__ import annotations

from collections.abc import Callable

from cutaway.profiler.events import ProfilerEvent, Recorder
from stage_contracts.events import EVENT_LOG, Event

# kind of the log's -> the name that it has in a trace
TIMED = {"compile": "compile {0.name}", "pass": "{0.name}", "build": "build {0.name}"}
INSTANTS = {
    "graph_break": "graph break {0.name}",
    "recompile": "recompile {0.name}",
    "guard_failure": "guard failed: {0.name}",
    "fallback": "fallback: {0.name}",
}


def listen(recorder: Recorder) -> Callable[[], None]:
    """Record compiles from here on; what it returns ends that."""

    def listener(event: Event) -> None:
        form = TIMED.get(event.kind) or INSTANTS.get(event.kind)
        if form is None:
            return
        args = {k: v for k, v in event.details.items() if isinstance(v, (str, int, float, bool))}
        if event.origin is not None:
            args["line"] = f"{event.origin.file}:{event.origin.line}"
        category = "compile" if event.kind in TIMED else "instant"
        name, took = form.format(event), event.duration_ns if event.kind in TIMED else 0
        recorder.events.append(ProfilerEvent(name, category, event.start_ns, took, event.thread, args))

    EVENT_LOG.subscribe(listener)
    return lambda: EVENT_LOG.unsubscribe(listener)
