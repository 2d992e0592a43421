"""Gradients of tables as a GPU computes them: zeros, and one kernel that computes what is added and where, and adds it.

Input: functions that read rows or elements at places; programs through all seams, memory planned, interpreted here. The
oracle is the tape's gradient on the CPU. Values are small whole numbers: any order of additions gives the same bits.
"""

from __future__ import annotations

import importlib.util

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from cutaway.profiler.costs import cost
from cutaway.profiler.kernel_files import alone
from stage3_lowering.interpret import interpret_program
from stage_contracts import config
from stage_contracts.program import Kernel, Launch, Program
from tests.kernels.gpu_programs import emitted, program_of, training_graphs

PLACES = np.random.default_rng(3).integers(0, 50, 77)
PADDING = int(PLACES[0])
FUNCTIONS = {  # name: (function of a table and of places, kernels that add, calls)
    "an embedding": (lambda w, t: F.embedding(t, w) * 2, 1, 0),
    "with a padding": (lambda w, t: F.embedding(t, w, padding_idx=PADDING) * 2, 1, 0),
    "rows by places that may be negative": (lambda w, t: w[t - 25].abs(), 1, 0),
    "rows, then their columns": (lambda w, t: w[t, t % 24] * 3, 1, 0),
    "elements": (lambda w, t: w.gather(0, t[:, None].expand(77, 24) % 50) * 2, 1, 0),
    "selected columns": (lambda w, t: w.index_select(1, t % 24).neg(), 1, 0),
    "two of a table": (
        lambda w, t: w[t] * 2 + w[(t + 1) % 50],
        1,
        1,
    ),  # the second adds to what the first made
    "turned": (lambda w, t: w.t()[:, t] * 2, 1, 0),
    "read by a sum as well": (lambda w, t: w[t] * 2 + w.sum(0), 0, 1),
}
DRAW = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def _not_deterministic():
    """Whatever another test of this process has asked for."""
    with config.patch({"runtime.deterministic": False}):
        yield


def table():
    return cutaway.tensor(DRAW.integers(-4, 5, (50, 24)).astype("float32")).requires_grad_(True)


def adds(kernel: Kernel) -> bool:
    return any(i.op == "atomic_add" for nest in kernel.nests for i in nest.body)


def gradients(name: str) -> tuple[Program, list, np.ndarray]:
    """The backward's program, what it is given, and the gradient of the tape."""
    function, places = FUNCTIONS[name][0], cutaway.tensor(PLACES)
    w = table()
    cut, inputs = training_graphs(function, [w, places])
    y = function(w, places)
    tangent = DRAW.integers(-3, 4, y.shape).astype("float32")
    (want,) = cutaway.autograd.grad(y, w, cutaway.tensor(tangent))
    made = interpret_program(program_of(cut.forward), [i.detach().numpy() for i in inputs])
    given = [*made[cut.num_outputs :], tangent]
    return emitted(program_of(cut.backward)), given, want.numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    program, given, want = gradients(name)
    kernels, calls = FUNCTIONS[name][1:]
    found = [s.target for s in program.steps if getattr(s, "target", "") == "scatter_add"]
    assert (sum(map(adds, program.kernels.values())), len(found)) == (kernels, calls)
    runs = [interpret_program]
    if importlib.util.find_spec("triton") is not None:
        from stage3_lowering.triton_interpreter import run_in_interpreter

        runs.append(run_in_interpreter)
    for run in runs:
        (got,) = (a for a in run(program, given) if a is not None)
        np.testing.assert_array_equal(got, want, err_msg=run.__name__)


def test_a_deterministic_program_adds_in_order():
    with config.patch({"runtime.deterministic": True}):
        program, given, want = gradients("an embedding")
    assert not any(map(adds, program.kernels.values()))
    (got,) = (a for a in interpret_program(program, given) if a is not None)
    np.testing.assert_array_equal(got, want)


def test_what_the_kernel_costs_and_how_it_runs_alone():
    program, given, _ = gradients("an embedding")
    (step,) = (s for s in program.steps if isinstance(s, Launch) and adds(program.kernels[s.kernel]))
    made, count = cost(program, step), 77 * 24
    assert made.flops >= 2 * count  # a product and an addition for each element, and what its place takes
    # what is added, the places, and the table, read and written where it is added to: at most all of it
    assert made.nbytes == 4 * count + 8 * 77 + 2 * 4 * min(count, 50 * 24)
    single = alone(program, step).verify()
    places, tangent = given
    assert [single.buffers[n].meta.dtype.name for n in single.inputs] == ["float32", "int64", "float32"]
    assert interpret_program(single, [tangent, places, np.zeros((50, 24), "float32")]) == ()
