"""`make distributed-cost`: the model of cost beside what is measured at 1, 2 and 4 processes; then up to 4,096 ranks.

Input: programs/step_cost.py on MPI, each rank on a core of its own where there are as many. Prints the report; writes the
predicted step as a drawing beside it, where a path is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cutaway.distributed.cost import CHOICES, Link, best, buckets_of, fitted, limit, predict
from cutaway.distributed.cost_drawing import draw
from stage_contracts.tests.report_heading import heading
from tests.distributed.programs_run import start

FORWARD = 1 / 3  # of the work of a forward and backward
CLOSE = 0.15
SOURCES = (1, 2, 4)


def measured(processes: int, rounds: int) -> dict[str, Any]:
    done = start("step_cost.py", str(rounds), processes=processes, limit=600)
    found = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("JSON ")]
    if not found:
        raise SystemExit(done.stdout + done.stderr)
    return found[0]


def ready(sizes: list[int]) -> list[float]:
    """How far the backward is when each bucket is full: as far as its parameters are of all."""
    return [part / sum(sizes) for part in accumulate(sizes)]


def guess_of(found: dict[str, Any], alone: float, link: Link | None) -> Any:
    """The predicted step where one without other ranks takes `alone` seconds."""
    buckets = buckets_of(found["buckets"], alone * FORWARD, alone * (1 - FORWARD), ready(found["buckets"]))
    return predict(buckets, alone, 0.0, link or Link(0.0, 1.0), found["ranks"])


def line_of(found: dict[str, Any], link: Link | None) -> tuple[str, float]:
    """One row, and by how much the prediction is off: the median over pairs of calls that followed one another."""
    alone, step = median(found["alone"]), median(found["step"])
    guess = guess_of(found, alone, link)
    pairs = zip(found["alone"], found["step"], strict=True)
    low, off, high = quantiles([guess_of(found, a, link).seconds / s - 1 for a, s in pairs], n=4)
    words = f"{len(found['buckets'])} buckets, {sum(found['buckets']) / 1e6:.1f} MB"
    return (f"{found['ranks']:>5}{alone * 1e3:>10.2f}{guess.moved * 1e3:>10.2f}{found['busy']:>7.2f}"
            f"{guess.seconds * 1e3:>12.2f}{step * 1e3:>11.2f}{off:>+9.1%} ({low:+.0%} to {high:+.0%})   {words}"), off  # fmt: skip


def extrapolated(found: dict[str, Any], link: Link) -> None:
    """8 to 4,096 ranks on this link, and on a cluster's links: 8 GPUs a machine."""
    cluster = Link(1e-5, 25e9, 0.0, 8, Link(3e-6, 200e9))
    for title, one, alone, sizes in (
        ("this link between all ranks, this step", link, found["alone"], found["buckets"]),
        ("8 GPUs a machine (3 us, 200 GB/s), 25 GB/s between machines (10 us): a step of 250 ms, 710 MB of gradients",
         cluster, 0.25, [1 << 20, *[25 << 20] * 28]),
    ):  # fmt: skip
        print(f"\nEXTRAPOLATED, not measured: {title}\n")
        print(f"{'ranks':>5}" + "".join(f"{name:>14}" for name in CHOICES) + "   best, hidden, what limits")
        buckets = buckets_of(sizes, alone * FORWARD, alone * (1 - FORWARD), ready(sizes))
        for power in range(3, 13):
            ranks = 1 << power
            name, step = best(buckets, alone, 0.0, one, ranks)
            each = [predict(buckets, alone, 0.0, one, ranks, choice).seconds for choice in CHOICES]
            print(f"{ranks:>5}" + "".join(f"{s * 1e3:>11.1f} ms" for s in each)
                  + f"   {name}, {step.hidden:.0%}, {limit(buckets, one, ranks, name, step, alone)}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--drawing", type=Path)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works")
    given = parser.parse_args()
    given.rounds = 2 if given.quick else given.rounds
    cores = len(os.sched_getaffinity(0))
    print(
        heading(
            "A data-parallel step: predicted and measured",
            "make distributed-cost",
            0,
            "mpi4py",
            more=f"{cores} cores",
        )
    )
    print("\nMLP, float32, a step compiled whole; ms, medians of calls in turns; `alone`: the same step without other ranks;"
          "\n`off`: the median over pairs of calls, and in brackets half of the pairs"
          "\n\nranks     alone   on link   busy   predicted   measured      off")  # fmt: skip
    link, bad, two = None, 0, None
    for ranks in SOURCES:
        found = measured(ranks, given.rounds)
        link = fitted([tuple(one) for one in found["samples"]], ranks, found["busy"]) if ranks > 1 else None
        text, off = line_of(found, link)
        shared = "" if ranks <= cores else f"   ({ranks} ranks on {cores} cores: no goal)"
        print(text + shared, flush=True)
        bad += ranks <= cores and abs(off) > CLOSE
        if link is not None:
            print(f"      link of {ranks} ranks: {link.latency * 1e6:.1f} us and {link.bandwidth / 1e9:.2f} GB/s, from "
                  + ", ".join(f"{n:,} B {s * 1e6:.0f} us" for n, s in found["samples"]))  # fmt: skip
        two = (found, link) if ranks == 2 else two
    print(f"\nwithin {CLOSE:.0%} where each rank has a core: {'holds' if not bad else 'MISSED'}")
    if two is not None and two[1] is not None:
        found, link = two
        found["alone"] = median(found["alone"])
        extrapolated(found, replace(link, local=1))
        if given.drawing:
            step, alone = guess_of(found, found["alone"], link), found["alone"]
            given.drawing.write_text(draw(step, alone * FORWARD, 0.0, "A step on 2 ranks, predicted"))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
