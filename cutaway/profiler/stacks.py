"""Stacks of the user's Python: taken where an event begins, and written as the lines of a flame graph.

Input: the frames of the caller, then a recording. What `write_stacks` writes, flamegraph.pl and speedscope read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.profiler.events import ProfilerEvent

ROOT = Path(__file__).resolve().parents[2]
# Our own frames say nothing to the user, and neither does generated code.
OURS = (*(f"{ROOT / name}/" for name in
          "cutaway stage_contracts stage0_eager stage1_capture stage2_autograd stage3_lowering stage4_runtime".split()),
        "<cutaway")  # fmt: skip
METRICS = {"self_cpu_time_total": lambda event: event.self_ns // 1000}


def user_stack() -> tuple[str, ...]:
    """`file(line): function` of each frame of the program's, innermost first."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_qualname}")
        frame = frame.f_back
    return tuple(found)


def stack_of(event: ProfilerEvent) -> tuple[str, ...]:
    """An event's own stack, or that of the nearest one around it: what runs in C has none of its own."""
    around: Any = event
    while around is not None and not around.stack:
        around = around.parent
    return around.stack if around is not None else ()


def write_stacks(events: Iterable[ProfilerEvent], path: str, metric: str = "self_cpu_time_total") -> None:
    """One line for each stack: its frames from the outermost, the event, and microseconds of the event itself."""
    if metric not in METRICS:
        raise ValueError(f"export_stacks has no metric {metric!r}; it has {', '.join(METRICS)}")
    found: Counter[str] = Counter()
    for event in events:
        stack = stack_of(event)
        if stack and (spent := METRICS[metric](event)) > 0:
            frames = [*reversed(stack), event.name]
            found[";".join(frame.replace(";", ",").replace(" ", "_") for frame in frames)] += spent
    lines = [f"{stack} {spent}" for stack, spent in found.items()]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
