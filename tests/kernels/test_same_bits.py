"""A compiled program gives the same bits in each of a hundred runs, with one thread and with several.

Input: reductions over all elements, over rows and over columns, softmax, a loss with its gradient, products, a scatter.
Sums that threads add in the order in which they end would differ: a test shows that the comparison sees such a sum.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway

ROOT = Path(__file__).parents[2]
RUNS = 100


def programs():
    """{name: a call that gives arrays}."""
    draw = np.random.default_rng(0)
    x, y = (cutaway.from_numpy(draw.standard_normal((512, 384), np.float32)) for _ in range(2))
    w = cutaway.from_numpy(draw.standard_normal((384, 256), np.float32))
    rows = cutaway.from_numpy(draw.integers(0, 384, 512))
    few = cutaway.from_numpy(draw.integers(0, 7, (512, 384)))

    def loss(x, w):
        x = x.detach().requires_grad_()
        value = F.cross_entropy(F.gelu(F.layer_norm(x, (384,))) @ w, rows % 256)
        return value, *cutaway.autograd.grad([value], [x])

    functions = {
        "sums": lambda x, y: ((x * y).sum(), x.sum(0), x.sum(1), (x + y).var(0)),
        "softmax": lambda x, y: F.softmax(x * y, -1),
        "cumsum": lambda x, y: x.cumsum(0),
        "scatter": lambda x, y: cutaway.zeros(512, 7).scatter_add(1, few, x),
        "loss": lambda x, y: loss(x, w),
        "products": lambda x, y: (x @ w, x.T @ y, x @ w[:, 0]),
    }
    return {name: partial(cutaway.compile(function), x, y) for name, function in functions.items()}


def bits(result):
    parts = result if isinstance(result, tuple) else (result,)
    return b"".join(np.ascontiguousarray(part.detach().numpy()).tobytes() for part in parts)


def differing():
    """The programs of which some run gave other bits than the first."""
    return [name for name, call in programs().items() if len({bits(call()) for _ in range(RUNS)}) > 1]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_hundred_runs_give_the_same_bits(threads):
    done = subprocess.run(
        [sys.executable, __file__], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_another_order_is_seen():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    one, other = (cutaway.from_numpy(np.add.accumulate(a)[-1:]) for a in (x, x[::-1]))
    assert bits(one) != bits(other)


if __name__ == "__main__":
    print(json.dumps(differing()))
