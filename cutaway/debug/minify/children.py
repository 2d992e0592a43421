"""Programs run in forks, several at a time, each with a deadline: a crash or a hang is a failure like any other.

Input: the paths of programs. A fork (forks.py) has what this process has imported, and changed.
"""

from __future__ import annotations

import functools
import runpy
from collections.abc import Sequence
from pathlib import Path

from cutaway.debug.forks import Fork
from cutaway.debug.minify.failure import Failure, failure_of
from stage_contracts import config

# What one run makes must not be what an earlier one left.
FRESH = {"runtime.force_disable_caches": True, "capture.repro_after": None, "capture.suppress_errors": False}


def first_that_fails(
    paths: Sequence[Path], wanted: Failure | None, deadline: float, jobs: int
) -> tuple[int, Failure] | None:
    """The first program that fails, as `wanted` if that is given, and how; None if none does. `jobs` run at once."""
    for start in range(0, len(paths), jobs):
        batch = [Fork(functools.partial(_run, path), deadline) for path in paths[start : start + jobs]]
        ended = [_failure(*fork.wait()) for fork in batch]
        for place, failure in enumerate(ended):
            if failure is not None and wanted in (None, failure):
                return start + place, failure
    return None


def _run(path: Path) -> tuple[str, str] | None:
    """How the program failed; None if it did not."""
    try:
        with config.patch(dict(FRESH)):
            runpy.run_path(str(path))
    except BaseException as error:
        failure = failure_of(error)
        return failure.kind, failure.line[:3000]
    return None


def _failure(ending: str, said: list[str] | None) -> Failure | None:
    if ending:
        return Failure("hangs", "") if ending == "hangs" else Failure("killed", ending)
    return Failure(*said) if said else None
