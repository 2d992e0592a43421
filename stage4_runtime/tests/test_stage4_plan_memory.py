"""Memory planning: live buffers never share bytes, what escapes is not in the pool, dead memory is reused."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from stage4_runtime.tests.programs import chain, external, meta, program, python_kernels, sum_kernel
from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Allocate, External, Free, Launch, RecordEvent, WaitEvent
from stage_contracts.races import races
from stage_contracts.symbolic import ShapeEnv

first = pytest.mark.conformance("plan_memory", tier="first")
core = pytest.mark.conformance("plan_memory", tier="core")
full = pytest.mark.conformance("plan_memory", tier="full")
good = pytest.mark.conformance("plan_memory", goal="good")


def live_bytes(planned):
    """The largest sum of slot bytes live at one time, and the sum of all."""
    live, most, total = {}, 0, 0
    for step in planned.steps:
        slot = planned.buffers[step.buffer].slot if isinstance(step, Allocate | Free) else None
        if isinstance(step, Allocate) and slot:
            live[step.buffer] = slot.nbytes
            total += slot.nbytes
        elif isinstance(step, Free):
            live.pop(step.buffer, None)
        most = max(most, sum(live.values()))
    return most, total


@first
def test_each_temporary_is_allocated_before_its_first_write_and_freed_after_its_last_read(seam):
    """A temporary has memory from before its first write until after its last read."""
    planned = seam("plan_memory")(chain(3))
    planned.verify()
    order = [(type(s).__name__, getattr(s, "buffer", getattr(s, "kernel", ""))) for s in planned.steps]
    for name, writer, reader in (("buf0", "kernel0", "kernel1"), ("buf1", "kernel1", "kernel2")):
        assert order.index(("Allocate", name)) < order.index(("Launch", writer))
        assert order.index(("Launch", reader)) < order.index(("Free", name))


@first
def test_what_the_program_returns_has_memory_of_its_own(seam):
    """A buffer that is returned is not in the pool: the next call would write over it."""
    planned = seam("plan_memory")(chain(2))
    assert planned.buffers["y"].slot is None
    assert planned.buffers["buf0"].slot is not None
    assert Free("y") not in planned.steps


@good
def test_a_long_chain_needs_no_more_than_two_buffers(seam):
    """Memory that is free is used again: a chain needs two buffers, however long it is."""
    planned = seam("plan_memory")(chain(10))
    most, total = live_bytes(planned)
    assert most <= sum(planned.pools) <= 2 * most < total


@first
def test_the_steps_that_compute_stay_as_they_were(seam):
    """Planning adds allocations and frees, and leaves the steps that compute in their order."""
    before = chain(4)
    planned = seam("plan_memory")(before)
    assert [s for s in planned.steps if not isinstance(s, Allocate | Free)] == list(before.steps)
    assert planned.inputs == before.inputs and planned.kernels == before.kernels


@core
def test_a_view_from_an_eager_kernel_keeps_its_operand_alive(seam):
    """reshape may share memory with buf0, so buf0's bytes must not be reused while buf1 is read."""
    kernels = [sum_kernel("k0", "buf0", ["x"], 64), sum_kernel("k1", "buf2", ["x"], 64)]
    kernels.append(sum_kernel("k2", "y", ["buf1", "buf2"], 64))
    steps = [Launch("k0", ("x", "buf0")), external("reshape", "buf0", (8, 8), out="buf1")]
    steps += [Launch("k1", ("x", "buf2")), Launch("k2", ("buf1", "buf2", "y"))]
    temporaries = {"buf0": meta(64), "buf1": meta(8, 8), "buf2": meta(64)}
    planned = seam("plan_memory")(
        program({"x": meta(64)}, temporaries, {"y": meta(64)}, kernels, steps, ["y"])
    )
    assert planned.steps.index(Launch("k2", ("buf1", "buf2", "y"))) < planned.steps.index(Free("buf0"))


