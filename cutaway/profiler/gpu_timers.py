"""Kernels on the GPU timed by CUDA events: one before each launch, one behind it, on the launch's stream.

Input: CuPy. The clocks of GPU and CPU are compared once, when the recording begins. What a CUDA graph replays is one
event, and what eager operators launch is none: CUPTI (gpu_records.py) sees those.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from cutaway.profiler.events import ProfilerEvent, Timed

COMPARISONS = 8  # of the clocks; the quickest is the most exact


class GpuTimers:
    """A GpuObserver (gpu.py)."""

    def __init__(self, cp: Any) -> None:
        self._cuda = cp.cuda
        self._device = int(cp.cuda.runtime.getDevice())
        self._zero, self._zero_ns = min(
            (self._compared() for _ in range(COMPARISONS)), key=lambda compared: compared[2]
        )[:2]
        self._noted: list[tuple[ProfilerEvent, Any, Any, int]] = []

    def _compared(self) -> tuple[Any, int, int]:
        """An event of the GPU's, when it was by our clock, and how long that took to find out."""
        event = self._cuda.Event()
        self._cuda.Device().synchronize()
        before = perf_counter_ns()
        event.record()
        event.synchronize()
        after = perf_counter_ns()
        return event, (before + after) // 2, after - before

    def begins(self, what: Timed, stream: int | None = None) -> Callable[[ProfilerEvent], None] | None:
        on = self._cuda.get_current_stream()
        if stream not in (None, on.ptr):  # a step of a program with several streams
            on = self._cuda.ExternalStream(stream)
        if on.is_capturing() or int(self._cuda.runtime.getDevice()) != self._device:
            return None
        began, ended = self._cuda.Event(), self._cuda.Event()
        began.record(on)

        def over(launch: ProfilerEvent) -> None:
            ended.record(on)
            self._noted.append((launch, began, ended, int(on.ptr)))

        return over

    def stop(self) -> None:
        self._cuda.Device(self._device).synchronize()

    def ran(self, events: list[ProfilerEvent], since_ns: int) -> list[ProfilerEvent]:
        between = self._cuda.get_elapsed_time
        streams: dict[int, int] = {}
        ends: dict[int, int] = {}
        found = []
        for number, (launch, began, ended, pointer) in enumerate(self._noted):
            if launch.start_ns < since_ns:
                continue
            stream = streams.setdefault(pointer, len(streams))
            start = self._zero_ns + round(between(self._zero, began) * 1e6)
            start = max(start, launch.start_ns, ends.get(stream, 0))  # clocks differ by some microseconds
            took = round(between(began, ended) * 1e6)
            args = {**launch.args, "stream": stream, "timed by": "CUDA events"}
            event = ProfilerEvent(launch.name, "kernel", start, took, stream, args)
            event.source, event.device, event.launch = launch.source, self._device, number
            launch.launch, ends[stream] = number, event.end_ns
            found.append(event)
        return found
