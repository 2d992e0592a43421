"""The race detector beside an oracle that runs a program in all orders that its streams allow.

Input: small programs on up to three streams, drawn at random, with and without enough events. In the oracle a step
reads when it begins and writes when it ends, so that two steps overlap; memory is made of bytes, and freed memory goes
to the next who asks.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stage_contracts.device import Device
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import (
    Allocate,
    Buffer,
    Copy,
    External,
    Free,
    PoolSlot,
    Program,
    RecordEvent,
    Return,
    WaitEvent,
    step_accesses,
)
from stage_contracts.races import check_races, races
from stage_contracts.stream_order import stream_of
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda")
POOL = 4  # bytes


def meta(count=1):
    from stage_contracts.dtype import uint8

    return TensorMeta((count,), uint8, None, CUDA)


def program(steps, slots=(), own=(), returns=("x",)):
    """Of inputs x and w, temporaries in slots {name: (offset, bytes)}, and buffers with memory of their own."""
    buffers = {name: Buffer(name, meta(), "input") for name in ("x", "w")}
    for name, (offset, nbytes) in dict(slots).items():
        buffers[name] = Buffer(name, meta(nbytes), "temporary", PoolSlot(0, offset, nbytes))
    buffers |= {name: Buffer(name, meta(), "temporary") for name in own}
    values = Return(tuple(map(BufferRef, returns)))
    return Program("forward", CUDA, ("x", "w"), buffers, {}, (*steps, values), (POOL,) if slots else ())


def call(out, *args, stream=0):
    return External("add", tuple(map(BufferRef, args)), {}, (out,), into=True, stream=stream)


# ---- the oracle ------------------------------------------------------------------------------------------------


def places(of):
    """For each step, where each buffer is then: the names of its bytes. An allocation gets what was freed last."""
    at, free, found = {}, [], []
    for name, buffer in of.buffers.items():
        slot = buffer.slot
        at[name] = [("pool", slot.offset + k) for k in range(slot.nbytes)] if slot else [("own", name)]
    for number, step in enumerate(of.steps):
        own = isinstance(step, Allocate | Free) and of.buffers[step.buffer].slot is None
        if own and isinstance(step, Allocate):
            at = at | {step.buffer: free.pop() if free else [("new", number)]}
        elif own:
            free.append(at[step.buffer])
        found.append(at)
    return found


def work(of):
    """(stream, kind, what) in the order of issue: the caller's work before, the steps, the caller's work after."""
    where = places(of)
    everything = tuple(dict.fromkeys(cell for at in where for cells in at.values() for cell in cells))
    items = [(0, "run", ((), everything))]
    for step, at in zip(of.steps, where, strict=True):
        if isinstance(step, RecordEvent | WaitEvent):
            items.append((step.stream, "record" if isinstance(step, RecordEvent) else "wait", step.event))
            continue
        reads, writes = (tuple(c for n in names for c in at[n]) for names in step_accesses(step, of.kernels))
        if reads or writes:
            items.append((stream_of(step), "run", (reads, writes)))
    return [*items, (0, "run", ((), everything))]


def results_may_differ(of):
    """Whether two orders that the streams and events allow differ in what a step reads, or in who writes after whom."""
    items = work(of)
    recorded, latest = {}, {}  # the record that each wait waits for
    for number, (_, kind, what) in enumerate(items):
        if kind == "record":
            latest[what] = number
        elif kind == "wait":
            recorded[number] = latest.get(what)
    queues = {}
    for number, (stream, *_) in enumerate(items):
        queues.setdefault(stream, []).append(number)
    streams = sorted(queues)
    begin = tuple(
        (0, False) for _ in streams
    )  # of each stream: items that are done, and whether one has begun
    states = {begin: (frozenset(), frozenset())}  # progress -> (memory, what was seen)
    todo = [begin]
    while todo:
        progress = todo.pop()
        done = {n for s, (k, _) in zip(streams, progress, strict=True) for n in queues[s][:k]}
        for which, stream in enumerate(streams):
            count, begun = progress[which]
            if count == len(queues[stream]):
                continue
            number = queues[stream][count]
            if recorded.get(number) is not None and recorded[number] not in done:
                continue
            state, after = _next(states[progress], number, items[number], begun)
            here = (*progress[:which], (count + (after == "done"), after == "begun"), *progress[which + 1 :])
            if here not in states:
                states[here] = state
                todo.append(here)
            elif states[here] != state:
                return True
    return False


def _next(state, number, item, begun):
    memory, seen = dict(state[0]), set(state[1])
    _, kind, what = item
    if kind != "run":
        return state, "done"
    reads, writes = what
    if not begun:
        seen.add(("read", number, tuple(memory.get(cell) for cell in reads)))
        return (state[0], frozenset(seen)), "begun"
    for cell in writes:  # a cell says who wrote it, and who before
        memory[cell] = (*memory.get(cell, ()), number)
    return (frozenset(memory.items()), frozenset(seen)), "done"


# ---- any program -------------------------------------------------------------------------------------------------


@st.composite
def programs(draw, own=False):
    """Steps on three streams, temporaries that share bytes, and events that may or may not be enough."""
    slots = {}
    for name in ("a", "b", "c"):
        nbytes = draw(st.integers(1, 2))
        slots[name] = (draw(st.integers(0, POOL - nbytes)), nbytes)
    names = ("x", "w", *slots)
    steps, events, streams = [], 0, st.integers(0, 2)
    if draw(st.booleans()):  # most programs begin as they should
        steps += [RecordEvent(0, 0), WaitEvent(0, 1), WaitEvent(0, 2)]
        events = 1
    alive = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["call", "copy", "event", "event", *(["own", "free"] if own else [])]))
        stream, given = draw(streams), (*names, *alive)
        if kind == "copy":
            steps.append(Copy(draw(st.sampled_from(given)), draw(st.sampled_from(given)), stream))
        elif kind == "call":
            out, *args = (draw(st.sampled_from(given)) for _ in range(3))
            steps.append(call(out, *args, stream=stream))
        elif kind == "own":
            alive.append(f"o{number}")
            steps += [Allocate(alive[-1]), Copy("x", alive[-1], stream)]
        elif kind == "free" and alive:
            steps.append(Free(alive.pop(draw(st.integers(0, len(alive) - 1)))))
        else:
            steps += [RecordEvent(events, stream), WaitEvent(events, draw(streams))]
            events += 1
    if draw(st.booleans()):
        for stream in (1, 2):
            steps += [RecordEvent(events, stream), WaitEvent(events, 0)]
            events += 1
    mine = [s.buffer for s in steps if isinstance(s, Allocate)]
    return program(steps, slots, mine, returns=("x", "a"))


@settings(max_examples=400, deadline=None)
@given(programs())
def test_a_race_is_where_results_may_differ(of):
    assert bool(races(of)) == results_may_differ(of)


@settings(max_examples=300, deadline=None)
@given(programs(own=True))
def test_no_race_in_memory_of_its_own_is_missed(of):
    """The detector asks for more than one allocator needs: a library's temporary may have been freed, too."""
    if results_may_differ(of):
        assert races(of)


