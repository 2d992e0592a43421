"""A kernel leaves the processor as it found it: what the process computes afterwards is right.

Input: a kernel of four integer maxima, built without AVX, in a process of its own. `python
tests/kernels/test_processor_state.py` prints the sum of five long doubles after it ran.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import cutaway
from stage_contracts import config

ROOT = Path(__file__).parents[2]
# what a machine without AVX would build with
FLAGS = "-O3 -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off"


def extremes(x, w):
    kept = (x - x.amax(1, keepdim=True)) * w
    return kept / kept.sum(1, keepdim=True), x.amin(1)


def all_of_them(*given):
    return [extremes(x, w) for x, w in zip(given[::2], given[1::2], strict=True)]


def test_long_doubles_are_numbers_after_a_kernel():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "15.0"), done.stderr


if __name__ == "__main__":
    draw = np.random.default_rng(0)
    with config.patch({"runtime.cxx_flags": FLAGS}), config.patch(force_disable_caches=True):
        pairs = [
            (draw.standard_normal((3, n), np.float32), draw.standard_normal(n, np.float32))
            for n in (68, 70, 84, 100)
        ]
        given = [cutaway.from_numpy(a).to(cutaway.bfloat16) for pair in pairs for a in pair]
        cutaway.compile(all_of_them, fullgraph=True)(*given)
    print(float(np.arange(1, 6, dtype=np.longdouble).sum()))
