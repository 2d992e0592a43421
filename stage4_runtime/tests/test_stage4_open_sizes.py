"""Programs whose sizes each call decides: memory in pools of their own, sizes read from the inputs, kernels given them.

Input: chains of hand-written kernels over `s0` elements, with kernels in Python, in C++ and behind a fake CuPy.
"""

import numpy as np
import pytest

from stage4_runtime.runtime import build, launch, plan_memory
from stage4_runtime.runtime.cuda_graph import MOST_GRAPHS
from stage4_runtime.runtime.triton_units import TritonKernel
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage4_runtime.tests.programs import array_at, cpp_unit, external, meta, program, sum_kernel
from stage_contracts.device import Device
from stage_contracts.index_expr import FloorDiv, symbol
from stage_contracts.loop_ir import BufferRef, SizeVar
from stage_contracts.program import Launch

S = symbol("s0")


def chain(length, size=S, given=S):
    """x -> buf0 -> ... -> y, each `1 + previous`, over `size` elements; x has `given`."""
    names = ["x", *(f"buf{k}" for k in range(length - 1)), "y"]
    kernels = [sum_kernel(f"kernel{k}", names[k + 1], [names[k]], size) for k in range(length)]
    steps = [Launch(k.name, k.params) for k in kernels]
    temporaries = {name: meta(size) for name in names[1:-1]}
    made = program({"x": meta(given)}, temporaries, {"y": meta(size)}, kernels, steps, ["y"])
    return made.with_(sizes=(SizeVar("s0", "x", 0),))


def python_kernels(of):
    """Kernels that take addresses and then the one open size, which is how many elements they write."""

    def make(kernel):
        def run(*arguments):
            *addresses, n = arguments
            *sources, out = [array_at(a, (n,)) for a in addresses]
            out[...] = 1 + sum(sources)
            return 0

        return run

    return {name: make(kernel) for name, kernel in of.kernels.items()}


def numbers(n):
    return np.arange(n, dtype=np.float32)


# ---- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("plan_memory", tier="full")
def test_buffers_that_take_turns_share_a_pool(seam):
    planned = seam("plan_memory")(chain(5)).verify()
    slots = [planned.buffers[f"buf{k}"].slot for k in range(4)]
    assert [slot.pool for slot in slots] == [0, 1, 0, 1]
    assert planned.pools == (4 * S, 4 * S) and all(slot.offset == 0 for slot in slots)


def test_a_pool_is_shared_only_by_what_never_is_larger():
    t = symbol("s1")
    kernels = [sum_kernel(f"k{i}", f"b{i}", ["x"], n) for i, n in enumerate((S, 3 * S, t))]
    kernels.append(sum_kernel("k3", "y", ["x"], S))
    steps = [Launch(k.name, k.params) for k in kernels]
    made = program(
        {"x": meta(S, t)},
        {"b0": meta(S), "b1": meta(3 * S), "b2": meta(t)},
        {"y": meta(S)},
        kernels,
        steps,
        ["y"],
    )
    planned = plan_memory(made.with_(sizes=(SizeVar("s0", "x", 0), SizeVar("s1", "x", 1))))
    pools = {name: planned.buffers[name].slot.pool for name in ("b0", "b1", "b2")}
    assert pools["b0"] == pools["b1"] != pools["b2"] and planned.pools == (12 * S, 4 * t)


# ---- launching -------------------------------------------------------------------------------------------------


@pytest.mark.conformance("launch", tier="full")
@pytest.mark.parametrize("n", [64, 3, 1, 0, 65])
def test_one_program_at_several_sizes(seam, n):
    planned = plan_memory(chain(3))
    run = seam("launch")(planned, python_kernels(planned), {})
    for size in (n, 7, n):
        (y,) = run(numbers(size))
        np.testing.assert_array_equal(y, numbers(size) + 3)


def test_launch_code_reads_a_size_once():
    planned = plan_memory(chain(3))
    run = launch(planned, python_kernels(planned), {})
    assert run.source_text.count("read_size(") == 1
    assert "arena = take_arena(new_arena, None, s0)" in run.source_text
    with pytest.raises(TypeError, match=r"input x is a float of shape \(\), expected float32\[s0\]"):
        run(1.0)
    with pytest.raises(TypeError, match=r"float64\[4\], expected float32\[4\]"):
        run(np.zeros(4))


def test_sizes_that_are_computed_and_views_of_them():
    d0 = symbol("d0")
    made = program(
        {"x": meta(d0)},
        {"t": meta(d0)},
        {},
        [],
        [external("add", "x", "x", out="t")],
        [BufferRef("t", (S,), (2,), 0)],
    )
    half = SizeVar("s0", expr=FloorDiv(d0, 2))
    run = launch(plan_memory(made.with_(sizes=(SizeVar("d0", "x", 0), half))), {}, {})
    for n in (6, 2, 0):
        (y,) = run(numbers(n))
        np.testing.assert_array_equal(y, 2 * numbers(n)[::2])


SOURCE = """\
#include <cstdint>
extern "C" int64_t kernel0(const float* x, float* y, int64_t s0) {
    for (int64_t i = 0; i < s0; ++i) y[i] = 1.0f + x[i];
    return 0;
}
"""


def test_a_kernel_in_cpp_gets_its_size():
    planned = plan_memory(chain(1))
    run = launch(planned, build(cpp_unit(SOURCE)), {})
    for n in (5, 1, 0, 1000):
        np.testing.assert_array_equal(run(numbers(n))[0], numbers(n) + 1)


# ---- a GPU -----------------------------------------------------------------------------------------------------


@pytest.fixture
def on_fake_gpu(put_cupy):
    """(run, the fake CuPy) of a chain with open sizes; its grid is an expression."""

    def start(of, **options):
        kernels = python_kernels(of)
        fake = FakeCupy({n: (kernels[n], len(k.params) + 1) for n, k in of.kernels.items()})
        put_cupy(fake)
        gpu = plan_memory(of.with_(device=Device("cuda")))
        loaded = {
            name: TritonKernel(b"", "", name, 0, 4, 0, ("*fp32",) * len(k.params) + ("i64",), ("(s0 + 31) // 32", 1, 1), ("s0",))
            for name, k in of.kernels.items()
        }  # fmt: skip
        return launch(gpu, loaded, {}, **options), fake

    return start


def test_the_number_of_blocks_depends_on_the_size(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1))
    for n in (64, 65, 1):
        np.testing.assert_array_equal(run(array(numbers(n)))[0], numbers(n) + 1)
    shapes = [entry[1][0] for entry in fake.log if entry[0] == "kernel0"]
    assert shapes == [2, 3, 1]


def test_a_graph_for_each_size_and_not_too_many(on_fake_gpu, event_log):
    run, fake = on_fake_gpu(chain(2), cuda_graph=True)
    given = {n: array(numbers(n)) for n in range(1, MOST_GRAPHS + 4)}
    for _ in range(3):  # the first calls run plain
        for n, x in given.items():
            np.testing.assert_array_equal(run(x)[0], numbers(n) + 2)
    graphs = [entry for entry in fake.log if entry[0] == "graph"]
    assert len(graphs) == 2 * MOST_GRAPHS
    (event,) = event_log("fallback")
    assert f"{MOST_GRAPHS} graphs" in event.details["reason"]
