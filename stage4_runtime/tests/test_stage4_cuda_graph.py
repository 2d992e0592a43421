"""CUDA graphs without a GPU: what is captured when, what is read in place, and that no result in use is written over.

Input: hand-written programs through a fake CuPy, whose graphs run the launches they captured at the addresses that
these had.
"""

import gc
import random
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from stage4_runtime.runtime.cuda import cupy_library
from stage4_runtime.runtime.graph_memory import graph_memory
from stage4_runtime.runtime.graph_places import CAPTURES, MOVES, PATIENCE, Places
from stage4_runtime.runtime.graph_steps import mark_step_begin
from stage4_runtime.runtime.memory import pool_bytes
from stage4_runtime.tests.fake_cupy import array
from stage4_runtime.tests.programs import chain, external, meta, program, sum_kernel
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Copy, Launch


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def graphs(fake):
    return [entry for entry in fake.log if entry[0] == "graph"]


def settled(run, *arrays):
    """The results of the second call with these arrays, the first that a graph makes."""
    run(*arrays)
    return run(*arrays)


# ---- when -------------------------------------------------------------------------------------------------------


def test_a_program_is_captured_when_its_inputs_stay(on_fake_gpu):
    run, fake = on_fake_gpu(chain(3), cuda_graph=True)
    x = array(numbers(64))
    for k in range(4):
        x[...] = numbers(64) * k
        (y,) = run(x)
        np.testing.assert_array_equal(y, numbers(64) * k + 3)
        del y
    assert [entry[2] for entry in graphs(fake)] == [3, 3, 3]  # the first call runs plain
    assert ("allocator", "malloc of a pool") in fake.log


def test_what_moves_is_copied_after_some_patience(on_fake_gpu):
    run, fake = on_fake_gpu(chain(2), cuda_graph=True)
    held = []
    for k in range(8):
        held.append(array(numbers(64) * k))
        (y,) = run(held[-1])
        np.testing.assert_array_equal(y, numbers(64) * k + 2)
        del y
    assert len(graphs(fake)) == 8 - 1 - PATIENCE


def test_an_input_that_stays_is_read_in_place_at_last(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1), cuda_graph=True)
    for _ in range(PATIENCE + 3):
        run(array(numbers(64)))
    x = array(numbers(64))
    for _ in range(4):
        run(x)
    (replays,) = run.state.values()
    assert replays.captured.in_place == [0]


def test_an_input_that_moves_often_is_copied_for_good(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1), cuda_graph=True)
    xs = [array(numbers(64) + k) for k in range(MOVES + 2)]
    for k, x in enumerate(xs):
        for _ in range(3):
            np.testing.assert_array_equal(run(x)[0], numbers(64) + k + 1)
    (replays,) = run.state.values()
    captures = replays.places.captures
    assert replays.captured.in_place == [] and captures <= CAPTURES
    for x in [*xs, *xs]:
        run(x)
    assert replays.places.captures == captures


def test_captures_come_to_an_end():
    """Whatever the addresses do."""
    draw = random.Random(0)
    for _ in range(200):
        places, in_place = Places(3), None
        spread = [draw.choice((1, 2, 3, 50)) for _ in range(3)]
        for _ in range(400):
            moved = places.see([draw.randrange(n) for n in spread])
            if in_place is not None:
                read = [k for k in moved if k in in_place]
                if read or any(places.stays(k, 2) for k in range(3) if k not in in_place):
                    places.count_moves(read)
                    in_place = None
            if in_place is None and places.may_capture():
                places.captures += 1
                in_place = {k for k in range(3) if places.stays(k)}
        assert places.captures <= CAPTURES


def test_the_configuration_asks_for_graphs(on_fake_gpu):
    with config.patch(cuda_graphs=True):
        run, fake = on_fake_gpu(chain(1))
    settled(run, array(numbers(64)))
    assert graphs(fake)


def test_what_cannot_be_captured_runs_plain(on_fake_gpu, event_log):
    steps = [external("matmul", "x", "x", out="y")]
    run, fake = on_fake_gpu(
        program({"x": meta(4, 4)}, {}, {"y": meta(4, 4)}, [], steps, ["y"]), cuda_graph=True
    )
    x = array(numbers(4, 4))
    for _ in range(4):
        np.testing.assert_array_equal(run(x)[0], numbers(4, 4) @ numbers(4, 4))
    (event,) = event_log("fallback")
    assert event.name == "cuda_graph" and "cuBLAS" in event.details["reason"]
    assert not graphs(fake)


