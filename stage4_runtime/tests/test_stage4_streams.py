"""Programs on several streams without a GPU: which steps go where, what orders them, and that any timing gives the same.

Input: hand-written and random programs. The fake CuPy's streams run their work as late or as early as a draw says, and
freed memory goes to the next who asks, so a wait that is missing gives another result.
"""

import random
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from stage4_runtime.runtime import cublas, launch, plan_memory, side_streams, stream_costs
from stage4_runtime.runtime.parallel_streams import dependencies, parallel_streams, place
from stage4_runtime.tests.fake_cupy import FakeCupy, Pool, array
from stage4_runtime.tests.fake_streams import Queues, StreamError
from stage4_runtime.tests.programs import (
    chain,
    external,
    loaded_kernel,
    meta,
    program,
    python_kernels,
    sum_kernel,
)
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import (
    Allocate,
    Copy,
    External,
    Free,
    Launch,
    RecordEvent,
    Return,
    WaitEvent,
    step_accesses,
)
from stage_contracts.races import races
from stage_contracts.stream_order import has_streams, stream_of

CUDA = Device("cuda")
SIZE = 64


@pytest.fixture
def started(put_cupy):
    """`started(planned, draw)`: (run, the fake CuPy), its streams run as `draw` says."""

    def start(of, draw=None, **options):
        kernels = python_kernels(of)
        fake = FakeCupy({n: (kernels[n], len(k.params)) for n, k in of.kernels.items()}, draw)
        put_cupy(fake)
        loaded = {name: loaded_kernel(name, len(kernel.params)) for name, kernel in of.kernels.items()}
        return launch(of, loaded, {}, **options), fake

    yield start
    Pool.blocks = None


def planned(of, how="force", **more):
    with config.patch({"runtime.parallel_streams": how, **more}):
        return plan_memory(of.with_(device=CUDA))


def branches(count, length=1, size=SIZE):
    """x -> `count` chains of kernels -> their sum, y."""
    kernels, lasts, temporaries = [], [], {}
    for b in range(count):
        last = "x"
        for k in range(length):
            kernels.append(sum_kernel(f"k{b}_{k}", f"b{b}_{k}", [last], size))
            last = f"b{b}_{k}"
            temporaries[last] = meta(size)
        lasts.append(last)
    kernels.append(sum_kernel("total", "y", lasts, size))
    steps = [Launch(kernel.name, kernel.params) for kernel in kernels]
    return program({"x": meta(size)}, temporaries, {"y": meta(size)}, kernels, steps, ["y"])


def streams_of(of):
    return [stream_of(s) for s in of.steps if isinstance(s, Launch | External | Copy)]


def waits_of(of):
    return [s for s in of.steps if isinstance(s, WaitEvent)]


# ---- where steps go ------------------------------------------------------------------------------------------------


def test_branches_go_to_streams_of_their_own_and_come_together():
    made = planned(branches(3, 2))
    assert streams_of(made) == [0, 0, 1, 1, 2, 2, 0]
    assert [(type(s).__name__, s.event, s.stream) for s in made.steps if isinstance(s, RecordEvent | WaitEvent)] == [
        ("RecordEvent", 0, 0), ("WaitEvent", 0, 1), ("RecordEvent", 1, 1), ("WaitEvent", 0, 2), ("RecordEvent", 2, 2),
        ("WaitEvent", 2, 0), ("WaitEvent", 1, 0),
    ]  # fmt: skip


def test_a_chain_stays_on_one_stream():
    assert not has_streams(planned(chain(6)))


def test_the_rule_asks_for_room_on_the_device():
    room, none = branches(4, 3, 1 << 10), branches(4, 3, 1 << 24)
    assert has_streams(planned(room, "on")) and not has_streams(planned(none, "on"))
    assert has_streams(planned(none, "force"))


def test_the_rule_asks_for_more_than_the_events_cost(monkeypatch):
    of = branches(4, 3)
    assert has_streams(planned(of, "on"))
    monkeypatch.setattr(stream_costs, "EVENT", 20.0)
    assert not has_streams(planned(of, "on"))


def test_by_default_only_graphs_have_them():
    of = branches(4, 3)
    assert config.current().runtime.parallel_streams == "auto"
    assert not has_streams(planned(of, "auto"))
    assert has_streams(planned(of, "auto", **{"runtime.cuda_graphs": True}))
    assert not has_streams(planned(of, "off", **{"runtime.cuda_graphs": True}))


