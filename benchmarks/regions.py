"""What nested_compile_region saves: the kernels and the first call of 24 equal transformer blocks, beside one block.

Input: the model of tests/controls/test_regions.py. `make regions` keeps what this prints in reports/regions.txt. Each
figure is the least of several processes, which run in turns, without any cache: from an empty process's first call to
its result, or to the gradients. A second call is subtracted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types

from benchmarks.quick import too_slow, unless_quick
from stage_contracts.tests.report_heading import heading
from tests.controls import test_regions as case

ROUNDS, COUNT, LIMIT = unless_quick(5, 1), unless_quick(24, 3), 1.5


def measured(count: int, marked: bool, backward: bool) -> dict[str, float]:
    """Seconds and kernels of one process, which runs `alone`."""
    command = [sys.executable, "-m", "benchmarks.regions", str(count), str(int(marked)), str(int(backward))]
    settings = {"CUTAWAY_RUNTIME_FORCE_DISABLE_CACHES": "1"}
    said = subprocess.run(command, env={**os.environ, **settings}, check=True, capture_output=True, text=True)
    return json.loads(said.stdout.splitlines()[-1])


def alone(count: int, marked: bool, backward: bool) -> dict[str, float]:
    """One process: the first call less the second, and how many kernels there are."""
    forward = case.Block.forward
    if not marked:  # the mark is on the very function
        case.Block.forward = types.FunctionType(
            forward.__code__, forward.__globals__, forward.__name__, None, forward.__closure__
        )
    model, x = case.model_of(count)
    compiled = case.torch.compile(model, fullgraph=True)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        with case.torch.set_grad_enabled(backward):
            loss = compiled(x)
        if backward:
            loss.backward()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds[0] - seconds[1], "kernels": len(case.kernels_in(compiled))}


def main() -> int:
    print(heading(f"nested_compile_region: {COUNT} equal blocks beside one", "make regions", 0))
    print(
        f"least of {ROUNDS} processes each, in turns; without caches; threads {os.environ.get('OMP_NUM_THREADS')}"
    )
    failed = False
    for backward in (False, True):
        sides = {
            "one block": (1, True),
            f"{COUNT} blocks": (COUNT, True),
            f"{COUNT}, not marked": (COUNT, False),
        }
        least: dict[str, float] = dict.fromkeys(sides, float("inf"))
        kernels: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, (count, marked) in sides.items():
                made = measured(count, marked, backward)
                least[name] = min(least[name], made["seconds"])
                kernels[name] = made["kernels"]
        print("with gradients" if backward else "forward")
        for name in sides:
            print(f"     {name:<16}{least[name]:8.2f} s{kernels[name]:6.0f} kernels")
        one, many, _ = sides
        ratio, same = least[many] / least[one], kernels[many] == kernels[one]
        failed |= too_slow(ratio > LIMIT) or not same
        print(
            f"{'FAIL' if too_slow(ratio > LIMIT) else 'ok  '} seconds, of one block's: {ratio:.2f}, at most {LIMIT}"
        )
        print(f"{'ok  ' if same else 'FAIL'} as many kernels as one block has")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].isdigit():
        print(
            json.dumps(
                alone(*(kind(int(word)) for kind, word in zip((int, bool, bool), sys.argv[1:4], strict=True)))
            )
        )
    else:
        sys.exit(main())