# ---- inputs that are written ------------------------------------------------------------------------------------


def test_an_input_that_stays_is_written_once_a_call(on_fake_gpu):
    kernel = sum_kernel("k", "new", ["x", "w"], 4)
    of = program(
        {"x": meta(4), "w": meta(4)}, {}, {"new": meta(4)}, [kernel], [Launch("k", kernel.params)], ["new"]
    )
    run, fake = on_fake_gpu(of.with_(updates={"new": "x"}), cuda_graph=True)
    x, w = array([0, 0, 0, 0]), array([1, 1, 1, 1])
    for call in range(1, 6):
        (new,) = run(x, w)
        assert x.tolist() == [2 * call] * 4 and new is x
    assert len(graphs(fake)) == 4


def test_an_input_that_is_written_and_moves_is_no_graphs(on_fake_gpu, event_log):
    run, fake = on_fake_gpu(
        program({"x": meta(3), "w": meta(3)}, {}, {}, [], [Copy("w", "x")], [None]), cuda_graph=True
    )
    w, held = array([1, 2, 3]), []
    for _ in range(3 * PATIENCE):
        held.append(array([0, 0, 0]))
        run(held[-1], w)
        assert held[-1].tolist() == [1, 2, 3]
    assert event_log("fallback")[0].details["reason"] == "it writes to its input x, which moves"
    assert not graphs(fake)


def test_an_input_that_is_written_and_moves_now_and_then_is_no_graphs_in_the_end(on_fake_gpu, event_log):
    kernel = sum_kernel("k", "new", ["x", "w"], 4)
    of = program(
        {"x": meta(4), "w": meta(4)}, {}, {"new": meta(4)}, [kernel], [Launch("k", kernel.params)], ["new"]
    )
    run, fake = on_fake_gpu(of.with_(updates={"new": "x"}), cuda_graph=True)
    w, homes = array([1, 1, 1, 1]), [array([0, 0, 0, 0]) for _ in range(2)]
    for call in range(8 * CAPTURES):
        x = homes[call // 3 % 2]
        before = x[0]
        run(x, w)
        assert x.tolist() == [before + 2] * 4
    (replays,) = run.state.values()
    assert replays.refused and replays.places.captures == CAPTURES
    assert event_log("fallback")[0].details["reason"] == "inputs that it writes to move too often"


# ---- results ----------------------------------------------------------------------------------------------------


def test_a_result_that_nobody_has_is_made_where_it_was(on_fake_gpu):
    run, _ = on_fake_gpu(chain(2), cuda_graph=True)
    x = array(numbers(64))
    run(x)
    assert len({run(x)[0].data.ptr for _ in range(4)}) == 1
    (replays,) = run.state.values()
    assert not replays.copied and replays.places.captures == 1


@pytest.mark.parametrize(
    "hold", [lambda y: y, lambda y: y[3:5], lambda y: y[::2][1:]], ids=["it", "a view", "a view of one"]
)
def test_a_result_in_use_is_never_written_over(hold, on_fake_gpu):
    run, _ = on_fake_gpu(chain(2), cuda_graph=True)
    x, held = array(numbers(64)), []
    for k in range(6):
        x[...] = numbers(64) * k
        held.append(hold(run(x)[0]))
    for k, one in enumerate(held):
        np.testing.assert_array_equal(one, hold(numbers(64) * k + 2))
    (replays,) = run.state.values()
    assert replays.copied == {0} and replays.places.captures == 2


def test_a_step_that_begins_gives_all_results_back(on_fake_gpu):
    run, _ = on_fake_gpu(chain(1), cuda_graph=True)
    x = array(numbers(64))
    (first,) = settled(run, x)
    mark_step_begin()
    x[...] = 7
    (second,) = run(x)
    assert first.data.ptr == second.data.ptr and first[0] == 8
    (replays,) = run.state.values()
    assert not replays.copied


def test_inputs_come_back_as_themselves_and_views_with_their_strides(on_fake_gpu):
    kernels = [sum_kernel("kernel0", "y", ["x"], 6)]
    returns = ["x", BufferRef("y", (2, 3), (1, 2), 0), BufferRef("x", (3,), (2,), 1), None]
    of = program({"x": meta(6)}, {}, {"y": meta(6)}, kernels, [Launch("kernel0", ("x", "y"))], returns)
    run, _ = on_fake_gpu(of, cuda_graph=True)
    x = array(numbers(6))
    for same, view, part, nothing in (settled(run, x), run(x)):
        assert same is x and nothing is None
        assert view.strides == (4, 8)
        np.testing.assert_array_equal(view, (numbers(6) + 1).reshape(3, 2).T)
        np.testing.assert_array_equal(part, numbers(6)[1::2])


def test_a_captured_program_refuses_wrong_inputs(on_fake_gpu):
    run, _ = on_fake_gpu(chain(1), cuda_graph=True)
    settled(run, array(numbers(64)))
    with pytest.raises(TypeError, match=r"float32\[1\], expected float32\[64\]"):
        run(array(numbers(1)))


def test_a_replay_on_another_stream_waits_for_the_last_one(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1), cuda_graph=True)
    x = array(numbers(64))
    settled(run, x)
    with fake.cuda.Stream() as other:
        run(x)
    assert ("wait", other.ptr, ("event", fake.streams[0].ptr)) in fake.log


