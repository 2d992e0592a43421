"""Messages that are printed without being requested: a line on stderr, once per process, about a fallback or a request.

Input: the line, such as "cutaway: no C++ compiler: ...". Everything else goes to the event log.
"""

from __future__ import annotations

import sys
import threading

_SAID: set[str] = set()
_LOCK = threading.Lock()


def report_once(line: str) -> None:
    """Write the line to stderr, unless this process has written it before."""
    with _LOCK:
        if line in _SAID:
            return
        _SAID.add(line)
    if sys.stderr is not None:  # it is None in a program without a console
        sys.stderr.write(f"{line}\n")
