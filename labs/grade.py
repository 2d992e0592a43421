"""Grades one answer: the lab's own checks, then the stage's conformance tests.

Input: the learner's folder and a lab. An answer that cannot be imported, or that uses the reference, gets one sentence
and no checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .answer import Refused, answer_in
from .catalogue import Lab
from .checks import Outcome, checks_of, run
from .conformance import conformance


@dataclass(frozen=True)
class Grade:
    """What the checks said about an answer, and which files they looked at."""

    lab: Lab
    files: tuple[Path, ...]
    outcomes: tuple[Outcome, ...]
    refused: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything ran and everything passed."""
        return not self.refused and bool(self.outcomes) and all(o.passed for o in self.outcomes)

    @property
    def said(self) -> str:
        """All that went wrong, as one text."""
        parts = [
            self.refused,
            *(f"{o.rule}\n{o.seen}\n{o.expected}\n{o.difference}" for o in self.outcomes if not o.passed),
        ]
        return "\n".join(filter(None, parts))


def grade(folder: Path, lab: Lab) -> Grade:
    """Grade the answer to `lab` in a learner's folder. The stage's tests run once the lab's own checks pass."""
    try:
        with answer_in(folder, lab) as answer:
            outcomes = [run(check, answer) for check in checks_of(lab)]
            if all(outcome.passed for outcome in outcomes):
                outcomes += conformance(answer)
            return Grade(lab, answer.files, tuple(outcomes))
    except Refused as refused:
        return Grade(lab, (), (), str(refused))
