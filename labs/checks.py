"""One check of a lab: a function whose docstring is the rule, and which raises Wrong when an answer breaks it.

Input: an Answer. The checks of a lab are the tuple CHECKS of its own checks.py. What a learner's function raises itself
is reported with its line.
"""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from .answer import Answer, where
from .catalogue import Lab

Check = Callable[[Answer], None]
UNWRITTEN = "not written yet"
SECONDS = 60.0  # that one check may take


class Wrong(Exception):
    """What a check found: what was seen, what was expected, how the two differ, where to read about it."""

    def __init__(self, seen: str, expected: str = "", difference: str = "", read: str = "") -> None:
        super().__init__(seen)
        self.seen, self.expected, self.difference, self.read = seen, expected, difference, read


@dataclass(frozen=True)
class Outcome:
    """What a check said. `seen` is empty if it passed."""

    rule: str
    seen: str = ""
    expected: str = ""
    difference: str = ""
    read: str = ""

    @property
    def passed(self) -> bool:
        return not self.seen

    @property
    def unwritten(self) -> bool:
        """Whether the check met a body that is still the starter's."""
        return self.seen.startswith(UNWRITTEN)


def checks_of(lab: Lab) -> tuple[Check, ...]:
    """The lab's checks, as many as its lab.toml promises."""
    found = importlib.import_module(f"{__package__}.{lab.package}.checks").CHECKS
    if len(found) != lab.checks or not found:
        raise AssertionError(
            f"{lab.package}/checks.py has {len(found)} checks; expected {lab.checks}, as lab.toml says"
        )
    return found


def run(check: Check, answer: Answer) -> Outcome:
    """Ask one check about an answer."""
    rule = " ".join((check.__doc__ or check.__name__).split("\n\n")[0].split())
    package = answer.files[0].parent
    try:
        with time_limit(SECONDS):
            check(answer)
    except Wrong as wrong:
        return Outcome(rule, wrong.seen, wrong.expected, wrong.difference, wrong.read or "page.md")
    except NotImplementedError as error:
        if str(error).startswith(f"lab {answer.lab.number}: "):
            return Outcome(rule, f"{UNWRITTEN}{where(error, package)}: {str(error).partition(': ')[2]}")
        return _raised(rule, error, answer)
    except Exception as error:
        return _raised(rule, error, answer)
    return Outcome(rule)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Wrong in a block that runs longer. Without such timers (Windows, another thread) there is no limit."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "somewhere"
        raise Wrong(
            f"it ran longer than {seconds:g} s, and was at {place}", "an end: does every loop have one?"
        )

    handler = signal.signal(signal.SIGALRM, stop)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left)


def _raised(rule: str, error: Exception, answer: Answer) -> Outcome:
    """An error that no check expected: the learner's function raised it, or made something that nothing can use."""
    place = where(error, answer.files[0].parent)
    who = "your code raised" if place else "the compiler could not use your result:"
    first = (str(error).splitlines() or [""])[0]
    return Outcome(rule, f"{who} {type(error).__name__}: {first}{place}", read="page.md")
