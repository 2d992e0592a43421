"""`make distributed`: every fault at every place, many random programs, and training, in two and four processes.

Input: the scripts in programs/, of which CI runs a part. The report has a section for each part below; `--only` makes some
parts again and leaves the others' sections, each with its own date, so a busy machine can make them one after another.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from stage0_eager.serialization import write_whole
from stage_contracts.tests.report_heading import heading
from tests.distributed.programs_run import (
    FAULTS,
    NCCL_SAYS,
    SAYS,
    graph_fault,
    missing,
    start,
    start_apart,
    start_one,
)

Row = tuple[bool, str]  # whether it is as it should be, and its line
Part = Callable[..., Iterator[Row]]  # of a `seed`
LATEST = 10.0  # seconds until all ranks have ended
GRAPH_FAULTS, PROGRAMS, EACH, STEPS = 40, 200, 10, 5
LIMIT = 1500  # seconds of one start
# What models.py says of each way. Another rank's line may stand before or behind it on the same line.
LOSSES = re.compile(r"(?:language model|ResNet), float.*?\(rows reversed: .*?\)")
MARK = "== "  # begins a section, and its last line
RESULT = re.compile(rf"^{MARK}(.*)\n(?:(?!{MARK}).*\n)*{MARK}(\d+ of \d+ .*)", re.M)


def graph_faults(first: int, count: int, seed: int) -> Iterator[Row]:
    """In a compiled training loop that saves each step, 2 ranks: seconds from the fault until all ranks have ended."""
    for number in range(seed + first, seed + first + count):
        with tempfile.TemporaryDirectory() as folder:
            problem, name, taken = graph_fault(number, Path(folder))
        late = f"after more than {LATEST:g} s" if taken > LATEST else ""
        yield (
            not (problem or late),
            f"{number:>4} {name:<20}{taken:>6.1f}  {problem or late or 'named, none torn'}",
        )


def nccl_faults(seed: int) -> Iterator[Row]:
    """By torchrun's variables and the stand-in for NCCL, 2 ranks."""
    for name, words in NCCL_SAYS.items():
        try:
            (status, said), *_ = start_apart("faults.py", name, "after some", "nccl", first_ends=True)
            told = status and re.search(words, said, re.S)
            problem = "" if told else f"does not say what went wrong: {said[-500:]}"
        except subprocess.TimeoutExpired:
            problem = "hangs"
        yield not problem, f"{name:<22} {problem or 'named, ended'}"


def faults_at_places(which: slice, seed: int) -> Iterator[Row]:
    """Of the last rank of 2 and of 4 in turns: seconds from the start of the processes until all have ended."""
    for number, (name, where) in [*enumerate(FAULTS)][which]:
        processes, began = (2, 4)[number % 2], time.monotonic()
        done = start("faults.py", name, where, processes=processes)
        taken, said = time.monotonic() - began, done.stdout + done.stderr
        told = re.search(SAYS[name].replace("rank 1", f"rank {processes - 1}"), said, re.S)
        problem = "ended well" if done.returncode == 0 or "ended well" in said else ""
        problem = problem or ("" if told else f"does not say what went wrong: {said[-500:]}")
        about = f"{name:<22}{where:<14}{processes:>2} ranks{taken:>7.1f}"
        yield not problem, f"{about}  {problem or 'named, ended'}"


def script(processes: int, name: str, *words: str, seeds: int | None = None, seed: int = 0) -> Iterator[Row]:
    """`seeds`: the number of the first of the programs that it draws, counted from the seed."""
    drawn = (str(seed + seeds),) if seeds is not None else ()
    run = (name, *words, *drawn)
    ended = start_one(*run, processes=processes, limit=LIMIT)
    wrong = missing([run], ended, processes)
    lines = LOSSES.findall(ended[1])
    yield from ((not wrong, line) for line in lines)
    if wrong or not lines:
        yield not wrong, f"{' '.join(w for w in run if '/' not in w)}, {processes} ranks: {wrong or 'equal'}"


