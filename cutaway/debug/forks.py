"""A piece of work in a fork of this process, with a deadline: a crash or a hang there is seen from here.

Input: a function that gives what JSON can write. The fork has what this process has imported, and changed. Used by the
minifier (a try each), the bisector (a run each) and debug.verify_crashes (a call each).
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Fork:
    """The work, begun. `wait` gives how it ended and what it gave."""

    work: Callable[[], Any]
    deadline: float  # seconds from now

    def __post_init__(self) -> None:
        self._reads, writes = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._reads)
            _run(self.work, writes)
        os.close(writes)
        self._until = time.monotonic() + self.deadline

    def wait(self) -> tuple[str, Any]:
        """("", what the work gave), ("SIGSEGV", None) if a signal ended it, or ("hangs", None): then it is killed."""
        said, ready = b"", True
        with os.fdopen(self._reads, "rb", buffering=0) as pipe:
            while True:  # a long text comes in pieces
                ready = bool(
                    select.select([self._reads], [], [], max(0.0, self._until - time.monotonic()))[0]
                )
                piece = pipe.read(1 << 16) if ready else b""
                if not piece:
                    break
                said += piece
        if not ready:
            os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        if not ready:
            return "hangs", None
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name, None
        return "", json.loads(said) if said else None


def _run(work: Callable[[], Any], writes: int) -> None:
    """In the fork: do it, write what it gave, and end without what this process would do at its end."""
    try:
        faulthandler.disable()  # a crash is told by its signal
        os.setpgid(0, 0)  # its compilers end with it
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silent, stream)
        text = json.dumps(work()).encode()
        while text:
            text = text[os.write(writes, text) :]
    finally:
        os._exit(0)
