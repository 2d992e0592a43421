"""The function that runs a program on several streams, and its capture: its text, its streams, what follows an error.

Input: hand-written programs through a fake CuPy.
"""

import random
import threading

import numpy as np
import pytest

from stage4_runtime.runtime import cublas, launch, side_streams, stream_costs
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage4_runtime.tests.fake_streams import Queues, StreamError
from stage4_runtime.tests.programs import (
    array_at,
    external,
    loaded_kernel,
    meta,
    program,
    sum_kernel,
)
from stage4_runtime.tests.stream_programs import SIZE, branches, numbers, planned, same
from stage_contracts.program import (
    Allocate,
    Copy,
    Free,
    Launch,
    RecordEvent,
    WaitEvent,
)
from stage_contracts.races import races
from stage_contracts.stream_order import stream_of

# ---- the function that runs --------------------------------------------------------------------------------------


def test_the_text_names_streams_and_events(on_streams):
    run, fake = on_streams(planned(branches(2, 2)))
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
def test_launches_in_a_row_on_a_stream_are_one_call_of_c(on_streams):
    run, fake = on_streams(planned(branches(3, 2)))
    run(array(np.zeros(SIZE)))
    calls = [line.strip() for line in run.source_text.splitlines() if "refused(failed)" in line]
    assert [call.split("(")[1].split(",")[0] for call in calls] == ["stream", "stream1", "stream2", "stream"]
    assert fake.from_c == 7


def test_a_callers_stream_has_side_streams_of_its_own_for_all_programs(on_streams):
    of = planned(branches(3))
    run, fake = on_streams(of)
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


def test_after_an_error_the_callers_stream_waits_for_all(on_streams, monkeypatch):
    """What was allocated is freed to it, and the next who gets it must not meet a kernel that still runs."""
    draw = random.Random(3)
    of = planned(branches(3))
    run, fake = on_streams(of, draw)
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


def test_a_product_that_is_not_prepared_runs_between_two_waits(on_streams):
    """Its eager kernel runs on CuPy's current stream, so each stream waits for the other."""
    steps = [external("matmul", "x", name, out=f"{name}x") for name in "uv"] + [
        Launch("total", ("ux", "vx", "y"))
    ]
    kernels, inputs = [sum_kernel("total", "y", ["ux", "vx"], 64)], dict.fromkeys("xuv", meta(8, 8))
    of = program(inputs, dict.fromkeys(("ux", "vx"), meta(8, 8)), {"y": meta(8, 8)}, kernels, steps, ["y"])
    for seed in range(10):
        draw = random.Random(seed)
        run, fake = on_streams(planned(of), draw)
        lines = [line.strip() for line in run.source_text.splitlines()]
        at = next(k for k, line in enumerate(lines) if "out=vx" in line)
        assert (lines[at - 1], lines[at + 1]) == ("wait_for(stream, stream1)", "wait_for(stream1, stream)")
        x, u = numbers(draw)
        assert same(fake, run(array(x), array(u), array(u)), [1 + x @ u + x @ u])


def test_a_copy_on_a_side_stream(on_streams):
    steps = [
        RecordEvent(0, 0),
        WaitEvent(0, 1),
        Copy("x", "t", 1),
        RecordEvent(1, 1),
        WaitEvent(1, 0),
        Copy("t", "y"),
    ]
    of = program({"x": meta(8)}, {"t": meta(8)}, {"y": meta(8)}, [], steps, ["y"])
    run, fake = on_streams(planned(of), random.Random(0))
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


def test_a_capture_forks_and_joins(on_streams):
    run, fake = on_streams(planned(branches(3, 2)), cuda_graph=True)
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


class QueuedCublas:
    """Products that their handle's stream runs when it likes, each with the workspace of its handle."""

    def __init__(self, fake):
        self.fake, self.streams, self.workspaces, self.used = fake, {}, {}, []

    def cublasCreate_v2(self, place):
        place._obj.value = len(self.streams) + 1
        self.streams[place._obj.value] = None
        return 0

    def cublasSetStream_v2(self, handle, stream):
        self.streams[handle.value] = stream.value or 0
        return 0

    def cublasSetWorkspace_v2(self, handle, memory, nbytes):
        self.workspaces[handle.value] = memory.value
        return 0

    def cublasGemmStridedBatchedEx(self, handle, opa, opb, m, n, k, alpha, a, *rest):
        b, c = rest[3], rest[8]
        self.used.append((self.streams[handle], self.workspaces[handle]))

        def product():  # column-major: c' = a' b'
            left, right, out = (array_at(p, (8, 8)) for p in (b, a, c))
            out[...] = left @ right

        self.fake.queues.put(self.streams[handle], product)
        return 0


@pytest.mark.parametrize("seed", range(12))
def test_products_side_by_side_have_workspaces_of_their_own(seed, on_streams, monkeypatch):
    """Plain and captured; a graph keeps the memory that its products work in."""
    draw = random.Random(seed)
    names = [f"w{k}" for k in range(4)]
    steps = [external("matmul", "x", w, out=f"p{w}") for w in names]
    kernels = [sum_kernel("total", "y", [f"p{w}" for w in names], 64)]
    inputs = dict.fromkeys(["x", *names], meta(8, 8))
    of = program(inputs, {f"p{w}": meta(8, 8) for w in names}, {"y": meta(8, 8)}, kernels,
                 [*steps, Launch("total", kernels[0].params)], ["y"])  # fmt: skip
    library = QueuedCublas(None)
    monkeypatch.setattr(cublas, "cublas", lambda: library)
    monkeypatch.setattr(cublas, "_THREAD", threading.local())
    run, library.fake = on_streams(planned(of), draw, cuda_graph=True)
    given = [np.array([draw.randint(-2, 2) for _ in range(64)], np.float32).reshape(8, 8) for _ in inputs]
    on_gpu = [array(a) for a in given]
    wanted = 1 + sum(given[0] @ w for w in given[1:])
    for _ in range(4):
        assert same(library.fake, run(*on_gpu), [wanted])
    assert [entry[0] for entry in library.fake.log].count("graph") == 3
    by_stream = dict(library.used)
    streams = 2 * stream_costs.STREAMS  # the caller's and those beside it, and the capture's
    assert len({*by_stream.values()}) == len(by_stream) == streams
    (replays,) = run.state.values()
    assert {memory.ptr for memory in replays.captured.held if hasattr(memory, "ptr")} == {
        memory for _, memory in library.used[-4:]
    }


def test_threads_have_events_of_their_own():
    """An event that two threads record at once says only what the later one did."""
    fake = FakeCupy({})
    on, found, both = side_streams.side_streams(fake, 1, 2).on, [], threading.Barrier(2)

    def ask():
        found.append(on(7))
        both.wait(timeout=60)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (stream, *events), (other, *others) = found
    assert stream == other and not {*events} & {*others}
