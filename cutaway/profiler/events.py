"""What a profiler records: events with a start, a duration, a thread; and the recorder that they go to.

Input: the timers of regions.py, kernels.py, ranges.py and compile_phases.py. At most one recorder is active; tables and
traces are made from its list of events afterwards.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from cutaway.profiler.stacks import user_stack

# category -> what its events are. Traces say the category, so that a viewer can filter by it.
CATEGORIES = {
    "region": "one call of a compiled function",
    "graph": "a compiled graph, its forward or its backward",
    "kernel": "a generated kernel ran",
    "library": "a routine of a library ran (BLAS, NumPy)",
    "launch": "a kernel was launched on a GPU, where it is an event of its own",
    "cuda_driver": "a call of CUDA's driver that began something on the GPU (with CUPTI)",
    "cuda_runtime": "the same, of CUDA's runtime",
    "gpu_memcpy": "a copy by the GPU (with CUPTI)",
    "gpu_memset": "memory filled by the GPU (with CUPTI)",
    "user_annotation": "a range of record_function, or a step of the profiler",
    "compile": "a phase of a compile",
    "import": "modules were imported (`cutaway profile` only)",
    "instant": "a graph break, a recompile, a guard that failed",
    "memory": "memory was allocated",
    "profiler": "time that the profiler itself took",
}


@dataclass(eq=False, slots=True)
class ProfilerEvent:
    """Times are time.perf_counter_ns(). `flow` joins a forward to its backward: both have the same number."""

    name: str
    category: str
    start_ns: int
    duration_ns: int
    thread: int
    args: dict[str, Any] = field(default_factory=dict)
    stack: tuple[str, ...] = ()  # innermost first
    flow: int | None = None
    children: list[ProfilerEvent] = field(default_factory=list, repr=False)
    parent: ProfilerEvent | None = field(default=None, repr=False)
    source: Any = field(default=None, repr=False)  # of a kernel or a routine: (its program, its step)
    sizes: dict[str, int] | None = field(default=None, repr=False)  # open ones, as they were in this call
    device: int | None = None  # the GPU that it ran on; `thread` is its stream there
    launch: int | None = None  # of a launch, and of what it began on the GPU: the same number
    device_ns: int = 0  # how long the GPU ran for it and for what is inside it

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns

    @property
    def self_ns(self) -> int:
        """Its time without that of the events inside it."""
        return self.duration_ns - sum(child.duration_ns for child in self.children)

    @property
    def memory(self) -> int:
        """Bytes allocated in it and in what is inside."""
        return self.args.get("Bytes", 0) + sum(child.memory for child in self.children)


@dataclass(frozen=True)
class Timed:
    """What the events of something that runs often have in common."""

    name: str
    category: str
    args: dict[str, Any] = field(default_factory=dict)
    source: Any = None

    def event(
        self, start_ns: int, duration_ns: int, thread: int, sizes: dict[str, int] | None = None
    ) -> ProfilerEvent:
        made = ProfilerEvent(self.name, self.category, start_ns, duration_ns, thread, self.args)
        made.source, made.sizes = self.source, sizes
        return made


class Recorder:
    """The events of one recording, and what each has beside its times."""

    def __init__(self, shapes: bool = False, memory: bool = False, stacks: bool = False) -> None:
        self.shapes, self.memory, self.stacks = shapes, memory, stacks
        self.gpu: Any = None  # a GpuObserver (gpu.py), if a GPU is recorded
        self.events: list[ProfilerEvent] = []
        # calls of C++: what they ran, when each of it began and the last ended, on which thread, with which open sizes
        self.stamped: list[tuple[tuple[Timed, ...], Any, int, dict[str, int] | None]] = []
        self.begun_ns = time.perf_counter_ns()
        self._threads = threading.local()

    def begin(self, name: str, category: str, **args: Any) -> ProfilerEvent:
        """An event that begins now, on this thread; `end` gives it its duration and keeps it."""
        stack = user_stack() if self.stacks else ()
        here = threading.get_ident()
        return ProfilerEvent(name, category, time.perf_counter_ns(), 0, here, args, stack)

    def end(self, event: ProfilerEvent, keep: bool = True) -> None:
        event.duration_ns = time.perf_counter_ns() - event.start_ns
        if keep:
            self.events.append(event)

    def open_regions(self) -> list[ProfilerEvent]:
        """The regions that this thread is in, outermost first."""
        if not hasattr(self._threads, "regions"):
            self._threads.regions = []
        found: list[ProfilerEvent] = self._threads.regions
        return found

    def recorded(self) -> list[ProfilerEvent]:
        """The events since it began, those of what C++ noted among them."""
        made = [
            step.event(begun, ended - begun, thread, sizes)
            for steps, stamps, thread, sizes in self.stamped
            for step, begun, ended in zip(steps, stamps[:-1].tolist(), stamps[1:].tolist(), strict=True)
        ]
        kept = [event for event in (*self.events, *made) if event.start_ns >= self.begun_ns]
        return kept if self.gpu is None else [*kept, *self.gpu.ran(kept, self.begun_ns)]

    def clear(self) -> None:
        """Forget what was recorded: a warm-up is over."""
        self.events.clear()
        self.stamped.clear()
        self.begun_ns = time.perf_counter_ns()


def nested(events: list[ProfilerEvent]) -> list[ProfilerEvent]:
    """The events of every thread by start, each with its parent and children: what lies in its time, on its thread
    (of a GPU: on its stream)."""
    ordered = sorted(events, key=lambda e: (e.start_ns, -e.duration_ns))
    for event in ordered:
        event.parent, event.children = None, []
    open_: dict[tuple[int | None, int], list[ProfilerEvent]] = {}
    for event in ordered:
        around = open_.setdefault((event.device, event.thread), [])
        while around and around[-1].end_ns < event.end_ns:
            around.pop()
        if around:
            event.parent = around[-1]
            around[-1].children.append(event)
        if event.category not in ("instant", "memory"):
            around.append(event)
    return ordered


# The recorder in force, for those who cannot be handed it: ranges of the user's.
ACTIVE: list[Recorder] = []
