"""Memory planning: which temporaries may share bytes, and when each is allocated and freed.

Input: a Program of launches, external calls and copies in order. Output: the same steps, with `allocate` before the
first write and `free` after the last use, and a slot in one pool for every temporary that does not escape. The idea is
greedy by size with best fit (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the
largest buffers choose first, and each takes the smallest gap that is large enough. A buffer whose size depends on open
sizes shares a whole pool, and only with buffers that are never larger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stage4_runtime.runtime.donate import donate
from stage4_runtime.runtime.in_place_calls import calls_in_place
from stage4_runtime.runtime.layout import round_up, slot_alignment, span
from stage4_runtime.runtime.parallel_streams import parallel_streams
from stage_contracts import config
from stage_contracts.dtype import DTYPES
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.passes import Pass, PassTable
from stage_contracts.program import (
    Allocate,
    Buffer,
    External,
    Free,
    PoolSlot,
    Program,
    step_accesses,
)
from stage_contracts.races import check_races
from stage_contracts.shared_memory import may_share
from stage_contracts.size_vars import is_open, late_sizes, never_below, sizes_in
from stage_contracts.stream_order import Clock, covers, has_streams, stream_of, stream_order
from stage_contracts.symbolic import hinted

# By device: external routines that can write into memory they are given, for these dtypes. On a GPU they are prepared
# calls of addresses (cuda.py), or the eager kernel and a copy where none can be prepared.
WRITES_INTO: dict[str, dict[str, Collection[str]]] = {
    "cpu": {"matmul": ("float32", "float64")},
    "cuda": {
        "matmul": ("float16", "bfloat16", "float32", "float64"),
        "matmul_add_row": ("float16", "bfloat16"),
        "scatter_add": ("float16", "bfloat16", "float32", "float64", "int32", "int64"),
        "cat": tuple(DTYPES),
    },
}


@dataclass(frozen=True)
class Lifetime:
    """`first` and `last` are step numbers, both included. `escapes`: the caller may keep it.

    Where steps run on several streams, that a number is smaller says nothing. `after`: what is done when it is first
    used. `until`: what must be done before somebody else has its bytes.
    """

    first: int
    last: int
    escapes: bool
    after: Clock = ()
    until: Clock = ()

    def overlaps(self, other: Lifetime) -> bool:
        if self.first <= other.last and other.first <= self.last:
            return True
        return not (covers(self.after, other.until) or covers(other.after, self.until))


def plan_memory(program: Program) -> Program:
    """Give every temporary a pool slot and add the allocate and free steps."""
    return check_races(PLAN_MEMORY.run_as_configured(program).verify())


# ---- the passes ----------------------------------------------------------------------------------------------


def calls_into_memory(program: Program) -> Program:
    """Calls that can write to planned memory are told to. Earlier allocations go."""
    steps = [step for step in program.steps if not isinstance(step, Allocate | Free)]
    return program.with_(steps=tuple(_into(step, program.buffers) for step in steps))


def slots(program: Program) -> Program:
    """A place in a pool for every buffer that a step writes to and that does not escape.

    A buffer whose size is known only in the middle of a run gets memory of its own then.
    """
    lives = lifetimes(program)
    if not config.current().runtime.reuse_memory:
        lives = {name: replace(life, first=0, last=len(program.steps)) for name, life in lives.items()}
    late = late_sizes(program.sizes, program.inputs).keys()
    needs_memory = [
        n for n in _written_in_place(program) if late.isdisjoint(sizes_in(program.buffers[n].meta))
    ]
    spans = {name: span(program.buffers[name].meta) for name in needs_memory if not lives[name].escapes}
    pooled = {name: lives[name] for name, nbytes in spans.items() if not is_open(nbytes)}
    alignment = slot_alignment(program.device)
    offsets, pool_bytes = assign_offsets(pooled, {n: round_up(max(spans[n], 1), alignment) for n in pooled})
    pools: list[Any] = [pool_bytes] if pooled else []
    lanes = assign_lanes({n: lives[n] for n, b in spans.items() if is_open(b)}, spans)

    places = {name: PoolSlot(0, offsets[name], spans[name]) for name in pooled}
    for number, lane in enumerate(lanes, start=len(pools)):
        places |= {name: PoolSlot(number, 0, spans[name]) for name in lane}
    pools += [spans[lane[0]] for lane in lanes]
    buffers = {name: replace(buffer, slot=places.get(name)) for name, buffer in program.buffers.items()}
    return program.with_(buffers=buffers, pools=tuple(pools))


def allocations(program: Program) -> Program:
    """An `allocate` before the first write of each buffer, a `free` after its last use."""
    lives = lifetimes(program)
    needs_memory = _written_in_place(program)
    first = {name: lives[name].first for name in needs_memory}
    last = {name: life.last for name, life in lives.items() if not life.escapes}
    if has_streams(program):
        shared = used_beside(program)
        first |= dict.fromkeys(shared & first.keys(), 0)
        last |= {name: _seen_done(program, lives[name]) for name in shared & last.keys()}
    steps: list[Any] = []
    for number, step in enumerate(program.steps):
        steps += [Allocate(name) for name, at in first.items() if at == number]
        steps.append(step)
        steps += [Free(name) for name, at in last.items() if at == number]
    return program.with_(steps=tuple(steps))


def lifetimes(program: Program) -> dict[str, Lifetime]:
    """When each buffer that the steps define is in use. Inputs and constants are the caller's: not listed."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    uses: dict[str, list[int]] = {}
    escapes: set[str] = set()
    shares: list[tuple[str, str]] = []  # (result, operand whose memory it may share)
    for number, step in enumerate(program.steps):
        reads, writes = step_accesses(step, program.kernels)
        for name in (*reads, *writes):
            if program.buffers[name].role in ("temporary", "output"):
                first.setdefault(name, number)
                last[name] = number
                uses.setdefault(name, []).append(number)
        if may_share(step):
            shares += [(out, read) for out in step.outputs for read in reads if read in first]
    escapes.update(ref.name for ref in buffer_refs(program.return_step.values))
    for result, operand in reversed(shares):  # last results first, so that chains of views carry through
        last[operand] = max(last[operand], last[result])
        uses[operand] += uses[result]
        if result in escapes:
            escapes.add(operand)
    lives = {name: Lifetime(first[name], last[name], name in escapes) for name in first}
    if not has_streams(program):
        return lives
    order = stream_order(program)
    return {
        n: replace(life, after=order.after(uses[n]), until=order.until(uses[n])) for n, life in lives.items()
    }


