"""Every distribution in every way, bit for bit: `make random-bits`, or `python -m tests.random_bits.report`.

Input: how many draws, how many processes, which rows and ways. It writes each row as it ends, so that a run cut short
leaves what it found (`--table FILE`); at the end come the sums of each way and what differs (`--report FILE`). It ends
with exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stage_contracts import events
from stage_contracts.tests.report_heading import heading
from tests.random_bits.rows import IN_EAGER, ROWS, names_without_a_row
from tests.random_bits.ways import SEED, has_triton, ways


@dataclass(frozen=True)
class Line:
    name: str
    way: str
    draws: int
    seconds: float
    found: str  # what differs; "" if nothing

    def __str__(self) -> str:
        mark = " (part of it eager)" if self.name in IN_EAGER else ""
        return f"{self.name:<30} {self.way:<20} {self.draws:>9} {self.seconds:6.1f} s  {self.found or 'equal'}{mark}"


def lines_of(task: tuple[str, int, int, str]) -> list[Line]:
    """One line per way of a row. Triton's interpreter draws at most `interpreted`."""
    name, draws, interpreted, wanted = task
    lines = []
    for way, check in ways().items():
        if wanted not in way:
            continue
        count = min(draws, interpreted) if "interpreter" in way else draws
        start = time.perf_counter()
        try:
            with events.no_internal_errors():
                found = check(ROWS[name], count)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        lines.append(Line(name, way, count, time.perf_counter() - start, found or ""))
    return lines


def summary(top: str, lines: list[Line]) -> str:
    """What the repository keeps: how many rows each way agrees on, at how many draws, and the lines that differ."""
    found = [top, f"{'way':<20} {'rows':>6} {'differ':>7} {'draws of a row, least':>24} {'most':>9}"]
    for way in dict.fromkeys(line.way for line in lines):
        of_way = [line for line in lines if line.way == way]
        differ, draws = sum(bool(line.found) for line in of_way), [line.draws for line in of_way]
        found.append(f"{way:<20} {len(of_way):>6} {differ:>7} {min(draws):>24} {max(draws):>9}")
    found += [str(line) for line in lines if line.found]
    found.append(f"{len(lines)} comparisons, {sum(bool(line.found) for line in lines)} differ")
    return "\n".join(found)


def compilers() -> str:
    found = [
        subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[0]
        for cxx in ("g++", "clang++")
        if shutil.which(cxx)
    ]
    return "; ".join(found)


def top(command: str) -> str:
    peers = ("triton",) if has_triton() else ()
    return (
        heading("Random draws, compared with eager bit for bit", command, SEED, *peers, more=compilers())
        + "\nSSE, AVX2 and AVX-512 are -march=x86-64, x86-64-v3 and x86-64-v4; each program is called twice"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument(
        "--interpreted", type=int, help="at most so many in Triton's interpreter; default: all"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--ways", default="", help="only ways with this in their name")
    parser.add_argument("--table", type=Path, help="where each row is written as it ends")
    parser.add_argument("--report", type=Path, help="where the sums are written at the end")
    given = parser.parse_args()
    if missing := names_without_a_row():
        sys.exit(
            f"these names draw and have no row in tests/random_bits/rows.py: {', '.join(sorted(missing))}"
        )
    interpreted = given.interpreted or given.draws
    tasks = [(name, given.draws, interpreted, given.ways) for name in ROWS if given.rows in name]
    fewer = f" --interpreted {interpreted}" if interpreted != given.draws else ""
    above, lines = top(f"make random-bits: --draws {given.draws}{fewer}"), []
    with (given.table or Path(os.devnull)).open("w") as table:
        print(f"{above}\n{'distribution':<30} {'way':<20} {'draws':>9} {'time':>8}", file=table)
        with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
            for line in (line for of_row in pool.imap(lines_of, tasks) for line in of_row):
                lines.append(line)
                print(line, flush=True)
                print(line, file=table, flush=True)
    sums = summary(above, lines)
    print(sums)
    if given.report:
        given.report.write_text(sums + "\n")
    return int(any(line.found for line in lines))


if __name__ == "__main__":
    sys.exit(main())
