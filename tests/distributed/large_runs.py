"""`make distributed`: every fault at every place, many random programs, and training, in two and four processes.

Input: the scripts in programs/, and the tables of test_distributed.py, of which CI runs a part. Prints the report.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from stage_contracts.tests.report_heading import heading
from tests.distributed.programs_run import FAULTS, NCCL_SAYS, SAYS, graph_fault, start, start_apart

Scripts = tuple[tuple[str, tuple[str, ...]], ...]  # of programs/, with their arguments
SCRIPTS: Scripts = (
    ("random_programs.py", ()),
    ("graph_programs.py", ()),
    ("collectives.py", ()),
    ("data_parallel.py", ()),
    ("hooks_and_casts.py", ()),
    ("models.py", ("5", "float64")),
    ("models.py", ("5", "float32")),
)
LATEST = 10.0  # seconds until all ranks have ended


def fault(name: str, where: str, processes: int) -> tuple[str, float]:
    """("" or what is wrong with how the run ended, seconds)."""
    began = time.monotonic()
    try:
        done = start("faults.py", name, where, processes=processes)
    except subprocess.TimeoutExpired:
        return "hangs", time.monotonic() - began
    taken = time.monotonic() - began
    if done.returncode == 0 or "ended well" in done.stdout:
        return "ended well", taken
    told = re.search(SAYS[name].replace("rank 1", f"rank {processes - 1}"), done.stdout + done.stderr, re.S)
    return "" if told else "does not say what went wrong", taken


def faults_in_graphs(count: int, seed: int) -> int:
    """Print a line for each, and their sum; returns how many ended badly."""
    print("\nFaults in a compiled training loop that saves each step, 2 ranks, timeout 2 s: seconds from the fault\n"
          "until all ranks have ended\n")  # fmt: skip
    times, bad, hung, torn = [], 0, 0, 0
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            problem, name, taken = graph_fault(number, Path(folder))
        times.append(taken)
        bad, hung, torn = bad + bool(problem), hung + ("hangs" in problem), torn + ("torn" in problem)
        print(f"{number:>4} {name:<20}{taken:>6.1f} {problem}".rstrip(), flush=True)
    late = sum(taken > LATEST for taken in times)
    print(f"\n{count} faults in graphs: {bad} not named or not ended well, {late} after more than {LATEST} s, {hung} hung, "
          f"{torn} torn checkpoints; the longest {max(times):.1f} s\n", flush=True)  # fmt: skip
    return bad + late


def faults_of_nccl(names: Iterable[str]) -> int:
    """The same by torchrun's variables and the stand-in for NCCL."""
    bad = 0
    for name, words in ((name, NCCL_SAYS[name]) for name in names):
        try:
            (status, said), *_ = start_apart("faults.py", name, "after some", "nccl", first_ends=True)
            problem = (
                ""
                if status and re.search(words, said, re.S)
                else f"does not say what went wrong: {said[-500:]}"
            )
        except subprocess.TimeoutExpired:
            problem = "hangs"
        bad += bool(problem)
        print(f"NCCL's stand-in, {name}: {problem or 'named, ended'}", flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--faults", type=int, default=40, help="in graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="one fault and few programs, to see that it works"
    )
    given = parser.parse_args()
    faults, sizes = (FAULTS[:1], (2,)) if given.quick else (FAULTS, (2, 4))
    print(
        heading(
            "Several processes: faults, random programs, training", "make distributed", given.seed, "mpi4py"
        )
    )
    bad = faults_in_graphs(2 if given.quick else given.faults, given.seed)
    bad += faults_of_nccl(["raises"] if given.quick else NCCL_SAYS)
    scripts, programs = (SCRIPTS[:1], 3) if given.quick else (SCRIPTS, given.programs)
    bad += programs_and_training(scripts, programs, given.seed, sizes)
    bad += faults_at_places(faults, sizes)
    return bool(bad)


def faults_at_places(faults: list[tuple[str, str]], sizes: tuple[int, ...]) -> int:
    """Each fault at each place, with two and four ranks in turns."""
    print(
        "\nFaults of the last rank, with a timeout of 2 s: how long from the start until all ranks have ended, in s\n"
    )
    bad = 0
    for number, (name, where) in enumerate(faults):
        processes = sizes[number % len(sizes)]
        problem, taken = fault(name, where, processes)
        bad += bool(problem)
        print(f"{name:<22}{where:<14}{processes:>2} ranks{taken:>7.1f} {problem}".rstrip(), flush=True)
    print(f"\n{len(faults)} faults: {bad} not named, or not ended\n", flush=True)
    return bad


def programs_and_training(scripts: Scripts, programs: int, seed: int, sizes: tuple[int, ...]) -> int:
    """Each script on each number of ranks. The programs are shared out over the sizes, each with seeds of its own."""
    bad, each = 0, -(-programs // len(sizes))
    for script, words in scripts:
        for place, processes in enumerate(sizes):
            drawn = (str(each), str(seed + place * each)) if script.endswith("programs.py") else words
            done = start(script, *drawn, processes=processes, limit=3000)
            said = [line.partition("rank ")[0] for line in done.stdout.splitlines() if " apart" in line]
            result = "equal" if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-3000:]
            print(f"{script} {' '.join(drawn)}, {processes} ranks: {result}", *said, sep="\n    ", flush=True)
            bad += done.returncode != 0
    return bad


if __name__ == "__main__":
    sys.exit(main())
