"""What ran on the GPU, and when: CUPTI's records if its package is installed, otherwise CUDA events around launches.

Input: whether a recording asks for ProfilerActivity.CUDA. `observer()` begins to note; what it notes becomes events
after the recording, each with the number of the launch that it came from: a trace joins the two by an arrow.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

from cutaway.profiler.events import ProfilerEvent, Timed
from cutaway.profiler.gpu_records import GpuRecords
from cutaway.profiler.gpu_timers import GpuTimers
from stage0_eager.arrays import cupy
from stage_contracts.report import report_once


class GpuObserver(Protocol):
    """Notes what the GPU runs, from when it is made to `stop`."""

    def begins(self, what: Timed, stream: int | None = None) -> Callable[[ProfilerEvent], None] | None:
        """This is launched now, on that stream or on the current one. What is returned, if anything, is called with
        its event once it was."""

    def stop(self) -> None:
        """Wait for the GPU, and note no more."""

    def ran(self, events: list[ProfilerEvent], since_ns: int) -> list[ProfilerEvent]:
        """The events to add to these, which are the CPU's: what ran on the GPU since then, and the calls for it."""


def gpu_available() -> bool:
    """Whether there is a GPU that programs can use. CuPy is imported only if it is installed."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return False
    try:
        return int(cupy().cuda.runtime.getDeviceCount()) > 0
    except Exception:  # a driver that is missing or too old, in CuPy's own classes of error
        return False


def observer() -> GpuObserver:
    """CUPTI's records, if it can be had here; otherwise CUDA events."""
    library = cupy()
    if importlib.util.find_spec("cupti") is not None:
        try:
            return GpuRecords(library)
        except Exception as error:  # another profiler has it, or the driver refuses
            report_once(f"cutaway: CUPTI cannot be used ({error}); kernels are timed by CUDA events")
    return GpuTimers(library)


def add_to_launches(events: Iterable[ProfilerEvent]) -> None:
    """Each event of the CPU says how long the GPU ran for it and for what is inside it. The events are nested."""
    kept = list(events)
    took: dict[int, int] = {}
    for event in kept:
        if event.device is not None and event.launch is not None:
            took[event.launch] = took.get(event.launch, 0) + event.duration_ns
    for event in kept:
        if event.device is None and event.launch in took:
            around: ProfilerEvent | None = event
            while around is not None:
                around.device_ns += took[event.launch]
                around = around.parent
