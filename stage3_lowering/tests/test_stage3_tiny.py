"""The tiny parts of stage 3: what they yield, run every way, against NumPy; and that they stay tiny.

Input: graphs of core operators through tiny lower, fuse and emit, called by name: tiny is the subject here.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from stage3_lowering import tiny
from stage3_lowering.tests import programs
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, TRITON, assert_close, check, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.program import External, Launch

F = np.float32
RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((2, 5, 12)).astype(F)
ROW, COLUMN, SQUARE = X[0], Y[:, :1], RNG.standard_normal((12, 7)).astype(F)
BATCH = RNG.standard_normal((2, 3, 4))
ODD = np.array([[1, np.nan, -np.inf, 2], [np.inf, -0.0, 0, 5], [-7, -7, -8, -9]], F)
WHOLE = RNG.integers(-99, 99, (4, 6))


def tiny_seam(name):
    return getattr(tiny, name)


def lowered_and_fused(function, *arrays):
    return tiny.fuse(tiny.lower(trace(function, *arrays)))


def count(program, kind):
    return sum(isinstance(step, kind) for step in program.steps)


def test_sin_cos_is_one_kernel_with_one_load_and_one_store():
    program = lowered_and_fused(programs.sin_cos, X)
    (kernel,) = program.kernels.values()
    assert [i.op for i in kernel.nests[0].body] == ["load", "cos", "sin", "store"]
    assert kernel.internal == ("buf0",) and kernel.params == ("in_x", "buf1")
    emitted = tiny.emit(program, CPP)
    text = emitted.units[0].text
    assert text.count("in_x[") == text.count("buf1[") == 1 and "#pragma omp simd" in text
    assert_close(run_cpp(emitted, [X])[0], np.sin(np.cos(X.astype(float))), 2)


# function, inputs, NumPy's answer, how many kernels, how many calls
CASES = {
    "chain": (lambda c, x, y: c.tanh(c.mul(c.add(x, y), 0.5)), (X, Y), np.tanh((X + Y) * F(0.5)), 1, 0),
    "diamond": (lambda c, x: c.mul(c.sin(x), c.cos(x)), (X,), np.sin(X) * np.cos(X), 1, 0),
    "broadcast": (lambda c, x, y, z: c.sub(c.mul(x, y), z), (X, ROW, COLUMN), X * ROW - COLUMN, 1, 0),
    "compare": (lambda c, x, y: c.where(c.gt(x, y), x, 0.0), (X, Y), np.where(X > Y, X, F(0)), 1, 0),
    "maximum": (lambda c, x: (c.maximum(x, 1.0), c.minimum(x, 1.0)), (ODD,),
                (np.maximum(ODD, 1), np.minimum(ODD, 1)), 2, 0),
    "cast": (lambda c, x: (c.cast(x, dt.int64), c.cast(c.cast(x, dt.bool_), dt.float64)), (X * 10,),
             ((X * 10).astype(int), np.ones_like(X, float)), 2, 0),
    "integers": (lambda c, x: c.add(c.mul(x, x), 2**62), (WHOLE,), WHOLE * WHOLE + 2**62, 1, 0),
    "integer division": (lambda c, x: c.floor_divide(c.add(x, 1), 7), (WHOLE,), (WHOLE + 1) // 7, 1, 1),
    "sum": (lambda c, x: c.sum(c.mul(x, x), (1,)), (X,), (X * X).astype(float).sum(1), 1, 0),
    "sum, first axis": (lambda c, x: c.sum(c.mul(x, x), (0,)), (X,), (X * X).sum(0), 1, 1),
    "extremes": (lambda c, x: (c.amax(x, (-1,)), c.amin(x, (-1,), True)), (ODD,),
                 (ODD.max(1), ODD.min(1, keepdims=True)), 2, 0),
    "integer extremes": (lambda c, x: (c.amax(x, (1,)), c.prod(x, (1,))), (WHOLE,), (WHOLE.max(1), WHOLE.prod(1)),
                         2, 0),
    "any, all": (lambda c, x: (c.any(x, (1,)), c.all(x, (1,))), (X > 1,), ((X > 1).any(1), (X > 1).all(1)), 2, 0),
    "mean, then pointwise": (lambda c, x: c.exp(c.div(c.sum(x, (1,)), 12)), (X,), np.exp(X.astype(float).mean(1)),
                             1, 0),
    "softmax": (programs.softmax, (X,), programs.numpy_softmax(X.astype(float)), 3, 0),
    "layer norm": (programs.layer_norm, (X, ROW, Y[0]), programs.numpy_layer_norm(X.astype(float), ROW, Y[0]),
                   3, 0),
    "matmul": (lambda c, x, y: c.maximum(c.matmul(x, y), 0.0), (X, SQUARE), np.maximum(X @ SQUARE, 0), 1, 1),
    "matmul of a view": (lambda c, x: c.matmul(x, c.permute(x, (1, 0))), (X,), X @ X.T, 0, 1),
    "views": (lambda c, x: c.exp(c.reshape(c.permute(c.expand(c.reshape(x, (2, 3, 1, 4)), (2, 3, 5, 4)),
                                                     (2, 0, 1, 3)), (5, 6, 4))), (BATCH,),
              np.exp(np.broadcast_to(BATCH.reshape(6, 4), (5, 6, 4))), 1, 0),
    "a reshape that copies": (lambda c, x: c.neg(c.reshape(c.permute(x, (1, 0)), (60,))), (X,),
                              -X.T.reshape(60), 1, 1),
    "full": (lambda c, x: (c.mul(c.full((5, 12), 2.5, dt.float32, CPU), x), c.full((), -math.inf, dt.float64, CPU)),
             (X,), (X * F(2.5), np.array(-np.inf)), 2, 0),
    "transposed input": (lambda c, x: c.add(x, 1.0), (X.T,), X.T + 1, 1, 0),
    "an output twice": (lambda c, x: (y := c.sin(x), y, c.permute(y, (1, 0)), x), (X,),
                        (np.sin(X), np.sin(X), np.sin(X).T, X), 2, 0),
    "empty": (lambda c, x: c.sum(c.sin(x), (1,)), (X[:, :0],), np.zeros(5, F), 0, 2),
    "an operator tiny does not know": (lambda c, x: c.exp(c.flip(x, (1,))), (X,), np.exp(X[:, ::-1]), 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_way_is_what_numpy_says(case):
    function, arrays, expected, kernels, calls = CASES[case]
    expected = expected if isinstance(expected, tuple) else (expected,)
    program = check(tiny_seam, function, arrays, expected, ulps=64)
    assert (count(program, Launch), count(program, External)) == (kernels, calls)


def test_every_decision_is_recorded_with_a_reason():
    program = lowered_and_fused(lambda c, x, y: c.exp(c.sub(c.matmul(x, y), 1.0)), X, SQUARE)
    assert [(d.first, d.second, d.fused, d.reason) for d in program.decisions] == [
        ("buf0", "buf1", False, "a call is not a loop nest"),
        ("buf1", "buf2", True, "equal loops and indices"),
    ]


@pytest.mark.parametrize("case", ["maximum", "any, all", "integer extremes", "softmax", "views"])
def test_triton_is_what_numpy_says(case):
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays, expected, _, _ = CASES[case]
    emitted = tiny.emit(lowered_and_fused(function, *arrays), TRITON)
    for got, want in zip(run_in_interpreter(emitted, arrays), expected if isinstance(expected, tuple) else (expected,),
                         strict=True):  # fmt: skip
        assert_close(got, want, 64, case)


@pytest.mark.parametrize("function", [programs.sin_cos, programs.softmax])
def test_triton_compiles(function):
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx

    compiled = compile_to_ptx(tiny.emit(lowered_and_fused(function, X), TRITON))
    assert all(f".visible .entry {name}(" in result["ptx"] for name, result in compiled.items())


def test_tiny_stays_tiny():
    """The tags of the labs do not count."""
    sizes = {
        path.name: sum("# lab: " not in line for line in path.read_text().splitlines())
        for path in Path(tiny.__file__).parent.glob("*.py")
    }
    assert max(sizes.values()) <= 200 and sum(sizes.values()) <= 800, sizes
