"""Launches by C on a GPU that is not here: what its driver is given, beside what Python gives it for the same words.

Input: programs of kernels with pointers and open sizes, drawn at random. The oracle is a call of each launcher.
"""

import ctypes
import json
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from stage4_runtime.runtime import issue, launch, plan_memory
from stage4_runtime.runtime.launch_groups import Group, grouped
from stage4_runtime.runtime.launch_observed import one_by_one
from stage4_runtime.runtime.triton_units import TritonKernel
from stage4_runtime.tests.fake_cupy import FakeCupy, RefusedByDriver, array
from stage4_runtime.tests.programs import chain, external, meta, program, python_kernels, sum_kernel
from stage_contracts.device import Device
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest, SizeVar
from stage_contracts.program import Allocate, Free, Launch
from stage_contracts.program_json import program_of, record_of

CUDA = Device("cuda")


def loaded(of, **changes):
    facts = {"cubin": b"", "ptx": "", "shared": 0, "num_warps": 4, "scratch": 0, "grid": (2, 1, 1)} | changes
    types = {n: ("*fp32",) * len(k.params) + ("i64",) * len(k.sizes) for n, k in of.kernels.items()}
    return {n: TritonKernel(name=n, **{"types": types[n]} | facts) for n in of.kernels}


@pytest.fixture
def started(put_cupy):
    """`started(program)`: (run, the fake CuPy), the kernels in Python."""

    def start(of, kernels=None, **changes):
        python = python_kernels(of)
        fake = FakeCupy({n: (python[n], len(k.params)) for n, k in of.kernels.items()})
        put_cupy(fake)
        return launch(plan_memory(of.with_(device=CUDA)), loaded(of, **changes), {}), fake

    return start


by_c = pytest.mark.parametrize("put_cupy", ["from C"], indirect=True)


@by_c
def test_kernels_in_a_row_are_one_call_of_c(started):
    run, fake = started(chain(3))
    np.testing.assert_array_equal(run(array(np.zeros(64)))[0], np.full(64, 3))
    assert fake.from_c == 3
    (call,) = [line for line in run.source_text.splitlines() if "refused(failed)" in line]
    assert call == "    if failed := issue_0(stream, p_x, p_buf0, p_buf1, p_y): refused(failed)"
    assert "#   launches kernel1(p_buf0, p_buf1)" in run.source_text and "if kernel" not in run.source_text


def test_a_cached_program_runs_without_its_nests(put_cupy):
    """They stay text: to read an index expression imports half of sympy, which takes longer than to load the kernels."""
    of = plan_memory(chain(3)).with_(device=CUDA)
    cached = program_of(json.loads(json.dumps(record_of(of))))
    put_cupy(FakeCupy({n: (kernel, len(of.kernels[n].params)) for n, kernel in python_kernels(of).items()}))
    run = launch(cached, loaded(of), {})
    run(array(np.zeros(64)))
    assert not any(type(nest) is LoopNest for kernel in cached.kernels.values() for nest in kernel.nests)


def test_values_are_the_same_from_both(started):
    steps = [Launch("a", ("x", "t")), external("neg", "t", out="u"), Launch("b", ("u", "x", "y"))]
    kernels = [sum_kernel("a", "t", ["x"], 8), sum_kernel("b", "y", ["u", "x"], 8)]
    of = program({"x": meta(8)}, {"t": meta(8), "u": meta(8)}, {"y": meta(8)}, kernels, steps, ["y"])
    run, fake = started(of)
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(array(x))[0], 1 - (x + 1) + x)
    assert [entry[0] for entry in fake.log if entry[0] in of.kernels] == ["a", "b"]
    assert fake.from_c in (0, 2) and run.source_text.count("refused") == fake.from_c


# ---- what the driver is given ------------------------------------------------------------------------------

WORDS = st.integers(0, 2**63 - 1)


@st.composite
def programs(draw):
    """Kernels on some of six buffers, some with open sizes, some of whose grids depend on them."""
    s0, s1 = symbol("s0"), symbol("s1")
    sizes = {"fixed": 8, "one": s0, "both": s0 * s1}
    kernels, facts, steps = [], {}, []
    for k in range(draw(st.integers(1, 6))):
        buffers = draw(
            st.lists(st.sampled_from([f"b{n}" for n in range(6)]), min_size=2, max_size=5, unique=True)
        )
        kernel = sum_kernel(f"k{k}", buffers[-1], buffers[:-1], sizes[draw(st.sampled_from([*sizes]))])
        open_grid = bool(kernel.sizes) and draw(st.booleans())
        x = (
            f"({' + '.join(kernel.sizes)} - {draw(st.integers(0, 9))})"
            if open_grid
            else draw(st.integers(1, 2**31 - 1))
        )
        facts[kernel.name] = {
            "shared": draw(st.integers(0, 2**17)),
            "num_warps": draw(st.integers(1, 32)),
            "grid": (x, draw(st.integers(1, 65535)), draw(st.integers(1, 65535))),
            "sizes": kernel.sizes,
        }
        kernels.append(kernel)
        steps += [Launch(kernel.name, kernel.params)] * draw(st.integers(1, 2))
    metas = {f"b{n}": meta(8) for n in range(6)} | {"x": meta(s0, s1)}
    made = program(metas, {}, {}, kernels, steps, [None])
    return made.with_(sizes=(SizeVar("s0", "x", 0), SizeVar("s1", "x", 1)), device=CUDA), facts


