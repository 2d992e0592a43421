"""Many random programs on all cores, what differs, and the report: the command line that stage 1's fuzzers share.

Input: a Fuzz, which says how a seed becomes a program and how it is checked. `--programs N --seed S --jobs J --report
FILE`; a program that differs, that the capturer fails on, or that does not end in a minute is printed with its seed.
"""

import argparse
import datetime
import gc
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stage_contracts import events


@dataclass(frozen=True)
class Fuzz:
    """`check(seed)` is (None or what differs, the compiled function); functions of modules, so that processes find them."""

    grammar: str
    write: Callable[[int], str]
    check: Callable[[int], tuple[str | None, Any]]
    calls: str


class TooLong(BaseException):
    """A program did not end in a minute. No program catches it."""


def too_long(*_):
    raise TooLong


def run_some(fuzz, seeds):
    """[programs, those with a break, graphs, breaks], the seeds that differ, what differs, CPU seconds."""
    gc.collect()
    gc.freeze()  # from here on a collection looks at what these programs left
    signal.signal(signal.SIGALRM, too_long)
    begun, counts, wrong, words = time.process_time(), np.zeros(4, int), [], []
    for seed in seeds:
        signal.alarm(60)
        try:
            with events.no_internal_errors():
                problem, compiled = fuzz.check(seed)
            graphs, breaks = compiled.counts.graphs, compiled.counts.breaks
            counts += (1, breaks > 0, graphs, breaks)
        except (Exception, TooLong) as error:
            problem = f"the capturer fails: {type(error).__name__}: {error}"
        if problem:
            wrong.append(seed)
            words.append(f"seed {seed}: {problem}\n{fuzz.write(seed)}")
    signal.alarm(0)
    return counts, wrong, words, time.process_time() - begun


def run_all(fuzz, programs, seed, jobs, seconds):
    """The sums of run_some over `programs` seeds from `seed` on, or over what fits into `seconds`."""
    chunks = [range(at, min(at + 25, seed + programs)) for at in range(seed, seed + programs, 25)]
    counts, wrong, cpu, begun = np.zeros(4, int), [], 0.0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, (some, bad, words, used) in enumerate(
            pool.imap_unordered(partial(run_some, fuzz), chunks), 1
        ):
            counts, wrong, cpu = counts + some, wrong + bad, cpu + used
            for text in words:
                print(text, file=sys.stderr)
            if done % 20 == 0 or done == len(chunks):
                taken = time.monotonic() - begun
                left = taken / done * (len(chunks) - done)
                print(
                    f"{counts[0]} programs, {len(wrong)} mismatches, {taken:.0f} s, {left:.0f} s left",
                    file=sys.stderr,
                )
            if seconds and time.monotonic() - begun > seconds:
                break
    return counts, sorted(wrong), cpu


def main(fuzz):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description="Random programs, compiled against eager.")
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the others follow")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; default all cores")
    parser.add_argument("--seconds", type=float, default=0, help="stop when this much time has passed")
    parser.add_argument("--report", type=Path, help="where to write what is printed at the end")
    asked = parser.parse_args()
    (done, broken, graphs, breaks), wrong, cpu = run_all(
        fuzz, asked.programs, asked.seed, asked.jobs, asked.seconds
    )
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
    last = asked.seed + len(wrong) + done - 1 if done < asked.programs else asked.seed + asked.programs - 1
    report = (
        f"Random programs of {fuzz.grammar}, {datetime.date.today()}\n"
        f"{versions}; {cpu / 60:.1f} minutes of CPU\n"
        f"{done} programs, seeds {asked.seed} to {last}; {broken} with breaks\n"
        f"{graphs} graphs ({graphs / max(done, 1):.2f} per program), {breaks} breaks; {fuzz.calls}\n"
        f"mismatches={len(wrong)} {wrong[:20] or ''}".rstrip()
        + "\n"
    )
    print(report, end="")
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(report)
    return bool(wrong)
