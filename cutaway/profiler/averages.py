"""Events of one name together, with their times, and the table of them: `key_averages().table(sort_by=...)`.

Input: the nested events of a recording. Times are microseconds, as torch's attributes have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.stacks import stack_of
from stage_contracts.messages import did_you_mean


@dataclass
class FunctionEventAvg:
    """All events of one name (and, if asked for, of one set of shapes and one stack)."""

    key: str
    count: int = 0
    self_cpu_time_total: float = 0.0
    cpu_time_total: float = 0.0  # an event inside one of the same name is part of it, and not counted again
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    flops: int = 0  # with with_flops=True
    self_device_time_total: float = 0.0  # on the GPU: what a kernel took
    device_time_total: float = 0.0  # and, of an event of the CPU, what it launched, inside it too
    input_shapes: Any = None
    stack: tuple[str, ...] = ()

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return self.device_time_total / self.count if self.count else 0.0

    # torch's older names
    cuda_time = device_time
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)

    def add(self, event: ProfilerEvent) -> None:
        self.count += 1
        if event.device is not None:
            self.flops += event.args.get("flops", 0)
            self.self_device_time_total += event.duration_ns / 1000
            self.device_time_total += event.duration_ns / 1000
            return
        self.self_cpu_time_total += event.self_ns / 1000
        self.flops += event.args.get("flops", 0)
        own = event.args.get("Bytes", 0)
        self.self_cpu_memory_usage += own + sum(
            c.args.get("Bytes", 0) for c in event.children if is_memory(c)
        )
        around = event.parent
        while around is not None and around.name != event.name:
            around = around.parent
        if around is None:
            self.cpu_time_total += event.duration_ns / 1000
            self.cpu_memory_usage += event.memory
            self.device_time_total += event.device_ns / 1000


def is_memory(event: ProfilerEvent) -> bool:
    return event.category == "memory"


def averages(events: list[ProfilerEvent], by_shape: bool = False, by_stack: int = 0) -> EventList:
    """`events` grouped; points in time (a graph break, an allocation outside of any event) are counted too."""
    found: dict[Any, FunctionEventAvg] = {}
    for event in events:
        shapes = event.args.get("Input Dims") if by_shape else None
        stack = stack_of(event)[:by_stack]
        key = event.name, event.device is not None, str(shapes), stack
        if key not in found:
            found[key] = FunctionEventAvg(event.name, input_shapes=shapes, stack=stack)
        found[key].add(event)
    memory = any(is_memory(event) for event in events)
    flops = any("flops" in event.args for event in events)
    device = any(event.device is not None for event in events)
    return EventList(list(found.values()), Shown(memory, by_shape, bool(by_stack), flops, device))


# ---- the table ---------------------------------------------------------------------------------------------------


@dataclass
class Shown:
    """Which columns there is something to say in."""

    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    flops: bool = False
    device: bool = False


# what `sort_by` may be; torch's older names for the same too
SORT_KEYS: dict[str, Callable[[FunctionEventAvg], float]] = {
    "self_cpu_time_total": lambda row: row.self_cpu_time_total,
    "cpu_time_total": lambda row: row.cpu_time_total,
    "cpu_time": lambda row: row.cpu_time,
    "count": lambda row: row.count,
    "cpu_memory_usage": lambda row: row.cpu_memory_usage,
    "self_cpu_memory_usage": lambda row: row.self_cpu_memory_usage,
    **{f"self_{name}_time_total": lambda row: row.self_device_time_total for name in ("cuda", "device")},
    **{f"{name}_time_total": lambda row: row.device_time_total for name in ("cuda", "device")},
    **{f"{name}_time": lambda row: row.device_time for name in ("cuda", "device")},
}


@dataclass
class EventList:
    """What key_averages() gives: rows to go through, and their table."""

    rows: list[FunctionEventAvg]
    shown: Shown = field(default_factory=Shown)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        return sum(row.self_cpu_time_total for row in self.rows)

    @property
    def self_device_time_total(self) -> float:
        return sum(row.self_device_time_total for row in self.rows)

    def total_average(self) -> FunctionEventAvg:
        """All rows as one."""
        total = FunctionEventAvg("Total", sum(row.count for row in self.rows))
        total.self_cpu_time_total = total.cpu_time_total = self.self_cpu_time_total
        total.self_device_time_total = total.device_time_total = self.self_device_time_total
        total.flops = sum(row.flops for row in self.rows)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        header: str | None = None,
    ) -> str:
        """The rows as text, the largest `sort_by` first (None: in the order in which they ran)."""
        if sort_by is not None and sort_by not in SORT_KEYS:
            hint = did_you_mean(sort_by, SORT_KEYS)
            raise ValueError(f"table cannot sort by {sort_by!r}{hint}; it can by {', '.join(SORT_KEYS)}")
        if not self.rows:
            return "The profiler recorded nothing: call a compiled function while it records."
        rows = self.rows if sort_by is None else sorted(self.rows, key=SORT_KEYS[sort_by], reverse=True)
        whole = self.self_cpu_time_total or 1.0
        kept = rows if row_limit < 0 else rows[:row_limit]
        cells = [self._cells(row, whole, max_name_column_width) for row in kept]
        footer = f"Self CPU time total: {shown_time(whole)}"
        if self.shown.device:
            footer += f"\nSelf CUDA time total: {shown_time(self.self_device_time_total)}"
        return _laid_out([self._names(), *cells], header, footer)

    def _names(self) -> list[str]:
        names = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        names += ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"] * self.shown.device
        names += ["# of Calls"]
        names += ["CPU Mem", "Self CPU Mem"] * self.shown.memory
        names += ["Total MFLOPs"] * self.shown.flops
        return names + ["Input Shapes"] * self.shown.shapes + ["Source Location"] * self.shown.stacks

    def _cells(self, row: FunctionEventAvg, whole: float, width: int) -> list[str]:
        name = row.key if len(row.key) <= width else f"{row.key[: width - 3]}..."
        cells = [
            name, f"{row.self_cpu_time_total / whole:.2%}", shown_time(row.self_cpu_time_total),
            f"{row.cpu_time_total / whole:.2%}", shown_time(row.cpu_time_total), shown_time(row.cpu_time),
        ]  # fmt: skip
        if self.shown.device:
            of = self.self_device_time_total or 1.0
            cells += [shown_time(row.self_device_time_total), f"{row.self_device_time_total / of:.2%}"]
            cells += [shown_time(row.device_time_total), shown_time(row.device_time)]
        cells.append(str(row.count))
        if self.shown.memory:
            cells += [shown_bytes(row.cpu_memory_usage), shown_bytes(row.self_cpu_memory_usage)]
        if self.shown.flops:
            cells.append(f"{row.flops / 1e6:.3f}" if row.flops else "--")
        cells += [str(row.input_shapes or [])] * self.shown.shapes
        return cells + [" < ".join(row.stack)] * self.shown.stacks


def shown_time(us: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


def shown_bytes(count: int) -> str:
    for unit, size in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} b"


def _laid_out(rows: list[list[str]], header: str | None, footer: str) -> str:
    """The first row above a line; numbers to the right, and what is text to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = {i for i, name in enumerate(rows[0]) if name in ("Name", "Input Shapes", "Source Location")}
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(
            cell.ljust(width) if i in text else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    above = [header] if header else []
    return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, footer])
