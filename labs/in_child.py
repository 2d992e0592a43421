"""Runs a function in a child process, so that generated code that crashes, or never ends, does not end the checks.

Input: a function without parameters. Its result comes back through a pipe, or its exception does.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
from collections.abc import Callable
from typing import Any

from .checks import Wrong

SECONDS = 60.0


def in_child(function: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The function's result. Raises what it raises, or Wrong if its process was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        faulthandler.disable()  # a crash is told by the parent
        try:
            answer: tuple[bool, Any] = True, function()
        except BaseException as error:
            answer = False, error
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if not data:
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
        why = "ran too long" if how == "SIGKILL" else f"crashed ({how})"
        raise Wrong(f"the generated code {why}", "code that stays inside its buffers, and ends")
    good, result = pickle.loads(data)
    if not good:
        raise result
    return result
