"""Where compile time went: each phase's own time, without what ran inside it, so that the phases add up to the whole.

Input: "compile", "pass" and "build" events with their times and threads. What ran beside a compile in another thread
(the two halves of a graph are built at once) is told apart, in brackets: it is not on the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from stage_contracts.events import EVENT_LOG, Event

# What steps belong to, in the order of the machine. A step's own passes (decompose.casts) count as the step.
PHASES = {
    "capture": "capture",
    **dict.fromkeys("without_size_inputs functionalize differentiate decompose partition save_hidden_sizes".split(),
                    "ahead-of-time autograd"),
    **dict.fromkeys("lower fuse schedule emit".split(), "lowering"),
    "plan_memory": "memory planning",
    "build": "build",
    "launch": "launch",
    **dict.fromkeys(("compile_guards", "check_guards"), "guards"),
}  # fmt: skip
REST = "other"  # loading the stages at the first compile, verifying, keeping artifacts


@dataclass
class Compile:
    """One compile: its seconds, those of each step itself, and those of work in other threads meanwhile."""

    name: str
    seconds: float
    steps: dict[str, float] = field(default_factory=dict)
    parallel: dict[str, float] = field(default_factory=dict)

    def by_phase(self) -> dict[str, float]:
        """Seconds of each phase. They add up to `seconds`."""
        found: dict[str, float] = {}
        for step, seconds in self.steps.items():
            phase = PHASES.get(step, REST)
            found[phase] = found.get(phase, 0.0) + seconds
        return found


def compiles(events: Iterable[Event] | None = None) -> list[Compile]:
    """Every compile that the event log holds, oldest first, its time divided among the steps."""
    found = EVENT_LOG.since(0) if events is None else events
    timed = sorted((e for e in found if e.kind in TIMED), key=lambda e: (e.start_ns, -e.duration_ns))
    starts = [e.start_ns for e in timed]
    last: dict[Any, Event] = {}  # thread -> its last compile that is inside no other
    made = []
    for first, event in enumerate(timed):
        if event.kind == "compile" and not (event.thread in last and _holds(last[event.thread], event)):
            last[event.thread] = event
            made.append(_divided(event, timed[first + 1 : bisect_right(starts, _end(event))]))
    return made


TIMED = ("compile", "pass", "build")


def _end(event: Event) -> int:
    return event.start_ns + event.duration_ns


def _holds(outer: Event, inner: Event) -> bool:
    return outer.start_ns <= inner.start_ns and _end(inner) <= _end(outer)


def _divided(whole: Event, meanwhile: list[Event]) -> Compile:
    """Each step's own time: its duration less that of the steps directly inside it. `meanwhile`: what began after it
    and before its end, in this order."""
    found = Compile(whole.name, whole.duration_ns / 1e9)
    inside = [e for e in meanwhile if _holds(whole, e)]
    open_: list[Event] = [whole]
    for event in (e for e in inside if e.thread == whole.thread):
        while len(open_) > 1 and not _holds(open_[-1], event):
            open_.pop()
        _add(found.steps, _step(open_[-1], whole), -event.duration_ns)
        _add(found.steps, _step(event, whole), event.duration_ns)
        open_.append(event)
    _add(found.steps, REST, whole.duration_ns)
    beside = sorted((e for e in inside if e.thread != whole.thread), key=lambda e: -e.duration_ns)
    for k, event in enumerate(beside):
        if not any(_holds(o, event) and o.thread == event.thread for o in beside[:k]):
            _add(found.parallel, _step(event, whole), event.duration_ns)
    return found


def _step(event: Event, whole: Event) -> str:
    """The step that an event's time is of: a pass of a step counts as the step."""
    if event is whole or event.kind == "compile":
        return REST
    return "build" if event.kind == "build" else event.name.partition(".")[0]


def _add(table: dict[str, float], name: str, ns: float) -> None:
    table[name] = table.get(name, 0.0) + ns / 1e9


# ---- as torch prints it ------------------------------------------------------------------------------------------


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """torch._dynamo.utils.compile_times: seconds of each phase, one number for each compile; `aggregate` adds them up.

    repr="str" is a table; "csv" is (headers, values), as torch has it. The rows of a compile add up to its first row.
    """
    if repr not in FORMS:
        raise ValueError(f"compile_times has no repr={repr!r}; it has {', '.join(map(builtins_repr, FORMS))}")
    found = compiles()
    rows: dict[str, list[float]] = {"compile": [c.seconds for c in found]}
    for phase in dict.fromkeys([*PHASES.values(), REST]):
        numbers = [c.by_phase().get(phase, 0.0) for c in found]
        if any(numbers):
            rows[f"  {phase}"] = numbers
    for step in dict.fromkeys(s for c in found for s in c.parallel):
        rows[f"  ({step}, in other threads)"] = [c.parallel.get(step, 0.0) for c in found]
    if aggregate:
        rows = {name: [sum(numbers)] for name, numbers in rows.items()}
    return FORMS[repr](rows)


def _as_table(rows: dict[str, list[float]]) -> str:
    lines = ["TorchDynamo compilation metrics:", "Function, Runtimes (s)"]
    for name, numbers in rows.items():
        beside = name.lstrip().startswith("(")
        shown = ", ".join(f"({n:.4f})" if beside else f"{n:.4f}" for n in numbers)
        lines.append(f"{name.replace('(', '').replace(')', '')}, {shown}")
    return "\n".join(lines)


def _as_csv(rows: dict[str, list[float]]) -> tuple[list[str], list[str]]:
    names = [name.strip() for name in rows]
    return names, [";".join(f"{n:.6f}" for n in numbers) for numbers in rows.values()]


FORMS: dict[str, Callable[[dict[str, list[float]]], Any]] = {"str": _as_table, "csv": _as_csv}
builtins_repr = "'{}'".format  # `repr` is torch's name for the parameter