def test_threads_share_one_captured_graph(on_fake_gpu):
    run, _ = on_fake_gpu(chain(2), cuda_graph=True)
    results, given = {}, [array(numbers(64) * k) for k in range(4)]

    def work(k):
        results[k] = [run(given[k])[0] for _ in range(12)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        for one in results[k]:
            np.testing.assert_array_equal(one, numbers(64) * k + 2)


# ---- one program after another ----------------------------------------------------------------------------------


def test_a_program_reads_what_another_ones_graph_made_in_place(on_fake_gpu):
    """A forward pass and its backward: saved values are not copied, and the loss that the caller still has is."""
    kernels = [sum_kernel("kernel0", "saved", ["x"], 64), sum_kernel("kernel1", "loss", ["saved"], 64)]
    steps = [Launch(kernel.name, kernel.params) for kernel in kernels]
    of = program(
        {"x": meta(64)}, {}, {"saved": meta(64), "loss": meta(64)}, kernels, steps, ["loss", "saved"]
    )
    forward, _ = on_fake_gpu(of, cuda_graph=True)
    backward, _ = on_fake_gpu(chain(1), cuda_graph=True)
    x, loss = array(numbers(64)), None
    for k in range(8):
        x[...] = numbers(64) * k
        loss, saved = forward(x)
        (gradient,) = backward(saved)
        np.testing.assert_array_equal(loss, numbers(64) * k + 2)
        np.testing.assert_array_equal(gradient, numbers(64) * k + 2)
        del saved, gradient
    (first,), (second,) = forward.state.values(), backward.state.values()
    assert first.copied == {0} and second.captured.in_place == [0] and not second.copied


@pytest.mark.parametrize("seed", range(60))
def test_random_calls_never_touch_what_is_in_use(seed, on_fake_gpu):
    """Two programs, several input arrays, results that are held for a while, as themselves or as views, or dropped."""
    draw = random.Random(seed)
    kernels = [
        sum_kernel("first0", "t", ["x", "w"], 8),
        sum_kernel("first1", "a", ["t"], 8),
        sum_kernel("first2", "b", ["a"], 8),
    ]
    steps = [Launch(kernel.name, kernel.params) for kernel in kernels]
    made = {"a": meta(8), "b": meta(8)}
    of = program({"x": meta(8), "w": meta(8)}, {"t": meta(8)}, made, kernels, steps, ["b", "a"])
    first, fake = on_fake_gpu(of, cuda_graph=True)
    length = draw.choice((1, 2, 5))
    second, _ = on_fake_gpu(chain(length, 8), cuda_graph=True, on=fake)
    xs = [array(numbers(8) * 0) for _ in range(draw.choice((1, 2, 5)))]
    w = array(numbers(8))
    held = []  # (what somebody has, what it must be)

    def keep(result, want):
        for part in draw.sample((slice(None), slice(2, 5), slice(None, None, 3)), draw.randrange(3)):
            held.append((result[part], want[part].copy()))

    for _ in range(40):
        x = draw.choice(xs)
        x[...] = draw.randrange(100)
        a_is = np.asarray(x) + numbers(8) + 2
        b, a = first(x, w)
        np.testing.assert_array_equal(a, a_is)
        np.testing.assert_array_equal(b, a_is + 1)
        if draw.random() < 0.8:
            (c,) = second(a)
            np.testing.assert_array_equal(c, a_is + length)
            keep(c, a_is + length)
            del c
        keep(a, a_is), keep(b, a_is + 1)
        del a, b
        for kept, want in held:
            np.testing.assert_array_equal(kept, want)
        for _ in range(draw.randrange(4)):
            if held:
                held.pop(draw.randrange(len(held)))
        if draw.random() < 0.1:
            gc.collect()


# ---- memory that graphs share -----------------------------------------------------------------------------------


def blocks(fake):
    return [entry for entry in fake.log if entry[0] == "allocator" and entry[1] == "the caller's"]


def test_graphs_of_a_device_have_their_temporaries_in_one_block(on_fake_gpu):
    """Made once, as large as the largest program asks, and let go of with the last graph."""
    small, fake = on_fake_gpu(renamed(chain(3), "small"), cuda_graph=True)
    large, _ = on_fake_gpu(renamed(chain(3, 640), "large"), cuda_graph=True, on=fake)
    xs = array(numbers(64)), array(numbers(640))
    for run, x in zip((small, large), xs, strict=True):
        np.testing.assert_array_equal(settled(run, x)[0], np.asarray(x) + 3)
    assert len(blocks(fake)) == 1
    (first,), (second,) = small.state.values(), large.state.values()
    (block,) = first.captured.held
    assert second.captured.held == [block] and block.nbytes == pool_bytes(large.program)
    alive = weakref.ref(block)
    del block, first, second
    small.state.clear(), large.state.clear()
    gc.collect()
    assert alive() is None


def test_a_larger_program_that_comes_later_has_a_larger_block(on_fake_gpu):
    small, fake = on_fake_gpu(renamed(chain(3), "small"), cuda_graph=True)
    x, y = array(numbers(64)), array(numbers(640))
    settled(small, x)
    large, _ = on_fake_gpu(renamed(chain(3, 640), "large"), cuda_graph=True, on=fake)
    for _ in range(3):
        np.testing.assert_array_equal(settled(large, y)[0], numbers(640) + 3)
        np.testing.assert_array_equal(small(x)[0], numbers(64) + 3)
    assert len(blocks(fake)) == 2


def test_a_replay_waits_for_another_programs_replay_on_another_stream(on_fake_gpu):
    """Their temporaries lie in the same block."""
    first, fake = on_fake_gpu(renamed(chain(3), "first"), cuda_graph=True)
    second, _ = on_fake_gpu(renamed(chain(3), "second"), cuda_graph=True, on=fake)
    x = array(numbers(64))
    with fake.cuda.Stream() as other:
        settled(second, x)
    settled(first, x)
    fake.log.clear()
    with other:
        second(x)
    first(x)
    here = fake.streams[0].ptr
    waits = [entry[1:] for entry in fake.log if entry[0] == "wait"]
    assert waits == [(other.ptr, ("event", here)), (here, ("event", other.ptr))]


def test_arenas_in_use_at_the_same_time_lie_apart(on_fake_gpu):
    """A program that another one runs while it is captured, as control flow does."""
    inner, fake = on_fake_gpu(renamed(chain(4), "inner"))
    memory = graph_memory(fake, Device("cuda"))
    shared = memory.arenas(cupy_library(Device("cuda")).allocate)
    new = [lambda n=n: shared["allocate_pool"](n) for n in (1000, 300, 5000)]
    with memory.lent_to_a_capture() as held:
        for _ in range(2):  # the run before the capture, and the captured one
            (_, outer), (_, first) = (shared["take_arena"](make) for make in new[:2])
            shared["give_arena"](None)
            _, second = shared["take_arena"](new[2])
            for start, nbytes in ((first, 300), (second, 5000)):
                assert start >= outer + 1000 or start + nbytes <= outer
            shared["give_arena"](None), shared["give_arena"](None)
        assert held[-1].address == outer and held[-1].nbytes == second - outer + 5000


def renamed(of, name):
    """The program with kernels of names of its own."""
    kernels = {f"{name}_{old}": replace(k, name=f"{name}_{old}") for old, k in of.kernels.items()}
    steps = tuple(replace(s, kernel=f"{name}_{s.kernel}") if isinstance(s, Launch) else s for s in of.steps)
    return of.with_(kernels=kernels, steps=steps)
