"""Sorts, top-k and what is made of them as a GPU computes them, with their gradients: kernels, not calls.

Input: the user's functions, as graphs that are said to be on a GPU; programs through all seams, memory planned,
interpreted here and in Triton's interpreter. The oracle is the tape on the CPU. Rows have many equal elements.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import cutaway
from stage3_lowering.interpret import interpret_program
from stage_contracts.program import External, Program
from tests.kernels.gpu_programs import emitted, inference_graph, launched, program_of, training_graphs

DRAW = np.random.default_rng(5)
WEIGHTS = cutaway.tensor(DRAW.integers(-4, 5, (6, 40)).astype("float32"))
FUNCTIONS = {  # name: (function, sorts)
    "sort": (lambda x: x.sort(1)[0] * WEIGHTS, 1),
    "sort down, by columns": (lambda x: x.sort(0, descending=True, stable=True).values * WEIGHTS, 1),
    "msort": (lambda x: x.msort() * WEIGHTS, 1),
    "argsort": (lambda x: x.gather(1, x.argsort(1, descending=True)) * WEIGHTS, 1),
    "topk": (lambda x: x.topk(5).values * WEIGHTS[:, :5], 1),
    "topk of the smallest": (lambda x: x.topk(3, 0, largest=False)[0] * WEIGHTS[:3], 1),
    "of a mixture of experts": (lambda x: x.softmax(1).topk(2).values.cumsum(1), 1),
    "kthvalue": (lambda x: x.kthvalue(7, 1).values * 3, 1),
    "median": (lambda x: x.median(1).values * 3, 1),
    "median of all": (lambda x: x.median() * x, 1),
    "quantile": (lambda x: x.quantile(0.25, 1) * 3, 1),
    "of a product with its turn": (lambda x: (x.t() * 2).sort(1)[0].sum(0), 1),
    "two": (lambda x: x.sort(1)[0] * x.topk(40, 1, largest=False).values, None),
}
ARRAY = DRAW.integers(-4, 5, (6, 40)).astype("float32") / 4
ARRAY[ARRAY == 1] = -0.0


def tensor():
    return cutaway.tensor(ARRAY.copy()).requires_grad_(True)


def ways():
    yield interpret_program
    if importlib.util.find_spec("triton") is not None:
        from stage3_lowering.triton_interpreter import run_in_interpreter

        yield run_in_interpreter


def sorts(program: Program) -> tuple[int, list[str]]:
    """(kernels that sort, calls that do)"""
    calls = [step.target for step in program.steps if isinstance(step, External) and step.target == "sort"]
    return launched(program).count("sort"), calls


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    function, count = FUNCTIONS[name]
    x = tensor()
    want = function(x)
    tangent = DRAW.integers(-3, 4, want.shape).astype("float32")
    (gradient,) = cutaway.autograd.grad(want, x, cutaway.tensor(tangent))
    cut, inputs = training_graphs(function, [tensor()])
    forward, backward = (emitted(program_of(graph)) for graph in (cut.forward, cut.backward))
    made, calls = sorts(forward)
    assert not calls and not sorts(backward)[1] and made == (count or made)
    for run in ways():
        results = run(forward, [i.detach().numpy() for i in inputs])
        np.testing.assert_allclose(results[0], want.detach().numpy(), rtol=1e-6)
        (got,) = (a for a in run(backward, [*results[cut.num_outputs :], tangent]) if a is not None)
        np.testing.assert_allclose(got, gradient.numpy(), rtol=1e-5, atol=1e-6, err_msg=run.__name__)


@pytest.mark.parametrize("name", ["topk", "topk of the smallest"])
def test_topk_is_one_launch(name):
    keep = (lambda x: x.topk(5)) if name == "topk" else (lambda x: x.topk(3, 0, largest=False))
    graph, _ = inference_graph(keep, [cutaway.tensor(ARRAY)])
    program = program_of(graph)
    assert launched(program) == ["sort"] and [*program.kernels] == ["fused_topk_0"]
    want = keep(cutaway.tensor(ARRAY))
    for got, other in zip(interpret_program(program, [ARRAY]), want, strict=True):
        np.testing.assert_array_equal(got, other.numpy())


def test_two_layers_share_a_kernel():
    """Their text is the same, so it is compiled once."""

    def layers(x):
        for _ in range(2):
            x = x.sort(1)[0].flip(1) + 1
        return x

    graph, _ = inference_graph(layers, [cutaway.tensor(ARRAY)])
    program = emitted(program_of(graph))
    assert sorts(program) == (2, []) and sum(k.template == "sort" for k in program.kernels.values()) == 1


def test_an_open_number_of_rows_stays_a_call():
    """The kernel's text has every size."""
    from stage3_lowering.lowering.sort_rows import sort_rows
    from tests.kernels.gpu_programs import TARGET

    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph

    run = cutaway.compile(lambda x: x.sort(1)[0], backend=backend, dynamic=True)
    run(cutaway.tensor(ARRAY))
    seams = cutaway.DEFAULT_PIPELINE
    graph = seams.decompose(seams.functionalize(compiled[0].graph).graph)
    before = seams.fuse(seams.lower(graph))
    assert before.sizes and sort_rows(before, TARGET) == before


def test_a_sort_fills_the_device_as_its_rows_do():
    """The rule of which branches run side by side takes it for as many blocks as there are rows of this length."""
    from stage4_runtime.runtime.stream_costs import MULTIPROCESSORS, cost_of

    for rows, share in ((1, 1 / MULTIPROCESSORS), (4 * MULTIPROCESSORS, 1.0)):
        graph, _ = inference_graph(lambda x: x.sort(1)[0], [cutaway.zeros(rows, 1024)])
        program = program_of(graph)
        found = cost_of(program.steps[0], program)
        assert found is not None and found.share == share
