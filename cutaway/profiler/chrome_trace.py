"""A recording as JSON in Chrome's trace-event format, which chrome://tracing and Perfetto (ui.perfetto.dev) open.

Input: the events of a recording. "X" is an event with a duration, "i" a point, "s" and "f" the ends of an arrow from a
forward to its backward, "M" a name of a process or thread. Times are microseconds.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.stacks import stack_of

POINTS = ("instant", "memory")


def trace(events: list[ProfilerEvent], recorded: str = "") -> dict[str, Any]:
    """The trace as an object of JSON's."""
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "otherData": {"made by": "cutaway.profiler", "recorded": recorded},
        "traceEvents": [
            *_names(events),
            *(_event(e) for e in events),
            *_flows(events),
        ],
    }


def write_trace(events: list[ProfilerEvent], path: str, recorded: str = "") -> None:
    """As a file; a name that ends in .gz is compressed."""
    data = json.dumps(trace(events, recorded)).encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def _names(events: Iterable[ProfilerEvent]) -> Iterator[dict[str, Any]]:
    """What a viewer calls the process and its threads."""
    pid, alive = os.getpid(), {t.ident: t.name for t in threading.enumerate()}
    program = Path(sys.argv[0] or "python").name
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": program}}
    yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0, "args": {"labels": "CPU"}}
    for tid in sorted({event.thread for event in events}):
        name = alive.get(tid, "thread that has ended")
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _event(event: ProfilerEvent) -> dict[str, Any]:
    args = {**event.args}
    if stack := stack_of(event):
        args["Call stack"] = list(stack)
    if event.flow is not None:
        args["Sequence number"] = event.flow
    made = {"name": event.name, "cat": event.category, "pid": os.getpid(), "tid": event.thread,
            "ts": event.start_ns / 1000, "args": args}  # fmt: skip
    if event.category in POINTS:
        return {"ph": "i", "s": "t", **made}
    return {"ph": "X", **made, "dur": event.duration_ns / 1000}


def _flows(events: list[ProfilerEvent]) -> Iterator[dict[str, Any]]:
    """An arrow from each forward to its backward. The first backward: one with retain_graph has the same forward."""
    forwards = {e.flow: e for e in events if e.flow is not None and e.name == "CompiledFunction"}
    for backward in events:
        if backward.name == "CompiledFunctionBackward" and backward.flow in forwards:
            forward = forwards.pop(backward.flow)
            for ph, end, more in (("s", forward, {}), ("f", backward, {"bp": "e"})):
                yield {"ph": ph, "name": "fwdbwd", "cat": "fwdbwd", "id": backward.flow, "pid": os.getpid(),
                       "tid": end.thread, "ts": end.start_ns / 1000, **more}  # fmt: skip