def sharded(processes: int, seed: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from script(processes, "sharded.py", folder)


def several(*parts: Part) -> Part:
    def run(seed: int) -> Iterator[Row]:
        for part in parts:
            yield from part(seed=seed)

    return run


def table(programs: int, faults: int) -> dict[str, Part]:
    """Name -> what it runs. A name's first word is what it shows."""
    made: dict[str, Part] = {
        f"faults in graphs, {first} to {min(first + EACH, faults) - 1}": partial(
            graph_faults, first, min(EACH, faults - first)
        )
        for first in range(0, faults, EACH)
    }
    made["faults of NCCL's stand-in"] = nccl_faults
    for place, n in enumerate((2, 4)):
        each = programs // 2
        for name in ("random_programs.py", "graph_programs.py"):
            made[f"programs, {name}, {n} ranks"] = partial(script, n, name, str(each), seeds=place * each)
        made[f"programs of every collective, {n} ranks"] = partial(script, n, "collectives.py")
    for n in (2, 4):
        for dtype in ("float64", "float32"):
            made[f"training of models, {dtype}, {n} ranks"] = partial(
                script, n, "models.py", str(STEPS), dtype
            )
        made[f"training of small models, float64, {n} ranks"] = several(
            partial(script, n, "data_parallel.py"),
            partial(script, n, "hooks_and_casts.py"),
            partial(sharded, n),
        )
    for first in range(0, len(FAULTS), EACH):
        made[f"faults at places, {first} to {min(first + EACH, len(FAULTS)) - 1}"] = partial(
            faults_at_places, slice(first, first + EACH)
        )
    return made


def section(name: str, part: Part, seed: int) -> tuple[bool, str]:
    """Run it, and print its lines as they come. (Whether all are as they should be, its text.)"""
    cores = len(os.sched_getaffinity(0))
    load = f"{cores} cores, load {os.getloadavg()[0]:.0f}"
    lines = [f"{MARK}{name}", f"   seed {seed}; {datetime.now(UTC):%Y-%m-%d %H:%M}; {load}", ""]
    print(*lines, sep="\n", flush=True)
    rows: list[Row] = []
    for row in part(seed=seed):
        rows.append(row)
        lines.append(row[1] if row[0] else f"{row[1]}  WRONG")
        print(lines[-1], flush=True)
    good = sum(ok for ok, _ in rows)
    lines.append(f"{MARK}{good} of {len(rows)} {'hold' if good == len(rows) > 0 else 'hold: MISSED'}")
    print(lines[-1] + "\n", flush=True)
    return good == len(rows) > 0, "\n".join(lines) + "\n"


def kept_sections(text: str) -> dict[str, str]:
    """The sections of a report by name."""
    parts = re.split(rf"^{MARK}(?!\d+ of )(.*)\n", text, flags=re.M)
    return {
        name: f"{MARK}{name}\n{body.rstrip()}\n" for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def whole(title: str, sections: dict[str, str], names: list[str]) -> str:
    """The report: its heading, a line for each part, and the sections, in the order of the table."""
    found = {name: result for text in sections.values() for name, result in RESULT.findall(text)}
    lines = [f"{name}: {found.get(name, 'not run')}" for name in names]
    return "\n".join([title, "", *lines, "", *[sections[name] for name in names if name in sections]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--faults", type=int, default=GRAPH_FAULTS, help="in graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="*", help="parts: a pattern as of files, or the start of their names"
    )
    parser.add_argument("--report", type=Path, help="written after each part; parts that are not run stay")
    parser.add_argument(
        "--quick", action="store_true", help="one fault and few programs, to see that it works"
    )
    given = parser.parse_args()
    parts = table(given.programs, given.faults)
    chosen = {n: part for n, part in parts.items() if fnmatch(n, given.only) or n.startswith(given.only)}
    if given.quick:
        chosen = {"one of the faults in graphs": partial(graph_faults, 0, 1),
                  "few programs": partial(script, 2, "random_programs.py", "3", seeds=0)}  # fmt: skip
    if not chosen:
        parser.error(f"no part is named {given.only!r}; there are: {'; '.join(parts)}")
    title = heading("Several processes: faults, random programs, training", "make distributed", given.seed, "mpi4py",
                    more=f"{len(os.sched_getaffinity(0))} cores")  # fmt: skip
    report = given.report if not given.quick else None
    print(title + "\n", flush=True)
    good = True
    for name, part in chosen.items():
        holds, text = section(name, part, given.seed)
        good = good and holds
        if report is not None:
            there = kept_sections(report.read_text()) if report.exists() else {}
            write_whole(report, [whole(title, there | {name: text}, [*parts]).encode()])
    return not good


if __name__ == "__main__":
    sys.exit(main())