def test_a_program_of_the_cpu_has_none():
    with config.patch({"runtime.parallel_streams": "force"}):
        assert not has_streams(plan_memory(branches(3)))


def test_streams_that_are_there_stay():
    made = planned(branches(3, 2))
    assert planned(made, "auto") == made and planned(made, "force") == made


def test_what_a_library_allocates_for_stays_on_the_callers_stream():
    steps = [
        external("neg", "x", out="a"),
        external("sort", "x", out="b"),
        external("matmul", "x", "x", out="c"),
    ]
    steps += [external("matmul", "x", "w", out="d"), external("scatter_add", "c", "d", out="y")]
    inputs, temporaries = dict.fromkeys("xw", meta(8, 8)), dict.fromkeys("abcd", meta(8, 8))
    made = planned(program(inputs, temporaries, {"y": meta(8, 8)}, [], steps, ["y", "a", "b"]))
    calls = {s.outputs[0]: s for s in made.steps if isinstance(s, External)}
    assert {name for name, step in calls.items() if step.stream} and not {*"aby"} & {
        name for name, step in calls.items() if step.stream
    }
    assert all(step.into for step in calls.values() if step.stream)


def test_a_convolution_beside_others_writes_to_planned_memory():
    """New memory would come from the caller's stream, which may just have freed it."""
    image, weight = meta(1, 8, 6, 6), meta(8, 8, 1, 1)
    words = (1, 1), (0, 0), (1, 1), False, (0, 0), 1
    steps = [external("convolution", "x", name, *words, out=f"{name}x") for name in "uv"]
    steps += [Launch("total", ("ux", "vx", "y"))]
    kernels = [sum_kernel("total", "y", ["ux", "vx"], 288)]
    of = program(
        {"x": image, "u": weight, "v": weight},
        {"ux": image, "vx": image},
        {"y": image},
        kernels,
        steps,
        ["y"],
    )
    first, second = (s for s in planned(of).steps if isinstance(s, External))
    assert (first.stream, first.into, second.stream, second.into) == (0, False, 1, True)


def test_costs_of_a_product_and_a_nest():
    of = program({"x": meta(64, 512), "w": meta(512, 512)}, {}, {"y": meta(64, 512)}, [], [
        external("matmul", "x", "w", out="y")], ["y"])  # fmt: skip
    cost = stream_costs.cost_of(of.steps[0], of)
    assert cost.share == 8 / stream_costs.MULTIPROCESSORS  # one tile of rows, eight of columns
    flops = 2 * 64 * 512 * 512 / 8 / stream_costs.FLOPS["float32"]
    assert cost.time == pytest.approx(stream_costs.KERNEL + flops)
    small, large = chain(1, 1 << 10), chain(1, 1 << 24)
    shares = [stream_costs.cost_of(each.steps[0], each).share for each in (small, large)]
    assert shares == [1 / stream_costs.MULTIPROCESSORS, 1.0]


# ---- random programs -------------------------------------------------------------------------------------------------


def drawn(draw, calls=True):
    """Kernels, products and eager calls that read what is there. What nobody reads is returned; some are updates."""
    names, kernels, steps, temporaries = ["x", "w"], [], [], {}
    for k in range(draw.randint(3, 12)):
        out, sources = f"t{k}", draw.sample(names, min(len(names), draw.randint(1, 3)))
        kind = draw.random() if calls else 1.0
        if kind < 0.1:
            steps.append(external(draw.choice(["neg", "abs"]), sources[0], out=out))
        elif kind < 0.25:
            steps.append(external("matmul", sources[0], sources[-1], out=out))
        else:
            kernels.append(sum_kernel(f"k{k}", out, sources, SIZE))
            steps.append(Launch(f"k{k}", kernels[-1].params))
        names.append(out)
        temporaries[out] = meta(8, 8)
    read = {name for step in steps for name in step_accesses(step, {k.name: k for k in kernels})[0]}
    returned = [name for name in names[2:] if name not in read]
    outputs = {name: temporaries.pop(name) for name in returned}
    of = program({"x": meta(8, 8), "w": meta(8, 8)}, temporaries, outputs, kernels, steps, returned)
    return of.with_(updates={returned[0]: "x"}) if calls and draw.random() < 0.3 else of


def numbers(draw):
    return [np.array([draw.randint(-1, 1) for _ in range(SIZE)], np.float32).reshape(8, 8) for _ in "xw"]


