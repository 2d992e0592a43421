"""When two failures are the same: what stays of an error when its numbers are left out.

Input: the exception of a run, or how its process ended. The same: the class and the first line of the message, each
number masked. Of a difference that debug.verify found, only the operator that differs counts, whichever graph it is in;
of one that autograd.verify_passes found, the pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stage_contracts.errors import BackendFailed

# `verify: forward: exp_3 = core.exp is the first operator that differs` (stage_contracts/messages.py)
_DIFFERS = re.compile(r"verify: \S+: \S+ = (\S+) is the first operator that differs")
# `pass views changed output 0 (exp): ...`: which output that is, and where in it, may change
_CHANGED = re.compile(r"((?:pass|partitioner) \S+) changed ")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True)
class Failure:
    """A class of error, or "killed" or "hangs"; and what it says, its numbers masked."""

    kind: str
    line: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.line}".rstrip(": ")


def failure_of(error: BaseException) -> Failure:
    """What is compared of an exception. What a backend raised is compared as it was raised."""
    if isinstance(error, BackendFailed) and error.__cause__ is not None:
        error = error.__cause__
    text = str(error)
    differs = _DIFFERS.search(text)
    changed = _CHANGED.match(text)
    if changed:
        return Failure(type(error).__name__, f"{changed[1]} changed a value")
    line = f"{differs[1]} differs" if differs else (text.splitlines() or [""])[0]
    return Failure(type(error).__name__, line if differs else _NUMBER.sub("#", line))
