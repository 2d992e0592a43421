"""`make distributed`: every fault at every place, many random programs, and training, in two and four processes.

Input: the scripts in programs/, and the tables of test_distributed.py, of which CI runs a part. Prints the report.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time

import rich.progress
from rich.console import Console

from stage_contracts.tests.report_heading import heading
from tests.distributed.programs_run import FAULTS, SAYS, start

RANDOM = "random_programs.py"


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
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
    bad = 0
    print("\nFaults of the last rank, with a timeout of 2 s: how long until all ranks have ended, in s\n")
    print(f"{'fault':<22}{'where':<14}{'2 ranks':>9}{'4 ranks':>9}")
    console = Console(stderr=True)
    for name, where in rich.progress.track(
        faults, "Faults", console=console, disable=not console.is_terminal
    ):
        cells = []
        for processes in sizes:
            problem, taken = fault(name, where, processes)
            bad += bool(problem)
            cells.append(problem or f"{taken:.1f}")
        print(f"{name:<22}{where:<14}", *(f"{cell:>8}" for cell in cells), flush=True)
    print(f"\n{len(sizes) * len(faults)} faults: {bad} not named, or not ended\n")
    programs = str(3 if given.quick else given.programs), str(given.seed)
    for script, words in {
        RANDOM: programs,
        "graph_programs.py": programs,
        "collectives.py": (),
        "data_parallel.py": (),
        "models.py": ("10",),
    }.items():
        for processes in sizes:
            done = start(script, *words, processes=processes)
            print(
                f"{script}, {processes} processes: {'equal' if done.returncode == 0 else done.stdout + done.stderr}"
            )
            bad += done.returncode != 0
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
