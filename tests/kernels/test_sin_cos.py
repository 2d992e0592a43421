"""`sin(cos(x))` is one kernel that reads x once and writes once: in C++, in Triton's interpreter, and as PTX.

Input: one function. Triton interprets or compiles in a process, never both, so each runs in its own.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import cutaway

ULPS = 4  # of float32; NumPy's own sin and cos are within 4 of the exact value (NumPy's documentation of SIMD math)


def f(x):
    return cutaway.sin(cutaway.cos(x))


def ulps(a, b) -> int:
    return int(np.max(np.abs(a.astype(np.float64) - b) / np.spacing(np.maximum(np.abs(a), np.abs(b)))))


@pytest.fixture(scope="module")
def compiled():
    fn = cutaway.compile(f, fullgraph=True)
    fn(cutaway.randn(1000))
    return fn


def test_one_kernel_one_load_one_store(compiled):
    program = compiled.artifacts[-1].forward.planned
    (kernel,) = program.kernels.values()
    (nest,) = kernel.nests
    ops = [instr.op for instr in nest.body]
    assert ops == ["load", "cos", "sin", "store"]
    assert len(kernel.params) == 2 and not kernel.internal


def test_the_sources_load_once_and_store_once(compiled):
    kept = compiled.artifacts[-1]
    (cpp,) = kept.forward.emitted["cpp"].units
    (triton,) = kept.emit("forward", "triton").units
    assert cpp.text.count('extern "C" int64_t fused_') == 1
    assert triton.text.count("@triton.jit") == 1
    assert triton.text.count("tl.load(") == 1 and triton.text.count("tl.store(") == 1
    for text in (cpp.text, triton.text):
        assert "test_sin_cos.py" in text, "the kernel names the user's line"


def test_cpp_equals_eager(compiled):
    cutaway.manual_seed(1)
    x = cutaway.randn(1000) * 10
    got, want = compiled(x).numpy(), f(x).numpy()
    exact = np.sin(np.cos(x.numpy().astype(np.float64))).astype(np.float32)
    assert ulps(got, want) <= ULPS
    assert ulps(got, exact) <= ULPS
    assert len(compiled.entries) == 1
    special = cutaway.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0] * 200)
    np.testing.assert_array_equal(np.isnan(compiled(special).numpy()), np.isnan(f(special).numpy()))


needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)


@needs_triton
def test_triton_interpreter_equals_eager(compiled):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    cutaway.manual_seed(2)
    x = cutaway.randn(1000)
    program = compiled.artifacts[-1].emit("forward", "triton")
    (got,) = run_in_interpreter(program, [x.numpy()])
    assert ulps(got, f(x).numpy()) <= ULPS


@needs_triton
def test_triton_compiles_to_ptx_without_a_gpu(compiled):
    program = compiled.artifacts[-1].emit("forward", "triton")
    (unit,) = program.units
    (kernel,) = cutaway.DEFAULT_PIPELINE.build(unit).values()
    assert f".visible .entry {kernel.name}" in kernel.ptx and ".target sm_90" in kernel.ptx
    assert "st.global" in kernel.ptx