def evaluated(of, given):
    """The results, by NumPy, step by step."""
    values = dict(zip(of.inputs, (a.copy() for a in given), strict=True))
    for step in of.steps:
        if isinstance(step, Launch):
            *sources, out = step.buffers
            values[out] = sum((values[name] for name in sources), np.ones((8, 8), np.float32))
        elif isinstance(step, External):
            args = [values[ref.name] for ref in step.args]
            values[step.outputs[0]] = {"neg": np.negative, "abs": np.abs, "matmul": np.matmul}[step.target](
                *args
            )
    return [values[ref.name] for ref in of.return_step.values]


def same(fake, results, wanted):
    """Whether the results are as wanted once the caller's stream has done what it was given."""
    fake.queues.drain(fake.streams[-1].ptr)
    return all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_any_timing_gives_the_same(seed, started):
    draw = random.Random(seed)
    of = drawn(draw)
    run, fake = started(planned(of), random.Random(seed))
    for _ in range(4):
        given = numbers(draw)
        assert same(fake, run(*map(array, given)), evaluated(of, given))


@pytest.mark.parametrize("seed", range(30))
def test_any_timing_of_a_graph_gives_the_same(seed, started):
    """The fake refuses products while a stream is captured, as CuPy does."""
    draw = random.Random(seed)
    of = drawn(draw, calls=False)
    run, fake = started(planned(of), random.Random(seed), cuda_graph=True)
    x, w = map(array, numbers(draw))
    for _ in range(5):
        given = numbers(draw)
        x[...], w[...] = given
        assert same(fake, run(x, w), evaluated(of, given))
    assert any(entry[0] == "graph" for entry in fake.log)


def test_each_wait_is_needed():
    """Without any one of them there is a race."""
    for seed in range(150):
        made = planned(drawn(random.Random(seed)))
        assert races(made) == []
        for k, step in enumerate(made.steps):
            if isinstance(step, WaitEvent):
                assert races(made.with_(steps=made.steps[:k] + made.steps[k + 1 :])), (seed, k)


def test_a_program_with_a_race_is_not_launched(started):
    made = planned(branches(3, 2))
    without = made.with_(steps=tuple(s for s in made.steps if s != waits_of(made)[-1]))
    with pytest.raises(GraphError, match="a race: .* Expected stream 0 to wait for stream 1"):
        started(without)


def test_the_fake_shows_a_wait_that_is_missing(started, monkeypatch):
    """Most of the waits in random programs, in a few draws each: so these tests can fail."""
    monkeypatch.setattr(sys.modules["stage4_runtime.runtime.launch"], "check_races", lambda program: program)
    seen = missed = 0
    for seed in range(12):
        draw = random.Random(seed)
        of = drawn(draw)
        made = planned(of)
        for k, step in enumerate(made.steps):
            if not isinstance(step, WaitEvent) or step.stream:
                continue
            without = made.with_(steps=made.steps[:k] + made.steps[k + 1 :])
            wrong = False
            for timing in range(8):
                run, fake = started(without, random.Random(timing))
                for _ in range(2):
                    given = numbers(draw)
                    wrong = wrong or not same(fake, run(*map(array, given)), evaluated(of, given))
            seen, missed = seen + wrong, missed + (not wrong)
    assert seen > 3 * missed


def test_slots_are_shared_by_what_events_order_only():
    """Two branches use bytes of their own at the same time, and the second buffer of each lies where it may."""
    made = planned(branches(2, 4, 1 << 10))
    slot = {name: b.slot for name, b in made.buffers.items() if b.slot}
    stream = {step.buffers[-1]: step.stream for step in made.steps if isinstance(step, Launch)}
    for a in slot:
        for b in slot:
            apart = (
                slot[a].offset + slot[a].nbytes <= slot[b].offset
                or slot[b].offset + slot[b].nbytes <= slot[a].offset
            )
            assert apart or stream[a] == stream[b], (a, b)
    assert sum(made.pools) < sum(each.nbytes for each in slot.values())


# ---- the function that runs --------------------------------------------------------------------------------------


def test_the_text_names_streams_and_events(started):
    run, fake = started(planned(branches(2, 2)))
    text = run.source_text
    assert "    stream1, event0, event1 = streams_beside(stream)\n    try:\n" in text
    assert "record_event(event0, stream)" in text and "wait_event(stream1, event0)" in text
    assert text.index("record_event(event1, stream1)") < text.index("wait_event(stream, event1)")
    x = array(np.zeros(SIZE))
    (y,) = run(x)
    np.testing.assert_array_equal(y, np.full(SIZE, 5))
    own, (side,) = fake.streams[0].ptr, side_streams.addresses_beside(fake, fake.streams[0].ptr)
    on = {"k0_0": own, "k0_1": own, "k1_0": side, "k1_1": side, "total": own}
    assert [(entry[0], entry[2]) for entry in fake.log if entry[0] in on] == [*on.items()]


