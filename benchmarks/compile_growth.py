"""How the first call's time grows with the graph: pointwise operators in one function; and which pass takes it.

Input: numbers of operators. `python benchmarks/compile_growth.py 50 200 800 3200`
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import cutaway
from stage_contracts import config
from stage_contracts.events import LEDGER


def chain(count: int) -> Any:
    lines = "".join(f"    x = x {('*', '+', '-')[k % 3]} {0.5 + k % 7}\n" for k in range(count))
    scope: dict[str, Any] = {}
    exec(f"def f(x):\n{lines}    return x\n", scope)
    return scope["f"]


def main(counts: list[int]) -> None:
    x = cutaway.tensor(np.ones(1000, np.float32))
    previous = 0.0
    for count in counts:
        mark = LEDGER.mark()
        start = time.process_time()
        begun = time.perf_counter()
        with config.patch(cache=False):
            cutaway.compile(chain(count))(x)
        took, cpu = time.perf_counter() - begun, time.process_time() - start
        passes = {e.name: e.duration_ns / 1e9 for e in LEDGER.since(mark, "pass")}
        longest = sorted(passes.items(), key=lambda item: -item[1])[:6]
        words = ", ".join(f"{name} {seconds:.2f}" for name, seconds in longest)
        ratio = f" ({took / previous:.1f} times)" if previous else ""
        print(f"{count} operators: {took:.2f} s{ratio}, {cpu:.2f} s of it here; {words}", flush=True)
        previous = took


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [50, 200, 800])
