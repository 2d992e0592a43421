"""How long capture takes on the language model, beside torch's Dynamo on the same file.

Input: tests/models/gpt2.py once with torch and once with Cutaway under torch's names, in evaluation; `make
capture-time` keeps what this prints in reports/capture-time.txt. Both compile with the backend that runs graphs as
captured, in one process, in turns; each figure is the least of several, the first of each left out.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch

import cutaway
from benchmarks.quick import QUICK, too_slow, unless_quick
from cutaway.torch_api import torch as ours
from stage_contracts.tests.report_heading import heading
from tests.models.cases import FULL, TINY, load_file, tensors

ROUNDS, LIMIT = unless_quick(5, 1), 0.25


def first_call(framework: Any, module: Any, model: Any, case: Any, batch: tuple) -> float:
    """Seconds that the first call of a freshly compiled model takes, less those of the second."""
    framework._dynamo.reset()
    compiled = framework.compile(model, backend="eager", fullgraph=True)
    times = []
    with framework.no_grad():
        for _ in range(2):
            start = time.perf_counter()
            case.run(module, compiled, batch)
            times.append(time.perf_counter() - start)
    return times[0] - times[1]


def main() -> int:
    case = next(c for c in (TINY if QUICK else FULL) if c.file == "gpt2")
    print(heading(f"Capture of {case.name}", "make capture-time", case.seed, "torch"))
    torch.set_num_threads(1)
    sides = {}
    for name, framework in (("torch", torch), ("cutaway", ours)):
        module = load_file(case.file, name == "cutaway")
        model = case.build(module).eval()
        batch = tensors(framework, case.batch(np.random.default_rng(case.seed)), "float32")
        sides[name] = framework, module, model, case, batch
    least = dict.fromkeys(sides, float("inf"))
    for round_ in range(ROUNDS + 1):
        for name, side in sides.items():
            seconds = first_call(*side)
            if round_:
                least[name] = min(least[name], seconds)
    for name, seconds in least.items():
        print(f"     {name:<10}{seconds * 1e3:9.1f} ms")
    ratio = least["cutaway"] / least["torch"]
    failed = too_slow(ratio > LIMIT)
    print(
        f"{'FAIL' if failed else 'ok  '} capture, of what torch's Dynamo takes: {ratio:.2f}, at most {LIMIT}"
    )
    return int(failed)


if __name__ == "__main__":
    assert cutaway.compile is ours.compile
    sys.exit(main())
