"""Many random programs in several processes: the command line, the processes and the report that all fuzzers share.

Input: a Fuzzer, which runs the program of a seed. `--programs N --seed S --jobs J --seconds T --report FILE`; what
differs is printed with its seed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stage_contracts import events
from stage_contracts.tests.report_heading import heading

CHUNK = 25  # programs that a process takes at a time


class TooLong(BaseException):
    """A program did not end in time. No program catches it."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TooLong in what takes longer. In a process's main thread."""

    def too_long(*_: object) -> None:
        raise TooLong(f"no end in {seconds} seconds")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@dataclass(frozen=True)
class Fuzzer:
    """`run` and `lines` are functions of a module, or partials of them, so that processes find them.

    `run(seed)` counts what the program did, and says what differs with the program's text ("" where nothing does).
    `lines(counts)` is the report between its heading and its last line."""

    title: str
    command: str
    run: Callable[[int], tuple[Counter, str]]
    lines: Callable[[Counter], list[str]]


def run_some(fuzzer: Fuzzer, seeds: range) -> tuple[Counter, list[tuple[int, str]], float]:
    """Counts, (seed, what differs), CPU seconds."""
    gc.collect()
    gc.freeze()  # from here on a collection looks at what these programs left
    begun, counts, wrong = time.process_time(), Counter(), []
    for seed in seeds:
        seen, problem = without_internal_errors(fuzzer.run, seed)
        counts += seen
        counts["programs"] += 1
        if problem:
            wrong.append((seed, problem))
    return counts, wrong, time.process_time() - begun


def without_internal_errors(run: Callable[[int], tuple[Counter, str]], seed: int) -> tuple[Counter, str]:
    """What `run` gives; a fault of the compiler itself is a problem, though the program ran eagerly and agreed."""
    try:
        with events.no_internal_errors():
            return run(seed)
    except AssertionError as error:
        return Counter(), f"an internal error: {error}"


def run_all(
    fuzzer: Fuzzer, programs: int, seed: int, jobs: int, seconds: float
) -> tuple[Counter, list[int], float]:
    """The sums of run_some over `programs` seeds from `seed` on, or over what is done in `seconds`."""
    chunks = [range(at, min(at + CHUNK, seed + programs)) for at in range(seed, seed + programs, CHUNK)]
    counts, wrong, cpu, begun = Counter(), [], 0.0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, (some, bad, used) in enumerate(pool.imap(partial(run_some, fuzzer), chunks), 1):
            counts, cpu = counts + some, cpu + used
            for at, text in bad:
                wrong.append(at)
                print(f"seed {at}: {text}\n", file=sys.stderr, flush=True)
            if done % 20 == 0 or done == len(chunks):
                taken = time.monotonic() - begun
                left = taken / done * (len(chunks) - done)
                said = f"{counts['programs']} programs, {len(wrong)} mismatches, {taken:.0f} s, {left:.0f} s left"
                print(said, file=sys.stderr, flush=True)
            if seconds and time.monotonic() - begun > seconds:
                break
    return counts, sorted(wrong), cpu


def main(fuzzer: Fuzzer) -> bool:
    """Whether a program differed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=fuzzer.title)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the others follow")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; default all cores")
    parser.add_argument("--seconds", type=float, default=0, help="stop when this much time has passed")
    parser.add_argument("--report", type=Path, help="where to write what is printed at the end")
    asked = parser.parse_args()
    counts, wrong, cpu = run_all(fuzzer, asked.programs, asked.seed, asked.jobs, asked.seconds)
    done = counts["programs"]
    seeds = f"{asked.seed} to {asked.seed + done - 1}"
    lines = [
        heading(fuzzer.title, fuzzer.command, seeds, more=f"{cpu / 60:.1f} minutes of CPU"),
        *fuzzer.lines(counts),
        f"mismatches={len(wrong)} {wrong or ''}".rstrip(),
    ]
    report = "\n".join(lines) + "\n"
    print(report, end="")
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(report)
    return bool(wrong)
