"""The race detector: pairs of steps that use the same memory, of which one writes, and that no stream or event orders.

Input: a Program, planned or not. A program on one stream has no race, and is not looked at. `check_races` raises
GraphError; `races` lists what it finds: each with what was seen, what was expected, and the event that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from stage_contracts.graph import GraphError
from stage_contracts.program import (
    Allocate,
    External,
    Free,
    Program,
    RecordEvent,
    Return,
    WaitEvent,
    step_accesses,
)
from stage_contracts.program_steps import print_step
from stage_contracts.shared_memory import memory_uses
from stage_contracts.size_vars import never_below
from stage_contracts.stream_order import StreamOrder, covers, has_streams, stream_order

BEGINNING = -1  # the position of what the caller did before


@dataclass(frozen=True)
class Race:
    """Two steps by position, the buffer, and what to say of them."""

    earlier: int
    later: int
    buffer: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Use:
    position: int
    writes: bool


def check_races(program: Program) -> Program:
    """The program; raises GraphError with its first race, if it has one."""
    found = races(program)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise GraphError(f"program {program.name}: {found[0]}{more}")
    return program


def races(program: Program) -> list[Race]:
    """All of them, in the order of the later step."""
    if not has_streams(program):
        return []
    order, uses = stream_order(program), _uses(program)
    found = [
        *_waits_for_nobody(program),
        *_before_the_caller(program, order),
        *_in_a_buffer(program, order, uses),
        *_in_a_pool(program, order, uses),
        *_allocated_or_freed(program, order, uses),
        *_after_the_return(program, order),
    ]
    return sorted(found, key=lambda race: (race.later, race.earlier))


def _uses(program: Program) -> dict[str, list[Use]]:
    """Who uses the memory of each buffer, in order."""
    found: dict[str, list[Use]] = {}
    for position, (names, written) in enumerate(memory_uses(program)):
        for name in names:
            found.setdefault(name, []).append(Use(position, name in written))
    return found


# ---- the rules -------------------------------------------------------------------------------------------------


def _waits_for_nobody(program: Program) -> Iterator[Race]:
    recorded: set[int] = set()
    for position, step in enumerate(program.steps):
        if isinstance(step, RecordEvent):
            recorded.add(step.event)
        if isinstance(step, WaitEvent) and step.event not in recorded:
            yield Race(position, position, "", (
                f"{_shown(program, position)} waits for event {step.event}, which no earlier step records, so it waits "
                f"for nothing; expected record_event({step.event}, ...) before it"
            ))  # fmt: skip


def _before_the_caller(program: Program, order: StreamOrder) -> Iterator[Race]:
    """The caller's stream may still write the inputs, and read or write the pools, when a side stream begins."""
    seen = {0}
    for position, step in enumerate(program.steps):
        stream, (reads, writes) = order.streams[position], step_accesses(step, program.kernels)
        if stream in seen or not (reads or writes) or order.clocks[position][0] >= 0:
            continue
        seen.add(stream)
        yield Race(BEGINNING, position, (*reads, *writes)[0], (
            f"{_shown(program, position)} may run before the caller's work is done, which makes the inputs and uses "
            f"the pools; expected stream {stream} to wait first: add record_event(n, stream=0) at the beginning and "
            f"wait_event(n, stream={stream}) before this step"
        ))  # fmt: skip


def _in_a_buffer(program: Program, order: StreamOrder, uses: dict[str, list[Use]]) -> Iterator[Race]:
    for name, of_it in uses.items():
        for a, b in combinations(of_it, 2):
            if (a.writes or b.writes) and not order.is_before(a.position, b.position):
                what = f"both use {name}, and {_writers(a, b)}"
                yield _unordered(program, order, a.position, b.position, name, what)


def _writers(a: Use, b: Use) -> str:
    return "both write it" if a.writes and b.writes else f"the {'first' if a.writes else 'second'} writes it"