@core
def test_an_operand_whose_view_is_returned_is_not_in_the_pool(seam):
    """A buffer that a returned view lies in is not in the pool."""
    steps = [Launch("k0", ("x", "buf0")), external("reshape", "buf0", (8, 8), out="y")]
    kernels = [sum_kernel("k0", "buf0", ["x"], 64)]
    planned = seam("plan_memory")(
        program({"x": meta(64)}, {"buf0": meta(64)}, {"y": meta(8, 8)}, kernels, steps, ["y"])
    )
    assert planned.buffers["buf0"].slot is None
    assert Free("buf0") not in planned.steps


@full
def test_a_buffer_returned_as_a_view_is_not_in_the_pool(seam):
    steps = [Launch("k0", ("x", "buf0"))]
    kernels = [sum_kernel("k0", "buf0", ["x"], 64)]
    returned = [BufferRef("buf0", (8, 8), (1, 8), 0)]
    planned = seam("plan_memory")(program({"x": meta(64)}, {"buf0": meta(64)}, {}, kernels, steps, returned))
    assert planned.buffers["buf0"].slot is None


@full
@pytest.mark.parametrize(("device", "alignment"), [(Device("cpu"), 64), (Device("cuda"), 512)])
def test_slots_are_aligned_for_their_device(seam, device, alignment):
    planned = seam("plan_memory")(chain(5, size=3).with_(device=device))
    offsets = [b.slot.offset for b in planned.buffers.values() if b.slot]
    assert offsets and all(offset % alignment == 0 for offset in offsets)


@full
def test_planning_twice_is_planning_once(seam):
    planned = seam("plan_memory")(chain(4))
    assert seam("plan_memory")(planned) == planned


@full
def test_a_buffer_nobody_reads_is_freed_at_once(seam):
    kernels = [sum_kernel("k0", "buf0", ["x"], 8), sum_kernel("k1", "y", ["x"], 8)]
    steps = [Launch(k.name, k.params) for k in kernels]
    planned = seam("plan_memory")(
        program({"x": meta(8)}, {"buf0": meta(8)}, {"y": meta(8)}, kernels, steps, ["y"])
    )
    assert planned.steps.index(Free("buf0")) == planned.steps.index(steps[0]) + 1


@full
def test_buffers_that_two_streams_use_at_the_same_time_share_no_bytes(seam):
    """Two chains of two temporaries each, one on a stream of its own: the steps' order says nothing of them."""
    kernels, steps = [], []
    for b in range(2):
        names = ["x", f"a{b}", f"b{b}", f"c{b}"]
        kernels += [sum_kernel(f"{names[k + 1]}_", names[k + 1], [names[k]], 64) for k in range(3)]
        steps += [RecordEvent(0, 0), WaitEvent(0, 1)] * (b == 0)
        steps += [Launch(kernel.name, kernel.params, stream=b) for kernel in kernels[-3:]]
    kernels.append(sum_kernel("last", "y", ["c0", "c1"], 64))
    steps += [RecordEvent(1, 1), WaitEvent(1, 0), Launch("last", kernels[-1].params)]
    temporaries = {f"{name}{b}": meta(64) for name in "abc" for b in range(2)}
    planned = seam("plan_memory")(
        program({"x": meta(64)}, temporaries, {"y": meta(64)}, kernels, steps, ["y"])
    )
    planned.verify()
    assert races(planned) == []
    slots = {name: planned.buffers[name].slot for name in temporaries}
    for one, other in itertools.product("abc", repeat=2):
        a, b = slots[f"{one}0"], slots[f"{other}1"]
        assert a is None or b is None or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_a_size_known_only_at_run_time_is_refused():
    from stage4_runtime.runtime import plan_memory

    size = ShapeEnv().dimension("s0", 64)
    unknown = chain(3)
    buffers = {n: b if n != "buf0" else type(b)(n, meta(size), b.role) for n, b in unknown.buffers.items()}
    with pytest.raises(Unsupported, match="known only at run time"):
        plan_memory(unknown.with_(buffers=buffers))


