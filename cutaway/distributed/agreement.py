"""Before a collective: do all ranks do the same thing? And a wait that ends, with the line that waited.

Input: a sentence about the collective that this rank is about to issue. Ranks compare a hash of it, 8 bytes each, on a
communicator of their own, so that two ranks with different shapes get an error in place of a hang or of wrong numbers.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

OURS = tuple(
    str(Path(__file__).parents[2] / name) for name in ("cutaway", "stage")
)  # the folders of the package: a user's line is outside
SPIN, NAP = (
    200,
    50e-6,
)  # so many tests of a request without a pause; then a pause of so many seconds between them


class DistError(RuntimeError):
    """A collective went wrong. The message names it, its line and the ranks."""


class DistBackendError(DistError):
    """The ranks disagree, or one of them did not come in time."""


def asking_line() -> str:
    """`file:line` of the user's code that asked for the collective."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*OURS, "<")):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def await_request(request: Any, seconds: float, waiting: str) -> None:
    """Return when MPI's request is complete; DistBackendError after `seconds`."""
    limit = time.monotonic() + seconds
    tests = 0
    while not request.Test():
        tests += 1
        if tests > SPIN:
            if time.monotonic() > limit:
                raise DistBackendError(
                    f"{waiting} waited {seconds:g} s for the other ranks; one of them has ended, is slow, or never "
                    "calls it. Look at the output of the other ranks, or give init_process_group a longer timeout"
                )
            time.sleep(NAP)


def agree(comm: Any, intent: str, ranks: tuple[int, ...], seconds: float, where: str = "") -> None:
    """Return when every rank of `comm` has come with the same `intent`. DistBackendError, on every rank, where not."""
    digest = np.frombuffer(hashlib.blake2b(intent.encode(), digest_size=8).digest(), np.int64)
    every = np.empty(comm.Get_size(), np.int64)
    await_request(comm.Iallgather(digest, every), seconds, f"{intent} at {where or asking_line()}")
    if (every == every[0]).all():
        return
    stories = comm.allgather(
        (intent, where or asking_line())
    )  # all ranks see the difference, so all of them come here
    told = "\n".join(f"  rank {ranks[i]}: {what} at {where}" for i, (what, where) in enumerate(stories))
    raise DistBackendError(
        f"the ranks disagree about the next collective:\n{told}\nAll ranks must call the same one."
    )