@pytest.mark.parametrize("put_cupy", ["from C"], indirect=True)
def test_launches_in_a_row_on_a_stream_are_one_call_of_c(started):
    run, fake = started(planned(branches(3, 2)))
    run(array(np.zeros(SIZE)))
    calls = [line.strip() for line in run.source_text.splitlines() if "refused(failed)" in line]
    assert [call.split("(")[1].split(",")[0] for call in calls] == ["stream", "stream1", "stream2", "stream"]
    assert fake.from_c == 7


def test_a_callers_stream_has_side_streams_of_its_own_for_all_programs(started):
    of = planned(branches(3))
    run, fake = started(of)
    again = launch(of, {n: loaded_kernel(n, len(k.params)) for n, k in of.kernels.items()}, {})
    x = array(np.zeros(SIZE))

    def used(run):
        start = len(fake.log)
        run(x)
        return [entry[2] for entry in fake.log[start:]]

    first, second = used(run), used(again)
    assert first == second and len({*first}) == 3
    with fake.cuda.Stream():
        assert not {*first} & {*used(run)}


def test_after_an_error_the_callers_stream_waits_for_all(started, monkeypatch):
    """What was allocated is freed to it, and the next who gets it must not meet a kernel that still runs."""
    draw = random.Random(3)
    of = planned(branches(3))
    run, fake = started(of, draw)
    fake.queues.pace = dict.fromkeys(range(5000), 0)  # nothing runs until somebody waits
    ran = []
    fake.kernels = {
        name: (lambda *_, name=name: ran.append(name), count) for name, (_, count) in fake.kernels.items()
    }
    group = [name for name in run.names if name.startswith("issue_")]

    def fails(*words):
        raise MemoryError

    run.names[group[-1] if group else run.written.kernels["total"]] = fails
    with pytest.raises(MemoryError):
        run(array(np.zeros(SIZE)))
    fake.queues.drain(fake.streams[0].ptr)
    assert sorted(ran) == ["k0_0", "k1_0", "k2_0"]


def test_a_product_that_is_not_prepared_runs_between_two_waits(started):
    """Its eager kernel runs on CuPy's current stream, so each stream waits for the other."""
    steps = [external("matmul", "x", name, out=f"{name}x") for name in "uv"] + [
        Launch("total", ("ux", "vx", "y"))
    ]
    kernels, inputs = [sum_kernel("total", "y", ["ux", "vx"], 64)], dict.fromkeys("xuv", meta(8, 8))
    of = program(inputs, dict.fromkeys(("ux", "vx"), meta(8, 8)), {"y": meta(8, 8)}, kernels, steps, ["y"])
    for seed in range(10):
        draw = random.Random(seed)
        run, fake = started(planned(of), draw)
        lines = [line.strip() for line in run.source_text.splitlines()]
        at = next(k for k, line in enumerate(lines) if "out=vx" in line)
        assert (lines[at - 1], lines[at + 1]) == ("wait_for(stream, stream1)", "wait_for(stream1, stream)")
        x, u = numbers(draw)
        assert same(fake, run(array(x), array(u), array(u)), [1 + x @ u + x @ u])


def test_a_copy_on_a_side_stream(started):
    steps = [
        RecordEvent(0, 0),
        WaitEvent(0, 1),
        Copy("x", "t", 1),
        RecordEvent(1, 1),
        WaitEvent(1, 0),
        Copy("t", "y"),
    ]
    of = program({"x": meta(8)}, {"t": meta(8)}, {"y": meta(8)}, [], steps, ["y"])
    run, fake = started(planned(of), random.Random(0))
    assert same(fake, run(array(np.arange(8))), [np.arange(8)])


def test_memory_of_its_own_is_there_before_anything_is_freed():
    """What a side stream writes may not be what the caller's stream has just freed."""
    steps = [external("sort", "x", out="s"), Launch("a", ("x", "y")), Launch("b", ("s", "z"))]
    kernels = [sum_kernel("a", "y", ["x"], 64), sum_kernel("b", "z", ["s"], 64)]
    of = program({"x": meta(64)}, {"s": meta(64)}, dict.fromkeys("yz", meta(64)), kernels, steps, ["y", "z"])
    made = planned(of)
    beside = {name for s in made.steps if stream_of(s) and isinstance(s, Launch) for name in s.buffers} & {
        "y",
        "z",
    }
    assert beside and {s.buffer for s in made.steps[: len(beside)] if isinstance(s, Allocate)} == beside


