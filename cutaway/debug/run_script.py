"""A script run in a child under a few configuration fields: how `cutaway bisect` and `cutaway ablate` try something.

Input: the command as words, and the fields. A crash, a hang and a wrong status are all seen from outside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stage_contracts.config import variables_of


@dataclass(frozen=True)
class Ran:
    """How a child ended. `ending` says it in a few words; "" is well."""

    output: str
    errors: str
    ending: str
    seconds: float


def run_script(command: Sequence[str], settings: Mapping[str, Any], timeout: float) -> Ran:
    """Run the command (`script.py` alone is run by this Python) with the settings as environment variables."""
    words = [sys.executable, *command] if command[0].endswith(".py") else [*command]
    began = time.perf_counter()
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **as_variables(settings)},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return Ran("", "", f"still running after {timeout:g} s", timeout)
    taken = time.perf_counter() - began
    return Ran(done.stdout, done.stderr, _ending(done.returncode, done.stderr), taken)


def as_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment that sets these fields: the variable of each that wins over others."""
    return {
        variables_of(name)[0]: str(int(value) if isinstance(value, bool) else value)
        for name, value in settings.items()
    }


def _ending(status: int, errors: str) -> str:
    if status < 0:
        import signal

        return f"killed by {signal.Signals(-status).name}"
    if not status:
        return ""
    last = next((line for line in reversed(errors.splitlines()) if line and not line.startswith(" ")), "")
    return last[:100] or f"status {status}"
