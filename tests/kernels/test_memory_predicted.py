"""The predicted peak of a call beside what is allocated: tracemalloc sees the pools and every array of NumPy's.

Input: a small language model's training step, and a chain of large arrays, compiled without gradients and with.
"""

import gc
import tracemalloc

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from stage4_runtime.runtime.memory import predicted_peak

WITHIN = 0.02


def measured(run, arrays):
    """The peak of one call's allocations, in bytes: the first call, which makes the pools."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = run(*arrays)
        _, peak = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return peak - before


def chain(x, w):
    for _ in range(3):
        x = F.softmax(x @ w, dim=-1) * 2
    return x.sum(0), x.cumsum(0)


@pytest.mark.parametrize("size", [256, 384])
def test_predicted_within_two_percent(size):
    generator = np.random.default_rng(0)
    x, w = (cutaway.from_numpy(generator.standard_normal((size, size)).astype(np.float32)) for _ in range(2))
    compiled = cutaway.compile(chain, fullgraph=True)
    compiled(x, w)
    from stage4_runtime.runtime import launch
    from stage4_runtime.runtime.build import build

    half = compiled.artifacts[-1].forward
    program = half.emitted["cpp"]
    kernels = {name: k for unit in program.units for name, k in build(unit).items()}
    run = launch(program, kernels, half.lowered.constants)
    wanted, seen = predicted_peak(program), measured(run, [x._data, w._data])
    assert abs(wanted - seen) <= WITHIN * seen, (wanted, seen)
