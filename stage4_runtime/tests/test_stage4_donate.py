"""Donation: a result goes straight into the input that it updates, where no reader of old values is left.

The generator below draws chains of kernels over a few buffers, updates at random, and compares with the same program
without updates. With the rule about later readers taken out it finds wrong values (seeds 6, 9, 10, 16 and on).
"""

import random

import numpy as np
import pytest

from stage4_runtime.runtime import launch, plan_memory
from stage4_runtime.tests.programs import external, meta, program, python_kernels, sum_kernel
from stage_contracts.device import Device
from stage_contracts.dtype import float32
from stage_contracts.in_place import LIBRARY, may_write_over
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value
from stage_contracts.program import Kernel, Launch

I0 = symbol("i0")
CUDA = Device("cuda", 0)


def updating(*steps, kernels, updates, returns=("new",), inputs=("p", "g")):
    names = [*inputs]
    outputs = {name: meta(64) for name in (*returns, *updates) if name not in names}
    made = program({n: meta(64) for n in names}, {}, outputs, kernels, steps, returns)
    return made.with_(updates=updates)


def test_an_update_is_written_once():
    kernel = sum_kernel("k", "new", ["p", "g"], 64)
    planned = plan_memory(updating(Launch("k", kernel.params), kernels=[kernel], updates={"new": "p"}))
    assert planned.return_step.values == (BufferRef("p"),) and planned.written_inputs == ("p",)
    p, g = np.ones(64, np.float32), np.ones(64, np.float32)
    (new,) = launch(planned, python_kernels(planned), {})(p, g)
    assert new is p and (p == 3).all()


def test_what_cannot_be_written_to_is_refused_before_the_launch():
    kernel = sum_kernel("k", "new", ["p", "g"], 64)
    planned = plan_memory(updating(Launch("k", kernel.params), kernels=[kernel], updates={"new": "p"}))
    p, g = np.ones(64, np.float32), np.ones(64, np.float32)
    p.flags.writeable = False
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        launch(planned, python_kernels(planned), {})(p, g)
    assert (p == 1).all()


def refused(*steps, kernels, **words):
    planned = plan_memory(updating(*steps, kernels=kernels, updates={"new": "p"}, **words))
    return not planned.written_inputs


def test_a_later_reader_of_the_old_value():
    k, later = sum_kernel("k", "new", ["p", "g"], 64), sum_kernel("later", "y", ["p"], 64)
    assert refused(
        Launch("k", k.params), Launch("later", later.params), kernels=[k, later], returns=("new", "y")
    )
    assert refused(
        Launch("k", k.params), external("add", "p", "p", out="y"), kernels=[k], returns=("new", "y")
    )
    assert refused(Launch("k", k.params), kernels=[k], returns=("new", "p"))


def test_a_result_that_is_returned_twice_stays_apart():
    k = sum_kernel("k", "new", ["p", "g"], 64)
    assert refused(Launch("k", k.params), kernels=[k], returns=("new", "new"))


def kernel_reading(index):
    body = (
        Instr("v", "load", ("p", index), float32),
        Instr("w", "load", ("g", I0), float32),
        Instr("t", "add", (Value("v"), Value("w")), float32),
        Instr("", "store", ("new", I0, Value("t")), None),
    )
    return Kernel("k", (LoopNest("new", (64,), (), body, ()),), ("p", "g", "new"))


@pytest.mark.parametrize("index, fine", [(I0, True), (63 - I0, False), (0 * I0, False)])
def test_elements_are_read_where_they_are_written(index, fine):
    kernel = kernel_reading(index)
    assert may_write_over(kernel, kernel.params, "new", "p") is fine


def test_a_kernel_that_reads_the_old_value_after_it_wrote():
    first, second = sum_kernel("a", "new", ["p"], 64), sum_kernel("b", "other", ["p", "g"], 64)
    both = Kernel("k", (*first.nests, *second.nests), ("p", "g", "new", "other"))
    assert not may_write_over(both, both.params, "new", "p")
    swapped = Kernel("k", (*second.nests, *first.nests), ("p", "g", "new", "other"))
    assert may_write_over(swapped, swapped.params, "new", "p")


def test_on_a_gpu_a_librarys_call_after_the_write_is_no_hindrance():
    """A training step: gradients by cuBLAS and cuDNN between updates."""
    k = sum_kernel("k", "new", ["p", "g"], 64)
    on = {
        target: [Launch("k", k.params), external(target, "g", "g", out="y")] for target in (*LIBRARY, "solve")
    }
    for target, steps in on.items():
        plan = updating(*steps, kernels=[k], updates={"new": "p"}, returns=("new", "y"))
        assert (
            not plan_memory(plan.with_(device=CUDA)).written_inputs
            if target == "solve"
            else (plan_memory(plan.with_(device=CUDA)).written_inputs == ("p",))
        )


@pytest.mark.parametrize("seed", range(40))
def test_random_updates_change_no_value(seed):
    draw = random.Random(seed)
    inputs = ["x", "y", "z"]
    known, kernels, steps = list(inputs), [], []
    for k in range(draw.randint(1, 6)):
        sources = draw.sample(known, draw.randint(1, min(3, len(known))))
        kernels.append(sum_kernel(f"k{k}", f"b{k}", sources, 64))
        steps.append(Launch(f"k{k}", kernels[-1].params))
        known.append(f"b{k}")
    made = [f"b{k}" for k in range(len(kernels))]
    returned = draw.sample(made, draw.randint(1, len(made)))
    updates = dict(zip(returned, draw.sample(inputs, min(len(returned), 3)), strict=False))
    temporaries = {name: meta(64) for name in made if name not in returned}
    of = program(
        {n: meta(64) for n in inputs}, temporaries, {n: meta(64) for n in returned}, kernels, steps, returned
    )
    arrays = [np.full(64, draw.randint(-3, 3), np.float32) for _ in inputs]
    wanted = launch(plan_memory(of), python_kernels(of), {})(*[a.copy() for a in arrays])
    planned = plan_memory(of.with_(updates=updates))
    got = launch(planned, python_kernels(planned), {})(*arrays)
    np.testing.assert_array_equal(np.array(got), np.array(wanted))
