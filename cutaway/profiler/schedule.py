"""Which steps of a loop a profiler records: wait, warm up, record, in cycles.

Input: numbers of steps. Output: a function of the step's number, as `profile(schedule=...)` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class ProfilerAction(Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1  # the timers are in, what they record is dropped
    RECORD = 2
    RECORD_AND_SAVE = 3  # the last of a cycle: then the trace is ready


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Leave out `skip_first` steps; then `repeat` cycles (0: no end) of `wait`, `warmup` and `active` steps."""
    numbers = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    wrong = [f"{name}={n!r}" for name, n in numbers.items() if type(n) is not int or n < 0]
    if wrong or active < 1:
        said = ", ".join(wrong or [f"active={active!r}"])
        raise ValueError(f"schedule expects numbers of steps, and active at least 1, got {said}")

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"a step's number is 0 or more, got {step}")
        cycle, at = divmod(step - skip_first, wait + warmup + active)
        if step < skip_first or (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action_of


def every_step(_: int) -> ProfilerAction:
    """Without a schedule all is recorded, and the trace is ready at the end."""
    return ProfilerAction.RECORD
