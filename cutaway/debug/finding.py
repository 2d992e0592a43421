"""What a check of the doctor yields: one thing seen, and what to do about it.

Input: the checks of doctor_checks.py and doctor_compiler.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing seen. status: "ok", "note" (works, but you may want to know) or "problem". fix: a shell command."""

    check: str
    status: str
    seen: str
    advice: str = ""
    fix: str = ""


Findings = Iterator[Finding]


def first_line(error: Exception) -> str:
    """What an error says, on one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
