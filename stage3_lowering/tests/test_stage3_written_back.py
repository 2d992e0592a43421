"""New values of inputs that a later kernel still needs are copied at the end of a program for a GPU, by few tables.

Input: random training steps: values that wait for a reduction update an input that a later kernel reads. On a tree without
the pass such values are left to the caller, and `in_place` does not name them.
"""

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering import emit, fuse, lower, schedule
from stage3_lowering.tests.graphs import meta_of_array, trace
from stage_contracts import config
from stage_contracts.device import CPU, Device
from stage_contracts.in_place import in_place
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.program import Launch, Target

CUDA = Device("cuda", 0)
TARGETS = {CUDA: Target("triton", CUDA, "sm_90"), CPU: Target("cpp", CPU)}


def step_of(lengths, dtypes, wait, device=CUDA):
    """(program, arrays): for each length an input x, a weight that a later kernel reads if it is to wait, and its new
    value."""
    draw = np.random.default_rng(len(lengths))
    waiting = iter([wait] * len(lengths) if isinstance(wait, bool) else wait)
    arrays = []
    for n, dtype in zip(lengths, dtypes, strict=True):
        arrays += [draw.integers(-4, 5, (6, n)).astype(dtype), draw.integers(-4, 5, n).astype(dtype)]

    def function(c, *xs):
        news, others = [], []
        for x, w in zip(xs[::2], xs[1::2], strict=True):
            gradient = c.sum(x, (0,))
            new = c.sub(w, gradient)
            news.append(new)
            # it needs the sums, so it runs after the kernel that updates the weight
            others.append(c.mul(c.mul(x, gradient), w) if next(waiting) else c.mul(x, gradient))
        return [*others, *news]

    metas = [meta_of_array(a).with_(device=device) for a in arrays]
    program = fuse(lower(trace(function, *metas)))
    values = [ref.name for ref in buffer_refs(program.return_step.values)]
    updates = dict(zip(values[len(lengths) :], program.inputs[1::2], strict=True))
    return schedule(program.with_(updates=updates), TARGETS[device]), arrays


CASES = [
    ((64,) * 6, ("float32",) * 6),
    ((64, 7, 1, 300, 1000, 33, 16), ("float32",) * 7),
    ((64, 7, 64, 16, 33, 9), ("float32", "float16", "int64", "float32", "float16", "int64")),
]


@pytest.mark.parametrize("lengths, dtypes", CASES, ids=str)
def test_what_waits_is_written_at_the_end(lengths, dtypes):
    program, arrays = step_of(lengths, dtypes, wait=True)
    assert in_place(program) == dict(program.updates) and len(program.updates) == len(lengths)
    copies = [s for s in program.steps if isinstance(s, Launch) and s.kernel.startswith("write_back")]
    kinds = {(dtype, n % 16 == 0) for n, dtype in zip(lengths, dtypes, strict=True)}
    assert len(copies) == len(kinds) and program.steps[-1 - len(copies) : -1] == tuple(copies)
    with config.patch(disabled_passes="schedule.written_back"):
        before, _ = step_of(lengths, dtypes, wait=True)
    assert not in_place(before)
    for got, wanted in zip(
        interpret_program(program, arrays), interpret_program(before, arrays), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_the_tables_run_in_the_interpreter_and_compile():
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    program, arrays = step_of(*CASES[2], wait=True)
    emitted = emit(program, TARGETS[CUDA])
    for got, wanted in zip(
        run_in_interpreter(emitted, arrays), interpret_program(program, arrays), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    assert all(made["ptx"] for made in compile_to_ptx(emitted).values())


@pytest.mark.parametrize(
    "case, device",
    [(((64,) * 4, ("float32",) * 4), CUDA), (((64,) * 6, ("float32",) * 6), CPU)],
    ids=["few", "a CPU"],
)
def test_where_the_caller_copies(case, device):
    program, _ = step_of(*case, wait=True, device=device)
    assert not any(name.startswith("write_back") for name in program.kernels)