def test_matmul_writes_into_planned_memory():
    from stage4_runtime.runtime import plan_memory

    steps = [external("matmul", "x", "w", out="buf0"), external("matmul", "buf0", "w", out="y")]
    square = meta(8, 8)
    planned = plan_memory(
        program({"x": square, "w": square}, {"buf0": square}, {"y": square}, [], steps, ["y"])
    )
    assert all(s.into for s in planned.steps if isinstance(s, External))
    assert planned.buffers["buf0"].slot is not None and planned.buffers["y"].slot is None


SIZES = (0, 1, 3, 64, 100)


@st.composite
def programs(draw):
    """Random launches and external calls, each reading what is there, with one to three results."""
    available = {"x": draw(st.sampled_from(SIZES)), "w": draw(st.sampled_from(SIZES))}
    inputs = {name: meta(size) for name, size in available.items()}
    kernels, steps, made = [], [], {}
    for k in range(draw(st.integers(1, 12))):
        name = f"buf{k}"
        sources = draw(st.lists(st.sampled_from(sorted(available)), min_size=1, max_size=3, unique=True))
        what = draw(st.sampled_from(("launch", "launch", "reshape", "neg")))
        size = available[sources[0]] if what != "launch" else draw(st.sampled_from(SIZES))
        if what == "launch":
            kernels.append(sum_kernel(f"kernel{k}", name, sources, size))
            steps.append(Launch(f"kernel{k}", kernels[-1].params))
        elif what == "reshape":
            steps.append(external("reshape", sources[0], (size,), out=name))
        else:
            steps.append(external("neg", sources[0], out=name))
        available[name], made[name] = size, meta(size)
    results = draw(st.lists(st.sampled_from(sorted(made)), min_size=1, max_size=3, unique=True))
    outputs = {name: m for name, m in made.items() if name in results}
    temporaries = {name: m for name, m in made.items() if name not in results}
    return program(inputs, temporaries, outputs, kernels, steps, results)


def by_hand(of, arrays):
    """The same program on NumPy arrays of their own: nothing shared, nothing planned."""
    values = dict(zip(of.inputs, arrays, strict=True))
    for step in of.steps[:-1]:
        if isinstance(step, Launch):
            *sources, out = step.buffers
            shape = of.buffers[out].meta.shape
            terms = [np.resize(values[s], shape) if values[s].size else np.float32(0) for s in sources]
            values[out] = sum(terms, np.ones(shape, np.float32))
        else:
            operand = values[step.args[0].name]
            values[step.outputs[0]] = operand.copy() if step.target == "reshape" else -operand
    return [values[ref.name] for ref in of.return_step.values]


@full
@settings(max_examples=150, derandomize=True, deadline=None)
@given(before=programs())
def test_live_buffers_never_overlap_and_the_pool_is_no_larger_than_all_of_them(seam, before):
    planned = seam("plan_memory")(before)
    planned.verify()
    most, total = live_bytes(planned)
    slots = sum(b.slot is not None for b in planned.buffers.values())
    assert most <= sum(planned.pools) <= total + 64 * slots


@pytest.mark.conformance("plan_memory", "launch", tier="full")
@settings(max_examples=150, derandomize=True, deadline=None)
@given(before=programs())
def test_a_planned_program_computes_what_an_unplanned_one_does(seam, before):
    run = seam("launch")(seam("plan_memory")(before), python_kernels(before), {})
    generator = np.random.default_rng(0)
    arrays = [
        generator.standard_normal(before.buffers[n].meta.shape).astype(np.float32) for n in before.inputs
    ]
    first = run(*arrays)
    kept = [a.copy() for a in first]
    second = run(*[a + 1 for a in arrays])
    for got, want, copy in zip(first, by_hand(before, arrays), kept, strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(got, copy, err_msg="the second call overwrote a result of the first")
    for got, want in zip(second, by_hand(before, [a + 1 for a in arrays]), strict=True):
        np.testing.assert_array_equal(got, want)
