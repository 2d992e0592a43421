"""Where the time of a recording went: its parts, which add up to the whole, and each kernel beside this machine's best.

Input: the events of a recording, nested, and the seconds that it took. An event's own time is that without the events
inside it, so nothing counts twice. The parts are those of the thread that ran the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cutaway.profiler.costs import Cost, cost
from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.peaks import Peaks, measured_peaks
from cutaway.profiler.stacks import OURS

# part -> what it is, and the categories of events whose own time is in it
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kernels": ("generated kernels", ("kernel",)),
    "libraries": ("routines of libraries: BLAS, NumPy", ("library",)),
    "gaps": (
        "in a graph, between its kernels: allocations, arrays in and out",
        ("graph", "launch", "cuda_driver", "cuda_runtime"),
    ),
    "guards": ("around graphs: guards, and the Python that a break leaves", ("region", "guards")),
    "compiling": ("phases of compiles", ("compile",)),
    "importing": ("modules, the first time that a statement names them", ("import",)),
    "outside": ("outside of compiled functions: eager operators, your Python", ()),
}


@dataclass
class KernelTime:
    """A kernel or routine of one program, all its runs together."""

    name: str
    program: str
    category: str
    lines: list[str]  # of the program; the library's only if there are no others
    seconds: float = 0.0
    count: int = 0
    cost: Cost | None = None  # of one run, the last
    least: float | None = None  # seconds that all its runs would take at this machine's best
    bound: str = ""

    @property
    def share(self) -> float | None:
        """The part of this machine's best that it reaches, at most 1."""
        return None if self.least is None or not self.seconds else min(self.least / self.seconds, 1.0)


@dataclass
class TimeSpent:
    """`parts`: seconds by the names of PARTS. `kernels`: longest first."""

    seconds: float
    parts: dict[str, float]
    kernels: list[KernelTime]
    events: list[ProfilerEvent] = field(repr=False)

    def of(self, part: str) -> float:
        return self.parts[part] / self.seconds if self.seconds else 0.0


def time_spent(events: list[ProfilerEvent], seconds: float, thread: int, peaks: Peaks) -> TimeSpent:
    """What `events` say about a run of `seconds`, on this thread."""
    parts = dict.fromkeys(PARTS, 0.0)
    part_of = {category: part for part, (_, categories) in PARTS.items() for category in categories}
    ours = 0.0  # the profiler's own work, which is not the program's
    for event in events:
        if event.thread != thread:
            continue
        if event.category == "profiler":
            ours += event.self_ns / 1e9
        elif event.category in part_of:
            parts[part_of[event.category]] += max(event.self_ns, 0) / 1e9
    seconds = max(seconds - ours, 0.0)
    parts["outside"] = max(seconds - sum(parts.values()), 0.0)
    return TimeSpent(seconds, parts, kernel_times(events, peaks), events)


def kernel_times(events: Iterable[ProfilerEvent], peaks: Peaks) -> list[KernelTime]:
    """One row for each kernel or routine of a program, and set of lines, the longest first."""
    rows: dict[Any, KernelTime] = {}
    for event in events:
        if event.category not in ("kernel", "library"):
            continue
        source = event.source
        key = event.name, id(event.args) if source is None else (id(source[0]), id(source[1]))
        row = rows.get(key)
        if row is None:
            program, lines = event.args.get("program", ""), event.args.get("lines", [])
            theirs = [line for line in lines if not line.startswith(OURS)] or lines
            row = rows[key] = KernelTime(event.name, program, event.category, theirs)
        row.seconds += event.duration_ns / 1e9
        row.count += 1
        found = cost(source[0], source[1], event.sizes) if source is not None else None
        if found is not None and found.flops is not None:
            row.cost, dtype = found, _dtype(*source)
            best = peaks if event.device is None else measured_peaks("cuda")
            row.least = (row.least or 0.0) + best.least_seconds(found, dtype)
            row.bound = best.bound(found, dtype)
    return sorted(rows.values(), key=lambda row: -row.seconds)


def _dtype(program: Any, step: Any) -> str:
    """The dtype whose arithmetic counts: that of the last buffer that the step names."""
    names = getattr(step, "buffers", None) or getattr(step, "outputs", None) or ()
    return program.buffers[names[-1]].meta.dtype.name if names else "float32"
