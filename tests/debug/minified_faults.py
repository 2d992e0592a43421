"""The minifier over the planted faults: how small the program becomes, how long it takes, whether it fails alone.

Input: the rows of planted_faults.py. Each step is run in a fork until it saves a program, which is then made smaller.
`python -m tests.debug.minified_faults` runs all of them and writes the report.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cutaway import config
from cutaway.debug.forks import Fork
from cutaway.debug.minify import NothingToMinify, minify
from cutaway.debug.minify.children import first_that_fails
from cutaway.debug.minify.minify_command import ways_to_save
from stage_contracts.tests.report_heading import heading
from tests.debug.planted_faults import FAULTS, SEED, Fault, planted, step_with
from tests.debug.two_cores_each import CORES, side_by_side

DEADLINE = 300.0  # of a run
OPERATORS, SECONDS = 12, 360  # at most, each


@dataclass(frozen=True)
class Smallest:
    """The columns of the report. `problem`: why there is no program."""

    operators: int = 0
    before: int = 0
    seconds: float = 0.0
    fails: str = ""
    alone: bool = False
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"not minified: {self.problem}"
        alone = "fails the same when run alone" if self.alone else "does NOT fail when run alone"
        return (
            f"{self.operators:2} of {self.before:4} operators, {self.seconds:4.0f} s, {alone}: {self.fails}"
        )


def saved_program(fault: Fault, folder: Path) -> Path | None:
    """The program that a run of the step with the fault saves."""
    step = step_with(fault)

    def attempt(settings: dict) -> bool:
        with warnings.catch_warnings(), config.patch({**settings, "capture.suppress_errors": False}):
            warnings.simplefilter("ignore")
            try:
                step()
            except Exception:
                return True
        return False

    for settings in ways_to_save(4 if fault.differs else 2):
        ending, failed = Fork(lambda s=settings: attempt(s), DEADLINE).wait()
        saved = sorted(folder.glob("cutaway_repro/*.py"), key=lambda path: path.stat().st_mtime_ns)
        if (ending or failed) and saved:
            return saved[-1]
    return None


def minified(fault: Fault, jobs: int = 2) -> Smallest:
    """The smallest program for the fault, in a folder of its own, run once more alone."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        path = saved_program(fault, Path(name))
        if path is None:
            return Smallest(problem="no run saved a program")
        with planted(fault):
            try:
                found = minify(path, jobs=jobs, deadline=60.0)
            except NothingToMinify as reason:
                return Smallest(problem=str(reason))
            again = first_that_fails([Path("repro.py")], found.failure, 60.0, 1)
        return Smallest(found.operators, found.before, found.seconds, str(found.failure), again is not None)


def main() -> None:
    began, done = time.perf_counter(), []
    print(
        heading(
            "Faults planted in models: how small is the program that is left?", "make minified-faults", SEED
        )
    )
    faults = FAULTS[: 2 if "--quick" in sys.argv else None]
    for fault, found in zip(faults, side_by_side(minified, faults), strict=True):
        done.append(found)
        print(f"{fault!s:50} {found}", flush=True)
    small = [one for one in done if not one.problem]
    above = [one for one in small if one.operators > OPERATORS or one.seconds > SECONDS]
    operators, seconds = [one.operators for one in small], [one.seconds for one in small]
    print(
        f"{len(small)} of {len(done)} minified; {sum(one.alone for one in small)} fail the same when run alone"
    )
    print(f"operators: median {median(operators):g}, at most {max(operators)}")
    print(f"seconds, on {CORES} cores each: median {median(seconds):.0f}, at most {max(seconds):.0f}")
    print(f"above {OPERATORS} operators or {SECONDS} s: {len(above)}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
