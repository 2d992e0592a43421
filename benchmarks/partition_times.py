"""What each partitioner costs in time: forward and backward of the language model and BERT, all of them in one run.

Input: two of the models of tests/models. Times are of the processor, the best of several rounds that take the
partitions in turn, so that a busy machine disturbs all alike. `fewest` is the min cut without spare bytes.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import cutaway
from benchmarks.quick import unless_quick
from benchmarks.saved_bytes import CASES
from stage2_autograd.partition import PARTITIONERS
from stage2_autograd.partition.rematerialization import min_cut
from stage_contracts.tests.report_heading import heading
from tests.models.cases import Case, load_file, tensors

BACKENDS = {"aot_eager": 8, "inductor": 8}  # and how many rounds


def fewest(joint: Any) -> Any:
    module: Any = importlib.import_module(min_cut.__module__)
    spare, module.SPARE = module.SPARE, 0
    try:
        return min_cut(joint)
    finally:
        module.SPARE = spare


def compiled(case: Case, backend: str, cut: Callable) -> tuple[Callable, Any]:
    """The loss of a model with this partition, and the model."""
    module = load_file(case.file, True)
    cutaway.manual_seed(0)
    model = case.build(module)
    batch = tensors(cutaway, case.batch(np.random.default_rng(0)), "float32")
    pipeline = replace(cutaway.DEFAULT_PIPELINE, partition=cut)

    def loss() -> Any:
        return case.run(module, model, tuple(batch))[1]

    return cutaway.compile(loss, backend=backend, fullgraph=True, pipeline=pipeline), model


def measured(case: Case, backend: str, rounds: int) -> dict[str, tuple[int, int, float, float]]:
    """Of each partitioner: KiB saved, operators run again, and seconds of forward and backward."""
    runs = {name: compiled(case, backend, cut) for name, cut in {"fewest": fewest, **PARTITIONERS}.items()}
    best = dict.fromkeys(runs, (np.inf, np.inf))
    for turn in range(rounds + 1):
        for name, (step, model) in runs.items():
            for p in model.parameters():
                p.grad = None
            start = time.process_time()
            loss = step()
            middle = time.process_time()
            loss.backward()
            end = time.process_time()
            if turn:  # the first compiles
                best[name] = (min(best[name][0], middle - start), min(best[name][1], end - middle))
    parts = {name: step.artifacts[0].partition for name, (step, _) in runs.items()}
    return {
        name: (part.saved_bytes // 1024, len(part.recomputed), *best[name]) for name, part in parts.items()
    }


def main() -> None:
    title = "Time of the processor for one step, in ms, by partitioner"
    print(heading(title, "make partition-times", 0, more="one thread, float32"))
    print()
    print(f"{'':50}{'KiB saved':>10}{'run again':>10}{'forward':>9}{'backward':>9}{'both':>8}")
    for case in CASES[: unless_quick(2, 1)]:
        for backend, rounds in BACKENDS.items():
            for name, (kib, again, forward, backward) in measured(
                case, backend, unless_quick(rounds, 1)
            ).items():
                title = f"{case.name}, {backend}, {name}"
                both = (forward + backward) * 1e3
                print(
                    f"{title:50}{kib:10}{again:10}{forward * 1e3:9.1f}{backward * 1e3:9.1f}{both:8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
