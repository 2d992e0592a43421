"""What CUPTI records: every kernel and copy on the GPU, by its own name, and the call of the driver that began it.

Input: the package `cupti` (pip install cupti-python, in the version of the driver's CUDA). Unlike CUDA events it sees
what a CUDA graph replays and what eager operators launch, and puts nothing between two kernels.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from cutaway.profiler.events import ProfilerEvent, Timed, nested

ON_GPU = {"CONCURRENT_KERNEL": "kernel", "MEMCPY": "gpu_memcpy", "MEMSET": "gpu_memset"}
CALLS = {"DRIVER": "cuda_driver", "RUNTIME": "cuda_runtime"}
BUFFER = 8 << 20
COMPARISONS = 8  # of the clocks
NEAR_NS = 5_000  # how far the clocks may be apart


@dataclass(frozen=True)
class _Record:
    """One of CUPTI's, which it frees when it has handed it out. Times are CUPTI's."""

    kind: str
    name: str
    start: int
    end: int
    correlation: int
    device: int = 0
    place: int = 0  # the stream or, of a call, the thread
    args: tuple[tuple[str, Any], ...] = ()


class GpuRecords:
    """A GpuObserver (gpu.py). Raises what CUPTI raises where it cannot be had."""

    def __init__(self, cp: Any) -> None:
        cupti = importlib.import_module("cupti.cupti")  # only where a GPU is recorded
        self._cupti, self._synchronize = cupti, cp.cuda.Device().synchronize
        self._kinds = {int(getattr(cupti.ActivityKind, name)): name for name in (*ON_GPU, *CALLS)}
        self._records: list[_Record] = []
        self._synchronize()
        cupti.activity_register_callbacks(lambda: (BUFFER, 0), self._take)
        self._enabled: list[int] = []
        try:
            for kind in self._kinds:
                cupti.activity_enable(kind)
                self._enabled.append(kind)
        except Exception:
            self._disable()
            raise
        self._offset = min(self._compared() for _ in range(COMPARISONS))[1]

    def _compared(self) -> tuple[int, int]:
        """How long it took to compare the clocks, and what is added to CUPTI's."""
        before = perf_counter_ns()
        theirs = int(self._cupti.get_timestamp())
        after = perf_counter_ns()
        return after - before, (before + after) // 2 - theirs

    def _take(self, activities: Iterable[Any]) -> None:
        for one in activities:
            kind = self._kinds.get(int(one.kind))
            if kind in ON_GPU:
                self._records.append(_on_gpu(kind, one))
            elif kind is not None:
                times = int(one.start), int(one.end)
                domain = "DRIVER_API" if kind == "DRIVER" else "RUNTIME_API"
                call = self._cupti.get_callback_name(
                    int(getattr(self._cupti.CallbackDomain, domain)), int(one.cbid)
                )
                place = int(one.thread_id) & 0xFFFFFFFF
                self._records.append(_Record(kind, _text(call), *times, int(one.correlation_id), place=place))

    def _disable(self) -> None:
        for kind in self._enabled:
            self._cupti.activity_disable(kind)
        self._enabled = []

    def begins(self, what: Timed, stream: int | None = None) -> Callable[[ProfilerEvent], None] | None:
        return None

    def stop(self) -> None:
        self._synchronize()
        self._cupti.activity_flush_all(1)
        self._disable()

    def ran(self, events: list[ProfilerEvent], since_ns: int) -> list[ProfilerEvent]:
        calls = {r.correlation: r for r in self._records if r.kind in CALLS}
        threads = {event.thread & 0xFFFFFFFF: event.thread for event in events}
        around = _Around(events)
        begun: dict[int, ProfilerEvent] = {}
        found = []
        for record in sorted((r for r in self._records if r.kind in ON_GPU), key=lambda r: r.start):
            start = record.start + self._offset
            if start < since_ns:
                continue
            args = {"stream": record.place, "correlation": record.correlation, **dict(record.args)}
            took, category = record.end - record.start, ON_GPU[record.kind]
            event = ProfilerEvent(record.name, category, start, took, record.place, args)
            event.device, event.launch = record.device, record.correlation
            call = calls.get(record.correlation)
            if call is not None and record.correlation not in begun:
                begun[record.correlation] = self._call(call, threads, around)
            if launch := begun.get(record.correlation):
                inside = launch.parent
                if inside is not None and inside.category in ("launch", "library"):
                    event.args, event.source = {**inside.args, **args}, inside.source
                event.start_ns = max(event.start_ns, launch.start_ns)
            found.append(event)
        return [*begun.values(), *found]

    def _call(self, record: _Record, threads: dict[int, int], around: _Around) -> ProfilerEvent:
        """The call as an event on its thread, within the event around it: the clocks are not quite the same."""
        start, end = record.start + self._offset, record.end + self._offset
        thread = threads.get(record.place, record.place)
        inside = around.innermost(thread, start + min(NEAR_NS, (end - start) // 2))
        if inside is not None:
            start = min(max(start, inside.start_ns), inside.end_ns)
            end = max(min(end, inside.end_ns), start)
        event = ProfilerEvent(record.name, CALLS[record.kind], start, end - start, thread)
        event.parent, event.launch = inside, record.correlation
        return event


def _on_gpu(kind: str, one: Any) -> _Record:
    times = int(one.start), int(one.end), int(one.correlation_id), int(one.device_id), int(one.stream_id)
    if kind != "CONCURRENT_KERNEL":
        return _Record(kind, "Memcpy" if kind == "MEMCPY" else "Memset", *times, (("bytes", int(one.bytes)),))
    grid, block = ([int(getattr(one, f"{what}_{axis}")) for axis in "xyz"] for what in ("grid", "block"))
    more = ("grid", grid), ("block", block), ("registers per thread", int(one.registers_per_thread))
    return _Record(kind, _text(one.name), *times, more)


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


class _Around:
    """Finds the innermost of the CPU's events at a time."""

    def __init__(self, events: list[ProfilerEvent]) -> None:
        self._of: dict[int, list[ProfilerEvent]] = {}
        for event in nested(list(events)):
            if event.category not in ("instant", "memory"):
                self._of.setdefault(event.thread, []).append(event)

    def innermost(self, thread: int, at_ns: int) -> ProfilerEvent | None:
        events = self._of.get(thread, [])
        place = bisect_right(events, at_ns, key=lambda event: event.start_ns)
        found = events[place - 1] if place else None
        while found is not None and found.end_ns < at_ns:
            found = found.parent
        return found
