"""Independent branches of a program on streams of their own, where a GPU has room for them: `parallel_streams`.

Input: a Program for a GPU before its memory is planned, all on the caller's stream. Steps keep their order; each gets
the stream on which it can begin first, in a simulation with the costs of stream_costs.py. Then come the events: only
those that say what no earlier one has said. Memory is planned after that, by what the events order.
"""

# In a CUDA graph a stream and an event are edges, and cost the host nothing. A plain call pays 1 to 2 us of the host's
# time for each of them, which is as much as a launch; so by default only programs that become graphs are looked at.

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage4_runtime.runtime import stream_costs
from stage4_runtime.runtime.stream_costs import Cost, cost_of, staying
from stage_contracts import config, events
from stage_contracts.program import Collective, External, Program, RecordEvent, Return, WaitEvent
from stage_contracts.shared_memory import memory_uses
from stage_contracts.size_vars import late_sizes
from stage_contracts.stream_order import NOTHING, has_streams

BEGINNING = -1  # the position of the caller's work


def parallel_streams(program: Program) -> Program:
    """The program, its independent branches side by side where that pays."""
    how = config.current().runtime.parallel_streams
    if not _may(program, how):
        return program
    before = dependencies(program)
    placed = place(program, before, free_of_charge=how == "force")
    gained = placed.alone - placed.together
    if how != "force" and gained < max(stream_costs.LEAST, stream_costs.LEAST_PART * placed.alone):
        return program
    made = with_events(program, placed.streams, before)
    waits = sum(isinstance(step, WaitEvent) for step in made.steps)
    if not waits or (how != "force" and gained < stream_costs.EVENT * waits):
        return program
    events.record("policy", "parallel_streams", program=program.name, streams=len({*placed.streams}), waits=waits,
                  predicted=f"{placed.alone:.0f} us on one stream, {placed.together:.0f} so")  # fmt: skip
    return made


def _may(program: Program, how: str) -> bool:
    if program.device.type != "cuda" or how == "off" or has_streams(program):
        return False
    if how == "auto" and not config.current().runtime.cuda_graphs:
        return False
    talks = any(
        isinstance(step, Collective) for step in program.steps
    )  # it has a stream of its own beside it
    return not talks and not late_sizes(program.sizes, program.inputs)


def dependencies(program: Program) -> list[set[int]]:
    """Of each step: the earlier steps that must be done when it begins. The return waits for all."""
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    found = []
    for position, (names, written) in enumerate(memory_uses(program)):
        before = {writer[name] for name in names if name in writer}
        for name in names:
            if name in written:
                before.update(readers.pop(name, ()))
                writer[name] = position
            else:
                readers.setdefault(name, []).append(position)
        found.append(before - {position})
    return found


# ---- which stream --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """The stream of each step; microseconds of them all on one stream, and as they are placed."""

    streams: list[int]
    alone: float
    together: float


def place(program: Program, before: Sequence[set[int]], free_of_charge: bool = False) -> Placed:
    """Each step on the stream where it begins first. `free_of_charge`: as if every step left room for others."""
    streams: list[int] = []
    done: list[float] = []
    free = [0.0]  # when each stream has done what it has
    running: list[tuple[float, float]] = []  # (until when, share), sorted
    alone = 0.0
    for step, needed in zip(program.steps, before, strict=True):
        own = cost_of(step, program)
        cost = own or staying(step, program)
        cost = replace(cost, share=0.0) if free_of_charge and own else cost
        cost = Cost(0.0, 0.0) if isinstance(step, Return) else cost
        may = range(min(len(free) + 1, stream_costs.STREAMS)) if own else range(1)
        ready = {s: _ready(s, needed, streams, done) for s in may}
        begins = {
            s: _room(running, max(ready[s], free[s] if s < len(free) else 0.0), cost.share) for s in may
        }
        makers = {streams[p] for p in needed}
        home = stream_costs.EVENT * (
            0 in makers and len(makers) > 1
        )  # to join elsewhere needs one more event
        stream = min(may, key=lambda s: (begins[s] + home * (s > 0), s not in makers, s))
        end = begins[stream] + cost.time
        free[stream : stream + 1] = [end]  # or one more stream
        insort(running, (end, cost.share))
        streams.append(stream)
        done.append(end)
        alone += cost.time
    return Placed(streams, alone, max(free) + stream_costs.EVENT * (len(free) > 1))


def _ready(stream: int, needed: set[int], streams: list[int], done: list[float]) -> float:
    """When all is done that a step on this stream waits for."""
    at = stream_costs.EVENT if stream else 0.0  # of the beginning
    return max([at, *(done[p] + stream_costs.EVENT * (streams[p] != stream) for p in needed)])


def _room(running: list[tuple[float, float]], at: float, share: float) -> float:
    """The first moment from `at` on at which that share of the device is free."""
    still = running[bisect_right(running, (at, 2.0)) :]
    if sum(part for _, part in still) + share <= 1.0:
        return at
    for k, (end, _) in enumerate(still, 1):
        if sum(part for _, part in still[k:]) + share <= 1.0:
            return end
    return at


# ---- the events ----------------------------------------------------------------------------------------------------


def with_events(program: Program, streams: Sequence[int], before: Sequence[set[int]]) -> Program:
    """The steps on these streams, with the events that order them. None says what others say together."""
    end = len(program.steps) - 1
    last = {stream: position for position, stream in enumerate(streams) if stream and position != end}
    count = max(streams, default=0) + 1
    now = [[NOTHING] * count for _ in range(count)]  # what each stream knows to be done, as in StreamOrder
    now[0][0] = 0
    past: dict[int, list[int]] = {BEGINNING: [0] + [NOTHING] * (count - 1)}
    waits: list[list[int]] = []
    for position, stream in enumerate(streams):
        here = now[stream]
        needed = {
            *before[position],
            *(last.values() if position == end else ()),
            *([BEGINNING] if stream else ()),
        }
        waits.append([])
        for other in sorted(needed, reverse=True):
            of = streams[other] if other >= 0 else 0
            if of != stream and here[of] <= other:
                waits[-1].append(other)
                here[:] = map(max, here, past[other])
        here[stream] = position + 1
        past[position] = [*here]
    recorded = sorted({other for each in waits for other in each})
    numbers = {position: number for number, position in enumerate(recorded)}
    return program.with_(steps=tuple(_steps(program, streams, waits, numbers)))


def _steps(
    program: Program, streams: Sequence[int], waits: Sequence[Sequence[int]], numbers: dict[int, int]
) -> Iterator[Any]:
    if BEGINNING in numbers:
        yield RecordEvent(numbers[BEGINNING], 0)
    for position, (step, stream) in enumerate(zip(program.steps, streams, strict=True)):
        yield from (WaitEvent(numbers[other], stream) for other in waits[position])
        yield _on(step, stream)
        if position in numbers:
            yield RecordEvent(numbers[position], stream)


def _on(step: Any, stream: int) -> Any:
    """The step on that stream. Off the caller's, a routine writes to planned memory: new memory is the caller's."""
    if not stream:
        return step
    return (
        replace(step, stream=stream, into=True)
        if isinstance(step, External)
        else replace(step, stream=stream)
    )
