"""`make open-sizes`: kernels compiled once for all sizes, beside those compiled for each: 20 shapes of three programs.

Input: softmax, layer norm and attention of cpu_rows.py. Both run in one process and take turns; a ratio is the median
of the rounds' ratios. A language model with open sizes is measured by open_sizes.py.
    python -m benchmarks.open_kernels [--quick]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cutaway.nn import functional as F

import cutaway
from benchmarks import cpu_rows as rows
from benchmarks.quick import unless_quick
from stage_contracts.tests.report_heading import heading

GOAL, SLACK, ROUNDS, SHORTEST = 1.15, 1.03, unless_quick(9, 1), unless_quick(0.02, 0.0)
SHAPES = 20


def matrices(rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Rows and columns, both between 64 and 2,048: 16,384 elements and more."""
    return [(int(rng.integers(256, 2049)), int(rng.integers(64, 2049))) for _ in range(SHAPES)]


def norms(rng: np.random.Generator) -> list[list[tuple[int, ...]]]:
    return [[(m, n), (n,), (n,)] for m, n in matrices(rng)]


def heads(rng: np.random.Generator) -> list[list[tuple[int, ...]]]:
    """Batch, heads, length, width: q, k and v are alike."""
    sizes = [
        (int(rng.integers(2, 5)), int(rng.integers(2, 9)), int(rng.integers(64, 513))) for _ in range(SHAPES)
    ]
    return [[(b, h, length, 64)] * 3 for b, h, length in sizes]


PROGRAMS: dict[str, tuple[Callable, Callable]] = {
    "softmax": (rows.softmax, lambda rng: [[shape] for shape in matrices(rng)]),
    "layer norm": (rows.layer_norm, norms),
    "attention": (rows.attention, heads),
}


def compiled(function: Callable, **options: Any) -> Any:
    return cutaway.compile(lambda *args: function(cutaway, F, *args), **options)


def timed(call: Callable, inputs: list[Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call(*inputs)
    return (time.perf_counter() - started) / count


def beside(open_call: Callable, fixed_call: Callable, inputs: list[Any]) -> tuple[float, float, float]:
    """(microseconds with open sizes, with fixed ones, the median ratio)."""
    for call in (open_call, fixed_call):
        call(*inputs)
    count = max(1, int(SHORTEST / timed(fixed_call, inputs, 1)))
    pairs = []
    for turn in range(ROUNDS):
        calls = (open_call, fixed_call)[:: 1 if turn % 2 == 0 else -1]
        took = {call: timed(call, inputs, count) for call in calls}
        pairs.append((took[open_call], took[fixed_call]))
    first, second = (1e6 * statistics.median(column) for column in zip(*pairs, strict=True))
    return first, second, statistics.median(a / b for a, b in pairs)


def main() -> int:
    print(
        heading(
            "Open sizes beside fixed ones, in us", "make open-sizes", rows.SEED, more="one thread, float32"
        )
    )
    print(
        f"\nMedian of {ROUNDS} alternated rounds; the goal is {GOAL} of the kernel for that size, within 3 %."
    )
    missed = []
    for name, (function, shapes_of) in PROGRAMS.items():
        rng = np.random.default_rng(rows.SEED)
        shapes = shapes_of(rng)[: unless_quick(SHAPES, 2)]
        open_call = compiled(function, dynamic=True)
        print(f"\n{name:24}{'open':>10}{'fixed':>10}{'ratio':>8}")
        ratios = []
        for given in shapes:
            inputs = [cutaway.from_numpy(rng.standard_normal(shape, np.float32)) for shape in given]
            fixed_call = compiled(function, dynamic=False)
            assert np.allclose(open_call(*inputs).numpy(), fixed_call(*inputs).numpy(), rtol=1e-4, atol=1e-6)
            first, second, ratio = beside(open_call, fixed_call, inputs)
            ratios.append(ratio)
            said = " x ".join(map(str, given[0]))
            print(
                f"  {said:22}{first:10,.0f}{second:10,.0f}{ratio:8.2f}{'  missed' * (ratio > GOAL * SLACK)}",
                flush=True,
            )
            missed += [f"{name} {said}: {ratio:.2f}"] * (ratio > GOAL * SLACK)
        print(
            f"  compiled {len(open_call.artifacts)} time(s) for {len(shapes)} shapes; worst {max(ratios):.2f}"
        )
        assert len(open_call.artifacts) == 1
    print(f"\nMissed: {'; '.join(missed) or 'none'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
