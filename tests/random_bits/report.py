"""Every distribution in every way, bit for bit: `python -m tests.random_bits.report --draws 1000000 --report FILE`.

Input: how many draws, how many processes, which rows and ways. It writes each row as it ends, so that a run cut short
leaves what it found; the last line is there only when all ran. It ends with exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tests.random_bits.rows import IN_EAGER, ROWS, names_without_a_row
from tests.random_bits.ways import SEED, has_triton, ways

# Triton's interpreter folds with an own combination element by element, in Python: what it takes a second for.
FEWER = {
    ("multinomial without", "Triton interpreter"): 3_000,
    ("multinomial with replacement", "Triton interpreter"): 20_000,
    ("gumbel_softmax", "Triton interpreter"): 10_000,
    ("scaled_dot_product_attention", "Triton interpreter"): 10_000,
}


def lines_of(name: str, draws: int, interpreted: int, wanted: str) -> list[tuple[str, bool]]:
    """One line per way of a row, and whether it is equal. Triton's interpreter draws at most `interpreted`."""
    lines = []
    for way, check in ways().items():
        if wanted not in way:
            continue
        most = min(FEWER.get((name, way), draws), interpreted if "interpreter" in way else draws)
        count, start = min(draws, most), time.perf_counter()
        try:
            found = check(ROWS[name], count)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        seconds = time.perf_counter() - start
        mark = " (part of it eager)" if name in IN_EAGER else ""
        lines.append(
            (f"{name:<30} {way:<20} {count:>9} {seconds:6.1f} s  {found or 'equal'}{mark}", not found)
        )
    return lines


def _of(task: tuple[str, int, int, str]) -> list[tuple[str, bool]]:
    return lines_of(*task)


def versions() -> str:
    compilers = [
        subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[0]
        for cxx in ("g++", "clang++")
        if shutil.which(cxx)
    ]
    triton = f"Triton {version('triton')}" if has_triton() else "no Triton"
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__}, {triton}, {platform.machine()}; "
        + "; ".join(compilers)
    )


def heading(draws: int, interpreted: int) -> list[str]:
    fewer = f" --interpreted {interpreted}" if interpreted != draws else ""
    return [
        f"Random draws, compared with eager bit for bit; {datetime.datetime.now(datetime.UTC).date()}",
        f"python -m tests.random_bits.report --draws {draws}{fewer}; seed {SEED}",
        versions(),
        "SSE, AVX2 and AVX-512 are -march=x86-64, x86-64-v3 and x86-64-v4; each program is called twice",
        f"{'distribution':<30} {'way':<20} {'draws':>9} {'time':>8}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument(
        "--interpreted", type=int, help="at most so many in Triton's interpreter; default: all"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--ways", default="", help="only ways with this in their name")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    if missing := names_without_a_row():
        sys.exit(
            f"these names draw and have no row in tests/random_bits/rows.py: {', '.join(sorted(missing))}"
        )
    interpreted = given.interpreted or given.draws
    tasks = [(name, given.draws, interpreted, given.ways) for name in ROWS if given.rows in name]
    with (given.report or Path(os.devnull)).open("w") as file:

        def say(line: str) -> None:
            for where in (sys.stdout, file):
                print(line, file=where, flush=True)

        for line in heading(given.draws, interpreted):
            say(line)
        count = differs = 0
        with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
            for line, equal in (found for lines in pool.imap(_of, tasks) for found in lines):
                say(line)
                count, differs = count + 1, differs + (not equal)
        say(f"{count} comparisons, {differs} differ")
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
