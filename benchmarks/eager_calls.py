"""What one eager call costs here and in torch: 35 typical calls, tiny and large, as a table of ratios.

Input: both libraries in one process, one thread each. Usage, from the repository's root, where torch is installed:
    make eager-speed            (or: python -m benchmarks.eager_calls > reports/eager-speed.txt)
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cutaway
from benchmarks.quick import too_slow, unless_quick
from stage_contracts.tests.report_heading import heading

ROUNDS = unless_quick(15, 1)  # samples of each library, taken in turns
SAMPLE = 0.003  # seconds that one sample runs for: of this process's CPU time, so that a busy machine is not counted
MOST = 3.0  # what a tiny call may cost: this many times torch's


def make(lib: Any, *shape: int, grad: bool = False) -> Any:
    """The same numbers in either library."""
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    x = lib.from_numpy(values)
    return x.requires_grad_() if grad else x


# ---- the calls: each takes a library and returns what is timed ---------------------------------------------------


def pointwise(lib: Any) -> dict[str, Callable]:
    a, b, x = make(lib, 4), make(lib, 4), make(lib, 4, grad=True)
    m, n = make(lib, 8, 8), make(lib, 8)
    return {
        "a + b": lambda: a + b,
        "a + 1.0": lambda: a + 1.0,
        "a * b": lambda: a * b,
        "m + row (broadcast)": lambda: m + n,
        "a > 0": lambda: a > 0,
        "x + b, recorded": lambda: x + b,
        "x * b, recorded": lambda: x * b,
        "relu(a)": lambda: lib.relu(a),
        "exp(a)": lambda: lib.exp(a),
        "relu(x), recorded": lambda: lib.relu(x),
    }


def shapes(lib: Any) -> dict[str, Callable]:
    m, x, q = make(lib, 8, 8), make(lib, 8, 8, grad=True), make(lib, 8, 8)
    return {
        "m.sum()": lambda: m.sum(),
        "x.sum(), recorded": lambda: x.sum(),
        "m.mean(dim=1)": lambda: m.mean(dim=1),
        "m[0]": lambda: m[0],
        "x[0], recorded": lambda: x[0],
        "m[:, 1:]": lambda: m[:, 1:],
        "m.reshape(4, 16)": lambda: m.reshape(4, 16),
        "x.reshape(4, 16), recorded": lambda: x.reshape(4, 16),
        "m.transpose(0, 1)": lambda: m.transpose(0, 1),
        "m.unsqueeze(0)": lambda: m.unsqueeze(0),
        "cat((m, q))": lambda: lib.cat((m, q)),
        "m @ q": lambda: m @ q,
        "x @ q, recorded": lambda: x @ q,
    }


def networks(lib: Any) -> dict[str, Callable]:
    F = lib.nn.functional
    x, w, b, g = make(lib, 8, 16), make(lib, 16, 16), make(lib, 16), make(lib, 16)
    y = lib.from_numpy(np.arange(8) % 16)
    return {
        "linear(x, w, b)": lambda: F.linear(x, w, b),
        "softmax(x, -1)": lambda: F.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (16,), g, b),
        "cross_entropy": lambda: F.cross_entropy(x, y),
        "gelu(x)": lambda: F.gelu(x),
    }


def training(lib: Any) -> dict[str, Callable]:
    nn = lib.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    x, y = make(lib, 8, 16), lib.from_numpy(np.arange(8) % 10)

    def forward_and_backward() -> None:
        nn.functional.cross_entropy(model(x), y).backward()

    forward_and_backward()
    adam = lib.optim.Adam(model.parameters(), lr=1e-6)
    block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    tokens = make(lib, 2, 16, 32)

    def block_step() -> None:
        block(tokens).sum().backward()

    return {
        "MLP: forward and backward": forward_and_backward,
        "MLP: an Adam step": adam.step,
        "transformer block: forward and backward": block_step,
    }


def large(lib: Any) -> dict[str, Callable]:
    a, b = make(lib, 1 << 20), make(lib, 1 << 20)
    m, n = make(lib, 512, 512), make(lib, 512, 512)
    return {
        "add, 1M elements": lambda: a + b,
        "exp, 1M elements": lambda: lib.exp(a),
        "sum, 1M elements": lambda: a.sum(),
        "matmul 512 x 512": lambda: m @ n,
    }


TINY = (pointwise, shapes)  # held to MOST; the others are for the record
OTHER = (networks, training, large)


# ---- measuring -----------------------------------------------------------------------------------------------------


def seconds(function: Callable, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def compare(ours: Callable, theirs: Callable) -> tuple[float, float]:
    """Medians in seconds, of samples taken in turns so that a busy machine disturbs both alike."""
    pair = []
    for function in (ours, theirs):
        once = seconds(function, 5)
        pair.append((function, unless_quick(max(1, int(SAMPLE / once)), 1)))
    samples: tuple[list, list] = ([], [])
    for _ in range(ROUNDS):
        for (function, repeats), found in zip(pair, samples, strict=True):
            found.append(seconds(function, repeats))
    return statistics.median(samples[0]), statistics.median(samples[1])


def main() -> int:
    torch.set_num_threads(1)
    title = "Eager calls, Cutaway beside torch"
    print(
        heading(
            title,
            "make eager-speed",
            "the sum of each shape",
            "torch",
            more=f"{os.cpu_count()} cores, float32",
        )
    )
    print(f"One process, one thread each; medians of {ROUNDS} samples of CPU time, taken in turns. Other work on the "
          "machine raises both columns: the ratio is the result.\n")  # fmt: skip
    print(f"{'call':42}{'Cutaway µs':>12}{'torch µs':>12}{'ratio':>8}")
    slow = []
    for group in (*TINY, *OTHER):
        print(f"-- {group.__name__}" + (f" (tiny: at most {MOST:g} times torch)" if group in TINY else ""))
        ours, theirs = group(cutaway), group(torch)
        for name in ours:
            a, b = compare(ours[name], theirs[name])
            print(f"{name:42}{a * 1e6:12.2f}{b * 1e6:12.2f}{a / b:8.2f}", flush=True)
            if group in TINY and too_slow(a / b > MOST):
                slow.append(name)
    print(f"\nTiny calls above {MOST:g} times torch: {', '.join(slow) or 'none'}")
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
