"""Many random programs in several processes: what differs is made smaller and printed, and a report is written.

Input: a Family, which says how a seed becomes a program and what a program is compared with. Its module's `main` is the
command line: `--programs 20000 --seed 0 --jobs 8 --report FILE`.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import multiprocessing
import os
import platform
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stage_contracts import events
from tests.tensor_programs.compare import Differs
from tests.tensor_programs.grammar import TensorProgram

Way = tuple[str, dict[str, Any]]


def backend_of(way: Way) -> str:
    return way[0]


@dataclass(frozen=True)
class Family:
    """`ways`: how the program of a seed is compiled, one after the other. `check` raises Differs, or counts what it saw.
    `label`: what a way is called in the report."""

    grammar: str
    write: Callable[[int], TensorProgram]
    ways: Callable[[int, TensorProgram], Sequence[Way]]
    check: Callable[[TensorProgram, Way], Counter]
    labels: tuple[str, ...]
    calls: str
    label: Callable[[Way], str] = backend_of


class TooLong(BaseException):
    """A program did not end in two minutes. No program catches it."""


def too_long(*_: Any) -> None:
    raise TooLong("no end in two minutes")


def problem_of(family: Family, program: TensorProgram, way: Way) -> tuple[str, Counter]:
    """What differs ("" if nothing), and what check counts."""
    try:
        with events.no_internal_errors():
            return "", family.check(program, way)
    except Differs as found:
        return str(found), Counter()
    except (Exception, TooLong) as error:
        return f"the compiler fails: {type(error).__name__}: {error}", Counter()


# ---- smaller --------------------------------------------------------------------------------------------------


def kind_of(problem: str) -> str:
    return problem.split("\n")[0].split(":")[0].strip("0123456789 ")


def smaller(program: TensorProgram) -> Iterator[TensorProgram]:
    """Programs with one thing less."""
    if program.other:
        yield replace(program, other=())
    for part in ("body", "after", "inputs", "other"):
        lines = getattr(program, part)
        for i in reversed(range(len(lines))):
            yield replace(program, **{part: lines[:i] + lines[i + 1 :]})
            head, *block = lines[i].split("\n")
            for j in range(len(block)):
                yield replace(program, **{part: (*lines[:i], block[j].strip(), *lines[i + 1 :])})
                if len(block) > 1:
                    left = "\n".join([head, *block[:j], *block[j + 1 :]])
                    yield replace(program, **{part: (*lines[:i], left, *lines[i + 1 :])})
    for i in reversed(range(len(program.arguments))):
        if len(program.arguments) > 1:
            yield replace(program, arguments=program.arguments[:i] + program.arguments[i + 1 :])
    for i in reversed(range(len(program.results))):
        if len(program.results) > 1:
            used = tuple(u - (u > i) for u in program.used if u != i)
            yield replace(program, results=program.results[:i] + program.results[i + 1 :], used=used)
    for i in range(len(program.used)):
        yield replace(program, used=program.used[:i] + program.used[i + 1 :])
    if program.backwards > 1:
        yield replace(program, backwards=1)


def minimised(family: Family, program: TensorProgram, way: Way, problem: str) -> tuple[TensorProgram, str]:
    """The smallest program found in a minute that differs in the same way."""
    again, end = True, time.monotonic() + 60
    while again and time.monotonic() < end:
        again = False
        for candidate in smaller(program):
            found, _ = problem_of(family, candidate, way)
            if found and kind_of(found) == kind_of(problem) and "NameError" not in found:
                program, problem, again = candidate, found, True
                break
    return program, problem


# ---- many -----------------------------------------------------------------------------------------------------


def run_some(family: Family, seeds: range) -> tuple[Counter, list[tuple[int, str]], float]:
    """Counts, (seed, what differs and the program), CPU seconds."""
    gc.collect()
    signal.signal(signal.SIGALRM, too_long)
    begun, counts, wrong = time.process_time(), Counter(), []
    for seed in seeds:
        program = family.write(seed)
        counts["programs"] += 1
        counts["statements"] += len(program.body)
        for way in family.ways(seed, program):
            signal.alarm(120)
            problem, seen = problem_of(family, program, way)
            signal.alarm(0)
            counts[family.label(way)] += 1
            counts += seen
            if problem:
                least, problem = minimised(family, program, way, problem)
                ends = f"loss of {least.used}, {least.backwards} backward"
                wrong.append((seed, f"seed {seed}, {way}: {problem}\n{least.source()}{ends}"))
                break
    return counts, wrong, time.process_time() - begun


def run_all(
    family: Family, programs: int, seed: int, jobs: int, seconds: float
) -> tuple[Counter, list[int], float]:
    chunks = [range(at, min(at + 25, seed + programs)) for at in range(seed, seed + programs, 25)]
    counts, wrong, cpu, begun = Counter(), [], 0.0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, (some, bad, used) in enumerate(pool.imap_unordered(partial(run_some, family), chunks), 1):
            counts, cpu = counts + some, cpu + used
            for at, text in bad:
                wrong.append(at)
                print(text, "\n", file=sys.stderr, flush=True)
            if done % 20 == 0 or done == len(chunks):
                print(
                    f"{counts['programs']} programs, {len(wrong)} mismatches, {time.monotonic() - begun:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
            if seconds and time.monotonic() - begun > seconds:
                break
    return counts, sorted(wrong), cpu


def reasons_in(counts: Counter) -> str:
    """Why graphs broke or ran eagerly, the most frequent first: what check counts as `break CODE` and `eagerly: WHY`."""
    texts: Counter = Counter()
    for key, count in counts.items():
        if key.startswith(("break ", "eagerly: ")):
            texts[re.sub(r"inputs \d+ and \d+", "inputs", key)] += count
    return "".join(f"{count:7} {text}\n" for text, count in texts.most_common(15))


def main(family: Family) -> bool:
    """Whether a program differed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(
        description=f"Random programs of {family.grammar}, compiled against eager."
    )
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the others follow")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; default all cores")
    parser.add_argument("--seconds", type=float, default=0, help="stop when this much time has passed")
    parser.add_argument("--report", type=Path, help="where to write what is printed at the end")
    asked = parser.parse_args()
    counts, wrong, cpu = run_all(family, asked.programs, asked.seed, asked.jobs, asked.seconds)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
    done = counts["programs"]
    ways = ", ".join(f"{counts[name]} with {name}" for name in family.labels)
    report = (
        f"Random programs of {family.grammar}, {datetime.date.today()}\n"
        f"{versions}; {cpu / 60:.1f} minutes of CPU\n"
        f"{done} programs of {counts['statements'] / max(done, 1):.1f} statements, seeds {asked.seed} to "
        f"{asked.seed + done - 1}; {family.calls}: {ways}\n"
        f"{counts['refused']} end in an error of eager's; {counts['breaks']} graph breaks, {counts['fallbacks']} graphs run "
        f"eagerly\n"
        f"{reasons_in(counts)}mismatches={len(wrong)} {wrong or ''}".rstrip()
        + "\n"
    )
    print(report, end="")
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(report)
    return bool(wrong)
