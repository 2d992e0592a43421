"""Rows that no GPU program holds: their largest element and their sum of exponentials in one pass.

Input: softmax, its logarithm and cross entropy of rows of 20,000, in Triton's interpreter, every access checked for
bounds. The oracle is eager; where it is not exact, float64.
"""

import importlib.util

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from tests.kernels.gpu_programs import emitted, inference_graph, program_of

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
LENGTH = 20_000
FUNCTIONS = {  # and how often a row is read
    "logsumexp": (
        lambda x: cutaway.logsumexp(x, -1),
        2,
    ),  # what it takes off is not the largest, if that is infinite
    "softmax": (lambda x: F.softmax(x, -1), 2),
    "log_softmax": (lambda x: F.log_softmax(x, -1), 2),
    "scaled, from halves": (lambda x: F.log_softmax(x.bfloat16().float() * 3.0, -1), 2),
    "of halves": (lambda x: F.softmax(x.bfloat16(), -1), 2),
    "of another row": (lambda x: (x - x.amax(-1, keepdim=True) / 2).exp().sum(-1), 2),
}


def rows(case):
    x = np.random.default_rng(0).standard_normal((3, LENGTH)).astype(np.float32) * 4
    if case == "special":
        x[0] = -np.inf
        x[1, :15_000] = -np.inf  # lanes that meet nothing but -inf, and some later
        x[1, 17_000] = 100.0
        x[2] = -3e38
    if case == "infinite":
        x[0, 7], x[1, 12_345], x[2, -1] = np.inf, np.nan, -np.inf
    return cutaway.tensor(x)


def text_of(program):
    return next(unit.text for unit in program.units if "amax" in unit.name)


@needs_triton
@pytest.mark.parametrize("case", ["plain", "special", "infinite"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_in_eager(name, case):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, passes = FUNCTIONS[name]
    given = rows(case)
    graph, _ = inference_graph(function, [given])
    program = emitted(program_of(graph))
    assert text_of(program).count("for roffset in") == passes
    (got,) = run_in_interpreter(program, [given.numpy()])
    want = function(given).numpy().astype(np.float64)
    rtol = 1e-2 if "of halves" in name else 2e-6
    atol = 2e-6 if "log" in name or "scaled" in name else 1e-30  # of a logarithm near zero
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=atol)


@needs_triton
def test_cross_entropy_reads_the_logits_once():
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    x, t = rows("plain"), cutaway.tensor([5, 19_999, 0])
    graph, inputs = inference_graph(F.cross_entropy, [x, t])
    program = emitted(program_of(graph))
    assert text_of(program).count("for roffset in") == 1
    (got,) = run_in_interpreter(program, [i.numpy() for i in inputs])
    assert abs(got - F.cross_entropy(x.double(), t).item()) < 1e-5
    made = compile_to_ptx(program, 90)
    assert not any("ld.local" in kernel["ptx"] for kernel in made.values())
