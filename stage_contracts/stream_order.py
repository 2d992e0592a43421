"""What is done before each step of a Program begins: the order that streams and their events give, as vector clocks.

Input: a Program. The steps of a stream run in order. Steps of two streams run in any order, unless one stream waits for
an event that the other has recorded (Lamport's "happens before"; the clocks are Mattern's and Fidge's, 1988).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stage_contracts.program import Copy, External, Launch, Program, RecordEvent, WaitEvent

# For each stream, how many of the program's steps are known to be past there: all of its steps at lower positions are
# done. The caller's own work counts as done before position 0 of stream 0.
Clock = tuple[int, ...]
NOTHING = -1  # not even the caller's work


def stream_of(step: Any) -> int:
    """The stream of a step; what has none is issued on the caller's, which is 0."""
    return step.stream if isinstance(step, Launch | External | Copy | RecordEvent | WaitEvent) else 0


def has_streams(program: Program) -> bool:
    """Whether some step is not simply on the caller's stream."""
    return any(isinstance(step, RecordEvent | WaitEvent) or stream_of(step) for step in program.steps)


@dataclass(frozen=True)
class StreamOrder:
    """`streams` and `clocks`, of each step by position; the clock says what is done when the step begins."""

    streams: tuple[int, ...]
    clocks: tuple[Clock, ...]

    @cached_property
    def count(self) -> int:
        return max(self.streams, default=0) + 1

    def is_before(self, earlier: int, later: int) -> bool:
        """Whether the first step is always done when the second begins."""
        return self.clocks[later][self.streams[earlier]] > earlier

    def until(self, positions: Iterable[int]) -> Clock:
        """The clock of whoever begins when these steps are done, and no others need be."""
        ends = [NOTHING] * self.count
        for position in positions:
            ends[self.streams[position]] = max(ends[self.streams[position]], position + 1)
        return tuple(ends)

    def after(self, positions: Iterable[int]) -> Clock:
        """What is done when the first of these steps begins, whichever that is."""
        return tuple(map(min, zip(*(self.clocks[p] for p in positions), strict=True)))


def covers(clock: Clock, other: Clock) -> bool:
    """Whether all is done at `clock` that is done at `other`."""
    return all(a >= b for a, b in zip(clock, other, strict=True))


def stream_order(program: Program) -> StreamOrder:
    """The order of the program's steps. A wait for an event that nobody has recorded waits for nothing."""
    streams = tuple(map(stream_of, program.steps))
    count = max(streams, default=0) + 1
    now = [[0 if stream == 0 == other else NOTHING for other in range(count)] for stream in range(count)]
    events: dict[int, list[int]] = {}
    clocks = []
    for position, (step, stream) in enumerate(zip(program.steps, streams, strict=True)):
        here = now[stream]
        clocks.append(tuple(here))
        if isinstance(step, WaitEvent):
            here[:] = map(max, here, events.get(step.event, here))
        here[stream] = position + 1
        if isinstance(step, RecordEvent):
            events[step.event] = [*here]
    return StreamOrder(streams, tuple(clocks))
