"""Real programs on parallel streams: no race, no wait too many, and the same bits in any order that the events allow.

Input: the programs that `make gpu` times on streams, and random networks with their gradients, lowered for a GPU. The
interpreter runs the planned steps, in pools as planned, in orders drawn at random.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

import cutaway as ct
from benchmarks.gpu import networks
from benchmarks.gpu.streams import CASES
from cutaway import Tensor
from stage3_lowering.verify import made_up, run
from stage_contracts import config
from stage_contracts.program import Allocate, Free, RecordEvent, Return, WaitEvent
from stage_contracts.races import races
from stage_contracts.stream_order import has_streams, stream_order
from tests.kernels.gpu_programs import TARGET, inference_graph, program_of, training_graphs

BY_NAME = {case.name: case for case in CASES}


def planned(program, how):
    with config.patch({"runtime.parallel_streams": how, "runtime.cuda_graphs": True}):
        return ct.DEFAULT_PIPELINE.plan_memory(program)


def smaller(case, most=24):
    """The case with sizes of at most `most`, each size always the same."""
    return replace(case, shapes=tuple(tuple(min(n, most) for n in shape) for shape in case.shapes))


def program_of_case(case):
    given = [ct.zeros(*shape).to(getattr(ct, case.dtype)) for shape in case.shapes]
    return program_of(inference_graph(lambda *tensors: case.function(*tensors), given)[0])


def network(seed):
    dtype, arrays, function = networks.drawn(seed)
    tensors = [Tensor(a).to(getattr(ct, dtype)).requires_grad_(k > 0) for k, a in enumerate(arrays)]
    partition, _ = training_graphs(lambda *given: function(*given)[0], tensors)
    return [program_of(partition.forward), program_of(partition.backward)]


def shuffled(program, draw):
    """The steps in an order that the streams and events allow; memory is there from the first to the last step."""
    order, count = stream_order(program), len(program.steps)
    left = [k for k in range(count) if not isinstance(program.steps[k], Allocate | Free | Return)]
    steps = [step for step in program.steps if isinstance(step, Allocate)]
    while left:
        ready = [
            k
            for k in left
            if not any(order.is_before(other, k) or _waited(program, other, k) for other in left)
        ]
        steps.append(program.steps[draw.choice(ready)])
        left.remove(next(k for k in ready if program.steps[k] is steps[-1]))
    return program.with_(steps=(*steps, program.return_step))


def _waited(program, other, k):
    """Whether `k` waits for the event that `other` records: the clock of the wait itself does not say so yet."""
    a, b = program.steps[other], program.steps[k]
    return isinstance(a, RecordEvent) and isinstance(b, WaitEvent) and a.event == b.event


def check(program):
    made = planned(program, "force")
    assert races(made) == []
    for k, step in enumerate(made.steps):
        if isinstance(step, WaitEvent):
            assert races(made.with_(steps=made.steps[:k] + made.steps[k + 1 :])), step
    return made


@pytest.mark.parametrize("name", BY_NAME)
def test_a_case_of_the_benchmark(name):
    program = program_of_case(BY_NAME[name])
    assert has_streams(check(program)), "a case without branches measures nothing"
    chosen = planned(program, "auto")
    large = "1024x2048" in name or "32 images" in name or "32M" in name  # they fill the device
    assert has_streams(chosen) is not large and races(chosen) == []


def same_in_any_order(program, orders):
    with config.patch({"runtime.parallel_streams": "off"}):
        plain = ct.DEFAULT_PIPELINE.plan_memory(program)
    made, given = planned(program, "force"), made_up(program, False)
    wanted = run(plain, *given)
    for seed in range(orders):
        for a, b in zip(wanted, run(shuffled(made, random.Random(seed)), *given), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [case.name for case in CASES if "float32" in case.name])
def test_any_order_of_a_case_gives_the_same(name):
    same_in_any_order(program_of_case(smaller(BY_NAME[name])), 4)


@pytest.mark.parametrize("seed", range(10))
def test_a_network_and_its_gradients(seed):
    for program in network(seed):
        if has_streams(check(program)):
            emitted = ct.DEFAULT_PIPELINE.emit(planned(program, "force"), TARGET)
            assert has_streams(emitted) and races(emitted) == []
            same_in_any_order(program, 2)