@settings(max_examples=200, deadline=None)
@given(programs(), st.data())
def test_a_wait_that_is_dropped_is_found(of, data):
    if races(of):
        return
    waits = [k for k, step in enumerate(of.steps) if isinstance(step, WaitEvent)]
    if waits:
        k = data.draw(st.sampled_from(waits))
        without = of.with_(steps=of.steps[:k] + of.steps[k + 1 :])
        assert bool(races(without)) == results_may_differ(without)


# ---- one rule after the other --------------------------------------------------------------------------------------

FORK = [RecordEvent(0, 0), WaitEvent(0, 1)]
JOIN = [RecordEvent(1, 1), WaitEvent(1, 0)]

RACES = {
    "two writers": (
        [*FORK, Copy("w", "x", 1), Copy("w", "x"), *JOIN], {},
        r"both use x, and both write it; nothing orders them. Expected stream 0 to wait for stream 1: add "
        r"record_event\(n, stream=1\) after step 2 and wait_event\(n, stream=0\) before step 3",
    ),
    "a reader": ([*FORK, Copy("w", "x"), call("a", "x", stream=1), *JOIN], {"a": (0, 1)}, "and the first writes it"),
    "shared bytes": (
        [*FORK, Copy("w", "a", 1), Copy("w", "b"), *JOIN], {"a": (0, 2), "b": (1, 2)},
        "b has bytes of the pool that a has, too",
    ),
    "the beginning": ([Copy("x", "a", 1), *JOIN], {"a": (0, 1)}, "may run before the caller's work is done"),
    "the end": ([*FORK, Copy("x", "a", 1)], {"a": (0, 1)}, "the result is returned while stream 1 may still run"),
    "an event of nobody's": ([WaitEvent(7, 1)], {}, "waits for event 7, which no earlier step records"),
    "freed too early": (
        [Allocate("own"), *FORK, Copy("x", "own", 1), Free("own"), *JOIN], {},
        "the memory of own goes back to the caller's stream",
    ),
    "allocated too late": (
        [*FORK, Copy("x", "w"), External("sort", (BufferRef("x"),), {}, ("other",)), Allocate("own"),
         Copy("x", "own", 1), *JOIN], {},
        "own is allocated after the first has freed memory, which it may get",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_each_rule_says_what_is_missing(name):
    steps, slots, says = RACES[name]
    of = program(steps, slots, own=("own", "other"))
    assert races(of)
    with pytest.raises(GraphError, match=says):
        check_races(of)


def test_a_view_is_the_memory_that_it_is_of():
    """reshape's result may lie in x, which another stream writes."""
    steps = [
        External("reshape", (BufferRef("x"), (1,)), {}, ("own",)),
        *FORK,
        Copy("w", "x", 1),
        Copy("own", "a"),
    ]
    found = races(program([*steps, *JOIN], {"a": (0, 1)}, own=("own",)))
    assert [(race.earlier, race.later, race.buffer) for race in found] == [(3, 4, "x")]


def test_a_program_on_one_stream_is_not_looked_at(monkeypatch):
    monkeypatch.setattr("stage_contracts.races.stream_order", None)
    assert races(program([Copy("x", "w"), Copy("w", "x")])) == []


def test_events_carry_what_their_stream_has_waited_for():
    """0 -> 1 -> 2 -> 0: the return waits for stream 2 alone, which has waited for stream 1."""
    steps = [*FORK, Copy("x", "a", 1), RecordEvent(1, 1), WaitEvent(1, 2), Copy("a", "b", 2)]
    of = program([*steps, RecordEvent(2, 2), WaitEvent(2, 0)], {"a": (0, 1), "b": (1, 1)}, returns=("b",))
    assert races(of) == [] and not results_may_differ(of)
