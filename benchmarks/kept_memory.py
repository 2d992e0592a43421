"""`make kept-memory`: what `runtime.keep_freed` wins in a training step, and how much memory a process then keeps.

Input: cpu_models.py's language model; a process for each setting, in turn. What is kept is seen twice: after the
training steps, and after 224 MiB of arrays, of 16 MiB each, were held and dropped; at most 256 MiB may stay.
    python -m benchmarks.kept_memory [--quick]
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks import cpu_models as models
from benchmarks.cpu_rows import SEED
from benchmarks.quick import unless_quick
from stage_contracts.tests.report_heading import heading

SETTINGS = (0, 64 << 20, 256 << 20)
ROUNDS, STEPS = unless_quick(3, 1), unless_quick(8, 1)
MIB = 1 << 20


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def one(kept: int) -> dict[str, float]:
    import cutaway
    from cutaway.torch_api import as_torch
    from stage_contracts import config

    config.change(keep_freed=kept, never_slower=False)
    rng = np.random.default_rng(SEED)
    with as_torch():
        tokens = [cutaway.from_numpy(rng.integers(0, 256, (4, 128))) for _ in range(2)]
        step = models.language_model_training(importlib.import_module("torch"), cutaway.compile, *tokens)
    for _ in range(2):
        step()
    took, before = [], resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(STEPS):
        began = time.process_time()
        step()
        took.append(time.process_time() - began)
    after = resource.getrusage(resource.RUSAGE_SELF)
    found = {"ms": 1e3 * statistics.median(took), "least ms": 1e3 * min(took)}
    found["system ms"] = 1e3 * (after.ru_stime - before.ru_stime) / STEPS
    found["faults"] = (after.ru_minflt - before.ru_minflt) / STEPS
    found["resident"] = resident()
    double = cutaway.compile(lambda x: x * 2.0)
    arrays = [cutaway.from_numpy(np.ones(4 * MIB, np.float32)) for _ in range(unless_quick(7, 1))]
    results = [double(x) for x in arrays]
    found["held"] = resident()
    del arrays, results
    found["dropped"] = resident()
    return found


def main() -> None:
    if "--one" in sys.argv:
        print(json.dumps(one(int(sys.argv[sys.argv.index("--one") + 1]))))
        return
    print(heading("What freed memory that stays with the process wins and costs", "make kept-memory", SEED))
    print("one thread; CPU time of a training step of the six-layer language model, memory in MiB\n")
    columns = ("ms", "least ms", "system ms", "faults", "resident", "held", "dropped")
    print(" ".join(f"{title:>12}" for title in ("keep_freed", *columns)))
    rows: dict[int, list[dict[str, float]]] = {kept: [] for kept in SETTINGS}
    for _ in range(ROUNDS):
        for kept, found in rows.items():
            command = [sys.executable, "-m", "benchmarks.kept_memory", "--one", str(kept), *sys.argv[1:]]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found.append(json.loads(done.stdout))
    for kept, found in rows.items():
        values = [statistics.median(f[c] for f in found) for c in columns]
        print(f"{kept // MIB:>8} MiB " + " ".join(f"{value:>12,.0f}" for value in values))


if __name__ == "__main__":
    main()