@by_c
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=programs(), data=st.data())
def test_c_gives_the_driver_what_python_gives_it(put_cupy, drawn, data):
    of, facts = drawn
    fake = FakeCupy({n: (lambda *_: None, len(k.params) + len(k.sizes)) for n, k in of.kernels.items()})
    put_cupy(fake)
    kernels = {
        name: kernel for n in of.kernels for name, kernel in loaded(of, **facts[n]).items() if name == n
    }
    run = launch(plan_memory(of), kernels, {})
    (group,) = run.written.groups
    stream = fake.streams[0].ptr
    sizes = {name: data.draw(st.integers(0, 4) | st.integers(0, 2**30)) for name in ("s0", "s1")}
    words = [stream, *(data.draw(WORDS) for _ in group.buffers), *(sizes[name] for name in group.sizes)]
    blocks = [
        run.names[name](*(sizes[n] for n in of.kernels[name.removeprefix("blocks_of_")].sizes))
        for name in group.grids
    ]
    fake.log.clear()
    assert not run.names[group.function](*words, *blocks)
    from_c, fake.log[:] = [*fake.log], []
    assert fake.from_c == len(group.launches) == len(from_c)
    one_by_one(run)[group.function](*words, *blocks)
    assert from_c == fake.log


@by_c
def test_a_launch_that_the_driver_refuses(started, monkeypatch):
    run, fake = started(chain(2))
    refusing = fake.launch_for_c(refuses=700)
    monkeypatch.setattr(issue, "driver_launch", lambda cp: ctypes.cast(refusing, ctypes.c_void_p).value)
    run = launch(run.program, loaded(run.program), {})
    with pytest.raises(RefusedByDriver, match="700"):
        run(array(np.zeros(64)))
    assert not fake.from_c


@by_c
def test_words_that_are_no_numbers(started):
    run, fake = started(chain(1))
    with pytest.raises(TypeError):
        run.names["issue_0"](100, "x", None)
    with pytest.raises(OverflowError):
        run.names["issue_0"](100, 2**64, 0)
    assert not fake.from_c


@by_c
def test_threads_issue_at_the_same_time(started):
    run, fake = started(chain(2))
    results = {}

    def work(k):
        for _ in range(50):
            (y,) = run(array(np.full(64, k)))
            assert (y == k + 2).all()
        results[k] = True

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and fake.from_c == 400


# ---- groups ------------------------------------------------------------------------------------------------


def test_a_group_ends_where_memory_of_its_own_is_freed_and_where_python_is_needed():
    of = plan_memory(chain(3).with_(device=CUDA))
    free = Free("x")  # an array of its own
    steps = [step for step in of.steps if not isinstance(step, Allocate)]
    (group, *_) = [s for s in grouped(of, dict.fromkeys(of.kernels, False)) if isinstance(s, Group)]
    assert [step.kernel for step in group.launches] == ["kernel0", "kernel1", "kernel2"]
    cut = of.with_(steps=(steps[0], free, *steps[1:]))
    assert [
        len(s.launches) for s in grouped(cut, dict.fromkeys(of.kernels, False)) if isinstance(s, Group)
    ] == [1, 2]
    some = {"kernel0": False, "kernel2": False}
    assert [type(s) for s in grouped(of, some) if isinstance(s, Group | Launch)] == [Group, Launch, Group]
    assert grouped(of, {}) == of.steps


def test_what_a_group_allocates_is_there_before_and_slots_are_free_after_it():
    of = plan_memory(chain(4).with_(device=CUDA))
    steps = grouped(of, dict.fromkeys(of.kernels, False))
    kinds = [type(step) for step in steps]
    at = kinds.index(Group)
    assert Allocate not in kinds[at:] and Free not in kinds[:at] and kinds.count(Group) == 1
    assert sorted(map(repr, steps[:at] + steps[at].launches + steps[at + 1 :])) == sorted(map(repr, of.steps))


@by_c
def test_a_program_of_more_words_than_a_call_has(started):
    of = chain(2 * issue.MOST)
    run, fake = started(of)
    assert len(run.written.groups) == 3
    assert max(len(group.buffers) for group in run.written.groups) < issue.MOST
    np.testing.assert_array_equal(run(array(np.zeros(64)))[0], np.full(64, 2 * issue.MOST))


def test_a_kernel_with_other_arguments_is_launched_by_python(started):
    of = chain(1)
    run, fake = started(of, types=("*fp32", "i32"))
    assert not run.written.groups
    run, fake = started(of, types=("*fp32",))
    with pytest.raises(TypeError, match="kernel kernel0 takes 1 arguments, got 2"):
        run(array(np.zeros(64)))


@by_c
def test_without_a_compiler_each_launch_is_pythons(started, monkeypatch, event_log):
    monkeypatch.setattr(issue, "compiled", issue.compiled.__wrapped__)
    monkeypatch.setenv("CUTAWAY_RUNTIME_CXX", "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    run, fake = started(chain(2))
    np.testing.assert_array_equal(run(array(np.zeros(64)))[0], np.full(64, 2))
    assert not run.written.groups and not fake.from_c
    (event,) = event_log("fallback")
    assert event.name == "issue" and "no-such-compiler" in event.details["reason"]


def test_a_stand_in_for_cupy_has_no_driver_of_c():
    assert issue.driver_launch(FakeCupy({})) == 0