def _in_a_pool(program: Program, order: StreamOrder, uses: dict[str, list[Use]]) -> Iterator[Race]:
    """Two buffers in the same bytes. (That one is not used while the other is, `Program.verify` checks.)"""
    placed = [(name, program.buffers[name].slot) for name in uses if program.buffers[name].slot is not None]
    spans = {n: (order.after([u.position for u in uses[n]]), order.until([u.position for u in uses[n]]))
             for n, _ in placed}  # fmt: skip
    for (one, slot), (other, its) in combinations(placed, 2):
        if slot.pool != its.pool or _apart(slot, its):  # type: ignore[union-attr]
            continue
        (after, until), (its_after, its_until) = spans[one], spans[other]
        if covers(its_after, until) or covers(after, its_until):
            continue
        for a, name, b, second in _in_turn(uses, one, other):
            if (a.writes or b.writes) and not order.is_before(a.position, b.position):
                what = f"{second} has bytes of the pool that {name} has, too"
                yield _unordered(program, order, a.position, b.position, name, what)
                break


def _apart(slot: Any, other: Any) -> bool:
    """Whether two places in a pool share no byte."""
    return never_below(other.offset, slot.offset + slot.nbytes) or never_below(
        slot.offset, other.offset + other.nbytes
    )


def _in_turn(uses: dict[str, list[Use]], one: str, other: str) -> Iterator[tuple[Use, str, Use, str]]:
    """Each use of one with each use of the other by another step, the earlier first."""
    for a in uses[one]:
        for b in uses[other]:
            if a.position < b.position:
                yield a, one, b, other
            elif b.position < a.position:
                yield b, other, a, one


def _allocated_or_freed(program: Program, order: StreamOrder, uses: dict[str, list[Use]]) -> Iterator[Race]:
    """Memory outside the pools comes from the caller's stream and goes back to it.

    What it gives may have been freed on stream 0 just before, by a `free` or inside a library, so who uses it must have
    waited for that; and all who use it must be done, as stream 0 sees it, when it goes back.
    """
    given_back = 0  # the work on stream 0 below this position may use memory that is free since
    for position, step in enumerate(program.steps):
        for name in _allocated(program, step):
            for use in uses.get(name, ()):
                if use.position >= position and order.clocks[use.position][0] < given_back:
                    what = f"{name} is allocated after the first has freed memory, which it may get"
                    yield _unordered(program, order, given_back - 1, use.position, name, what)
        if isinstance(step, Free) and program.buffers[step.buffer].slot is None:
            for use in uses.get(step.buffer, ()):
                if use.position < position and not order.is_before(use.position, position):
                    what = f"the memory of {step.buffer} goes back to the caller's stream"
                    yield _unordered(program, order, use.position, position, step.buffer, what)
            given_back = position + 1
        elif isinstance(step, External) and not step.stream:
            given_back = position + 1


def _allocated(program: Program, step: Any) -> tuple[str, ...]:
    """The buffers that get memory of their own at this step."""
    if isinstance(step, Allocate):
        return (step.buffer,) if program.buffers[step.buffer].slot is None else ()
    return step.outputs if isinstance(step, External) and not step.into else ()


def _after_the_return(program: Program, order: StreamOrder) -> Iterator[Race]:
    """The caller goes on when stream 0 has done what it was given: it reads the results, and memory is used again."""
    end = len(program.steps) - 1
    if not isinstance(program.steps[end], Return):
        return
    last: dict[int, int] = {}
    for position, step in enumerate(program.steps[:end]):
        if any(step_accesses(step, program.kernels)):
            last[order.streams[position]] = position
    for stream, position in last.items():
        if not order.is_before(position, end):
            reads, writes = step_accesses(program.steps[position], program.kernels)
            what = f"the result is returned while stream {stream} may still run"
            yield _unordered(program, order, position, end, (*writes, *reads)[0], what)


# ---- the words -------------------------------------------------------------------------------------------------


def _shown(program: Program, position: int) -> str:
    line = print_step(program.steps[position], program.buffers)[-1]
    return f"`{line}` (step {position})"


def _unordered(
    program: Program, order: StreamOrder, earlier: int, later: int, buffer: str, what: str
) -> Race:
    first, second = order.streams[earlier], order.streams[later]
    return Race(earlier, later, buffer, (
        f"a race: {_shown(program, earlier)} on stream {first} and {_shown(program, later)} on stream {second}: "
        f"{what}; nothing orders them. Expected stream {second} to wait for stream {first}: add "
        f"record_event(n, stream={first}) after step {earlier} and wait_event(n, stream={second}) before step {later}"
    ))  # fmt: skip
