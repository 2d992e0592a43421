"""Programs run in children, several at a time, each with a deadline: a crash or a hang is a failure like any other.

Input: the paths of programs. A child is a fork of this process: it has what this process has imported, and changed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import runpy
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutaway.debug.minify.failure import Failure, failure_of
from stage_contracts import config

# What one run makes must not be what an earlier one left.
FRESH = {"runtime.force_disable_caches": True, "capture.repro_after": None, "capture.suppress_errors": False}


def first_that_fails(
    paths: Sequence[Path], wanted: Failure | None, deadline: float, jobs: int
) -> tuple[int, Failure] | None:
    """The first program that fails, as `wanted` if that is given, and how; None if none does. `jobs` run at once."""
    for start in range(0, len(paths), jobs):
        batch = [_Child(path, deadline) for path in paths[start : start + jobs]]
        ended = [child.wait() for child in batch]
        for place, failure in enumerate(ended):
            if failure is not None and wanted in (None, failure):
                return start + place, failure
    return None


@dataclass
class _Child:
    """One program in a fork."""

    path: Path
    deadline: float

    def __post_init__(self) -> None:
        self._reads, writes = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._reads)
            _run(self.path, writes)
        os.close(writes)
        self._until = time.monotonic() + self.deadline

    def wait(self) -> Failure | None:
        """How it ended; None is well. What is not over at the deadline is killed."""
        ready, _, _ = select.select([self._reads], [], [], max(0.0, self._until - time.monotonic()))
        if not ready:
            os.killpg(self._pid, signal.SIGKILL)
        with os.fdopen(self._reads, "rb") as pipe:
            said = pipe.read() if ready else b""
        _, status = os.waitpid(self._pid, 0)
        if not ready:
            return Failure("hangs", "")
        if os.WIFSIGNALED(status):
            return Failure("killed", signal.Signals(os.WTERMSIG(status)).name)
        return Failure(*json.loads(said)) if said else None


def _run(path: Path, writes: int) -> None:
    """In the child: run the program, write how it failed, and end without what this process would do at its end."""
    try:
        faulthandler.disable()  # a crash is told by its signal
        os.setpgid(0, 0)  # its compilers end with it
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silent, stream)
        try:
            with config.patch(dict(FRESH)):
                runpy.run_path(str(path))
        except BaseException as error:
            failure = failure_of(error)
            os.write(writes, json.dumps([failure.kind, failure.line[:3000]]).encode())
    finally:
        os._exit(0)