def used_beside(program: Program) -> set[str]:
    """The buffers with memory of their own that a step off the caller's stream uses.

    That memory is the caller's stream's: it is there before anything is freed, and goes back when that stream has
    waited.
    """
    used = {
        name
        for step in program.steps
        if stream_of(step)
        for names in step_accesses(step, program.kernels)
        for name in names
    }
    return {name for name in used if program.buffers[name].slot is None}


def _seen_done(program: Program, life: Lifetime) -> int:
    """The first step on the caller's stream that begins when a buffer's uses are done: at the latest that before the
    return."""
    order = stream_order(program)
    for number in range(life.last + 1, len(program.steps) - 1):
        if not order.streams[number] and covers(order.clocks[number], life.until):
            return number
    return len(program.steps) - 2


def assign_lanes(lives: Mapping[str, Lifetime], spans: Mapping[str, Any]) -> list[list[str]]:
    """Buffers whose bytes each call decides, in pools of their own: those that take turns share one.

    The first of a lane is the largest at all sizes, so that its bytes are the pool's.
    """
    lanes: list[list[str]] = []
    for name in sorted(lives, key=lambda n: (-hinted(spans[n]), lives[n].first)):
        for lane in lanes:
            free = not any(lives[o].overlaps(lives[name]) for o in lane)
            if free and never_below(spans[lane[0]], spans[name]):
                lane.append(name)
                break
        else:
            lanes.append([name])
    return lanes


def assign_offsets(lives: Mapping[str, Lifetime], sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Offsets such that buffers whose lives overlap never share bytes, and the bytes needed in all."""
    offsets: dict[str, int] = {}
    for name in sorted(lives, key=lambda n: (-sizes[n], lives[n].first)):
        taken = sorted((offsets[o], offsets[o] + sizes[o]) for o in offsets if lives[o].overlaps(lives[name]))
        offsets[name] = _best_gap(taken, sizes[name])
    return offsets, max((offsets[n] + sizes[n] for n in offsets), default=0)


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between `taken` ranges that holds `size` bytes, else their end."""
    best, best_size, end = None, None, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best_size is None or gap < best_size):
            best, best_size = end, gap
        end = max(end, stop)
    return end if best is None else best


def _written_in_place(program: Program) -> list[str]:
    """The buffers that a step writes to, and so must exist before it: not what an external call yields."""
    names: dict[str, None] = {}
    for step in program.steps:
        if isinstance(step, External) and not step.into:
            continue
        for name in step_accesses(step, program.kernels)[1]:
            if program.buffers[name].role in ("temporary", "output"):
                names[name] = None
    return list(names)


def _into(step: Any, buffers: Mapping[str, Buffer]) -> Any:
    """An external call that can write to planned memory is told to."""
    if not isinstance(step, External) or len(step.outputs) != 1:
        return step
    meta = buffers[step.outputs[0]].meta
    dtypes = WRITES_INTO.get(meta.device.type, {}).get(step.target)
    return replace(step, into=meta.is_contiguous and meta.dtype.name in dtypes) if dtypes else step


PLAN_MEMORY = PassTable(
    "plan_memory",
    (
        Pass("donate", donate, "a result that goes into an input is written there at once"),
        Pass("calls_in_place", calls_in_place, "on a GPU a call adds to what only it reads"),
        Pass(
            "calls_into_memory",
            calls_into_memory,
            "what can write to planned memory is told to",
            needed=True,
        ),
        Pass("parallel_streams", parallel_streams, "independent branches run side by side on a GPU"),
        Pass("slots", slots, "a place in a pool for each temporary", needed=True),
        Pass(
            "allocations", allocations, "each buffer exists from its first write to its last use", needed=True
        ),
    ),
    (
        ("donate", "slots", "what an input holds needs no place"),
        ("donate", "calls_in_place", "an update is read by whoever writes it to its input"),
        ("calls_in_place", "slots", "what is changed where it is needs one place"),
        ("donate", "parallel_streams", "an input that is written has readers before"),
        ("calls_in_place", "parallel_streams", "who adds to a buffer waits for who wrote it"),
        ("parallel_streams", "slots", "what runs at the same time shares no bytes"),
        ("calls_into_memory", "slots", "only what a step writes to needs a place"),
        ("slots", "allocations", "the steps say when bytes are taken, and the places which"),
    ),
)
