"""Random programs compared with themselves: `python -m stage1_capture.tests.fuzz --programs 20000 --report FILE`.

Input: how many programs, the first seed, how many processes. Each program is called three times, compiled and eager, on
equal arguments; the third call changes something that guards must notice. Compared are results, what is one object,
what is left in the arguments, printed output, the log, the global, exceptions.
"""

import argparse
import contextlib
import copy
import datetime
import gc
import io
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from stage0_eager import is_grad_enabled, no_grad
from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.grammar import function_of, write_program
from stage1_capture.tests.harness import described, sharing, tensor
from stage1_capture.tests.vocabulary import ENDED, LOG, Box
from stage_contracts import events

# ---- one call ----------------------------------------------------------------------------------------

KWARGS = ({}, {"m": 2}, {"m": 0.5}, {"n": 1})
# What the third call has other than the first two: what changes, and to what.
CHANGES = {
    "numbers": {"kwargs": {"n": 2, "m": 3}},
    "kinds": {"kwargs": {"n": 2.5, "m": True}},
    "shape": {"size": 4},
    "aliasing": {"same": True},
    "list": {"longer": True},
    "key order": {"reordered": True},
    "global": {"G": 2},
    "attribute": {"limit": 1},
    "grad mode": {"mode": no_grad},
    "tape": {"grad": True},
}


def arguments(seed, size=3, same=False, longer=False, reordered=False, grad=False):
    """Two tensors (the same one in a fifth of the programs, on the tape in another), a list and a dict of them."""
    grad = grad or seed % 5 == 1
    a = tensor(size, 3, requires_grad=grad)
    b = a if same or seed % 5 == 0 else tensor(size, 3, seed=1)
    d = {1: 2, "k": b} if reordered else {"k": b, 1: 2}
    return a, b, [a, b, a] if longer else [a, b], d


def observe(function, seed, kwargs=None, G=1.5, limit=3, mode=contextlib.nullcontext, **changed):
    """All that can be seen of one call."""
    args = arguments(seed, **changed)
    LOG.clear()
    ENDED.clear()
    names = getattr(function, "function", function).__globals__
    names["G"], Box.limit = G, limit
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mode():
        try:
            result = function(*args, **(KWARGS[seed % 4] if kwargs is None else kwargs))
            seen = ["returned", described(result), sharing(result, args)]
        except Exception as error:
            cause, context = error.__cause__, error.__context__
            seen = ["raised", type(error), str(error), repr(cause), type(context), error.__suppress_context__]
        after = is_grad_enabled(), type(sys.exc_info()[1])
    return [*seen, described(args), printed.getvalue(), copy.copy(LOG), names["G"], after]


def check(seed, capture=default_capture):
    """(None or what differs, the compiled function)."""
    function = function_of(seed)
    compiled = Compiled(function, capture=capture)
    name, change = list(CHANGES.items())[seed % len(CHANGES)]
    with np.errstate(all="ignore"):
        for call, changed in (("first call", {}), ("second call", {}), (f"third call, {name}", change)):
            expected = observe(function, seed, **changed)
            if expected[0] == "raised":
                gc.collect()  # what the frames of eager's exception hold, or it ends during the compiled call
            ended = Counter(ENDED)
            got = observe(compiled, seed, **changed)
            if Counter(ENDED) != ended:
                gc.collect()
                expected, got = [*expected, ended], [*got, Counter(ENDED)]
            if got != expected:
                return f"{call}\n  got      {got}\n  expected {expected}", compiled
    return None, compiled


# ---- many --------------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A program did not end in a minute. No program catches it."""


def too_long(*_):
    raise TooLong


def run_some(seeds):
    """[programs, those with a break, graphs, breaks], the seeds that differ, what differs, CPU seconds."""
    gc.collect()
    gc.freeze()  # from here on a collection looks at what these programs left
    signal.signal(signal.SIGALRM, too_long)
    begun, counts, wrong, words = time.process_time(), np.zeros(4, int), [], []
    for seed in seeds:
        signal.alarm(60)
        try:
            with events.no_internal_errors():
                problem, compiled = check(seed)
            graphs, breaks = compiled.counts.graphs, compiled.counts.breaks
            counts += (1, breaks > 0, graphs, breaks)
        except (Exception, TooLong) as error:
            problem = f"the capturer fails: {type(error).__name__}: {error}"
        if problem:
            wrong.append(seed)
            words.append(f"seed {seed}: {problem}\n{write_program(seed)}")
    signal.alarm(0)
    return counts, wrong, words, time.process_time() - begun


def run_all(programs, seed, jobs, seconds):
    """The sums of run_some over `programs` seeds from `seed` on, or over what fits into `seconds`."""
    chunks = [range(at, min(at + 25, seed + programs)) for at in range(seed, seed + programs, 25)]
    counts, wrong, cpu, begun = np.zeros(4, int), [], 0.0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, (some, bad, words, used) in enumerate(pool.imap(run_some, chunks), 1):
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
    return counts, wrong, cpu


def main():
    parser = argparse.ArgumentParser(description="Random programs, compiled against eager.")
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the others follow")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; default all cores")
    parser.add_argument("--seconds", type=float, default=0, help="stop when this much time has passed")
    parser.add_argument("--report", type=Path, help="where to write what is printed at the end")
    asked = parser.parse_args()
    (done, broken, graphs, breaks), wrong, cpu = run_all(
        asked.programs, asked.seed, asked.jobs, asked.seconds
    )
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
    last = asked.seed + len(wrong) + done - 1 if done < asked.programs else asked.seed + asked.programs - 1
    report = (
        f"Random programs of stage1_capture/tests/grammar.py, {datetime.date.today()}\n"
        f"{versions}; {cpu / 60:.1f} minutes of CPU\n"
        f"{done} programs, seeds {asked.seed} to {last}; {broken} with breaks\n"
        f"{graphs} graphs ({graphs / max(done, 1):.2f} per program), {breaks} breaks; three calls each\n"
        f"mismatches={len(wrong)} {wrong[:20] or ''}".rstrip()
        + "\n"
    )
    print(report, end="")
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(report)
    return bool(wrong)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