def test_memory_goes_back_when_the_callers_stream_has_waited():
    steps = [
        external("sort", "x", out="s"),
        Launch("a", ("x", "t")),
        Launch("b", ("s", "y")),
        Launch("c", ("t", "z")),
    ]
    kernels = [
        sum_kernel("a", "t", ["x"], 64),
        sum_kernel("b", "y", ["s"], 64),
        sum_kernel("c", "z", ["t"], 64),
    ]
    temporaries, outputs = dict.fromkeys("st", meta(64)), dict.fromkeys("yz", meta(64))
    made = planned(program({"x": meta(64)}, temporaries, outputs, kernels, steps, ["y", "z"]))
    free, use = (
        made.steps.index(Free("s")),
        next(k for k, s in enumerate(made.steps) if isinstance(s, Launch) and s.kernel == "b"),
    )
    stream = made.steps[use].stream
    joins = [k for k, s in enumerate(made.steps) if isinstance(s, WaitEvent) and not s.stream]
    assert free > (max(joins) if stream else use) and races(made) == []


# ---- captures ----------------------------------------------------------------------------------------------------


def test_a_capture_forks_and_joins(started):
    run, fake = started(planned(branches(3, 2)), cuda_graph=True)
    x = array(np.zeros(SIZE))
    for _ in range(3):
        (y,) = run(x)
        np.testing.assert_array_equal(y, np.full(SIZE, 7))
        del y
    assert [entry[2] for entry in fake.log if entry[0] == "graph"] == [7, 7]


def test_a_capture_that_does_not_join_is_refused():
    queues = Queues()
    queues.begin(1)
    queues.wait(2, queues.record(1))
    queues.put(2, lambda: None)
    with pytest.raises(StreamError, match="unjoined"):
        queues.end(1)


def test_a_captured_graph_keeps_the_workspaces_of_its_side_streams(monkeypatch):
    fake = FakeCupy({})
    monkeypatch.setattr(cublas, "_THREAD", threading.local())
    beside = side_streams.side_streams(fake, 2, 0).on(fake.streams[0].ptr)
    assert [*beside] == side_streams.addresses_beside(fake, fake.streams[0].ptr)


def test_threads_have_events_of_their_own():
    """An event that two threads record at once says only what the later one did."""
    fake = FakeCupy({})
    on, found = side_streams.side_streams(fake, 1, 2).on, []
    threads = [threading.Thread(target=lambda: found.append(on(7))) for _ in range(2)]
    for thread in threads:  # one after the other: a thread's number may be used again
        thread.start()
    for thread in threads:
        thread.join()
    assert {stream for stream, *_ in found} == {on(7)[0]}
    assert on(7) == on(7)


# ---- the simulation that places -----------------------------------------------------------------------------------


def test_dependencies_are_of_values_and_of_memory():
    """A kernel that writes over an input waits for who read it."""
    kernels = [sum_kernel("a", "t", ["x"], 64), sum_kernel("b", "new", ["x"], 64)]
    steps = [
        Launch("a", ("x", "t")),
        Launch("b", ("x", "x")),
        Launch("a", ("x", "t")),
        Return((BufferRef("x"),)),
    ]
    of = program({"x": meta(64)}, {"t": meta(64)}, {"new": meta(64)}, kernels, steps[:-1], ["x"])
    assert dependencies(of) == [set(), {0}, {0, 1}, {1}]


def test_placing_predicts_the_longest_branch():
    of = branches(4, 3, 1 << 10).with_(device=CUDA)
    placed = place(of, dependencies(of))
    one = stream_costs.cost_of(of.steps[0], of).time
    assert placed.alone > 13 * stream_costs.KERNEL and placed.together < 4 * one + 3 * stream_costs.EVENT + 1


def test_the_pass_changes_nothing_but_streams_and_events():
    for seed in range(40):
        of = drawn(random.Random(seed)).with_(device=CUDA)
        with config.patch({"runtime.parallel_streams": "force"}):
            made = parallel_streams(of)
        plain = [replace(s, stream=0, into=False) if isinstance(s, External) else replace(s, stream=0) if isinstance(s, Launch) else s
                 for s in made.steps if not isinstance(s, RecordEvent | WaitEvent)]  # fmt: skip
        assert plain == [*of.steps]
