"""A recording as JSON in Chrome's trace-event format, which chrome://tracing and Perfetto (ui.perfetto.dev) open.

Input: the events of a recording. "X" is an event with a duration, "i" a point, "s" and "f" the ends of an arrow (from
a forward to its backward, from a launch to what it began on the GPU), "M" a name of a process or thread. A GPU is a
process of its own, its streams are the threads. Times are microseconds.
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
    for device in sorted({event.device for event in events if event.device is not None}):
        yield {
            "ph": "M",
            "name": "process_name",
            "pid": device,
            "tid": 0,
            "ts": 0,
            "args": {"name": f"GPU {device}"},
        }
    for device, stream in sorted({(e.device, e.thread) for e in events if e.device is not None}):
        name = f"stream {stream}"
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": device,
            "tid": stream,
            "ts": 0,
            "args": {"name": name},
        }
    for tid in sorted({event.thread for event in events if event.device is None}):
        name = alive.get(tid, "thread that has ended")
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _event(event: ProfilerEvent) -> dict[str, Any]:
    args = {**event.args}
    if stack := stack_of(event):
        args["Call stack"] = list(stack)
    if event.flow is not None:
        args["Sequence number"] = event.flow
    made = {"name": event.name, "cat": event.category, "pid": _process(event), "tid": event.thread,
            "ts": event.start_ns / 1000, "args": args}  # fmt: skip
    if event.category in POINTS:
        return {"ph": "i", "s": "t", **made}
    return {"ph": "X", **made, "dur": event.duration_ns / 1000}


def _process(event: ProfilerEvent) -> int:
    return os.getpid() if event.device is None else event.device


def _flows(events: list[ProfilerEvent]) -> Iterator[dict[str, Any]]:
    """An arrow from each forward to its backward. The first backward: one with retain_graph has the same forward. And
    one from each launch to each kernel that it began."""
    forwards = {e.flow: e for e in events if e.flow is not None and e.name == "CompiledFunction"}
    for backward in events:
        if backward.name == "CompiledFunctionBackward" and backward.flow in forwards:
            forward = forwards.pop(backward.flow)
            for ph, end, more in (("s", forward, {}), ("f", backward, {"bp": "e"})):
                yield {"ph": ph, "name": "fwdbwd", "cat": "fwdbwd", "id": backward.flow, "pid": os.getpid(),
                       "tid": end.thread, "ts": end.start_ns / 1000, **more}  # fmt: skip
    launches = {e.launch: e for e in events if e.launch is not None and e.device is None}
    ran = [(launches[e.launch], e) for e in events if e.device is not None and e.launch in launches]
    first = 1 + max((e.flow for e in events if e.flow is not None), default=0)
    for number, (launch, began) in enumerate(ran, first):
        for ph, end, more in (("s", launch, {}), ("f", began, {"bp": "e"})):
            yield {"ph": ph, "name": "ac2g", "cat": "ac2g", "id": number, "pid": _process(end),
                   "tid": end.thread, "ts": end.start_ns / 1000, **more}  # fmt: skip
