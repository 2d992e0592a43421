"""Runs the stage's own conformance tests on a learner's function, as `pytest --swap` does, and counts them.

Input: the tests, the tier and the least number that lab.toml names, and an Answer that can be imported. pytest runs in
this process and its output is kept back: what a learner reads is the rule of each test that failed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .answer import Answer
from .catalogue import file_of
from .checks import Outcome

OPTIONS = (
    "-q",
    "--noconftest",
    "--import-mode=importlib",
    "-p",
    "no:cacheprovider",
    "-p",
    "cutaway.pytest_swap",
)

SHOWN = 4  # lines of a failure


class Listener:
    """A plugin of pytest that keeps the rule and the message of each conformance test that ran."""

    def __init__(self, tests: list[str]) -> None:
        self.tests = tests
        self.outcomes: list[Outcome] = []
        self.ran = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and not report.skipped:
            self.ran += 1
        if report.failed:
            rule = dict(report.sections).get("rule of the contract", report.nodeid)
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr)
            seen = message.partition(" failed: ")[2] or message
            file, _, name = report.location
            where = next((path for path in self.tests if path.endswith(Path(file).name)), file)
            lines = [line for line in seen.splitlines() if line.strip()][:SHOWN]
            self.outcomes.append(Outcome(rule, "\n".join(lines), read=f"{where}: {name}"))


def conformance(answer: Answer) -> list[Outcome]:
    """One outcome for all tests together, and one for each test that failed."""
    lab = answer.lab
    if not lab.seam or not lab.conformance:
        return []
    tests, tier, least = (lab.conformance[name] for name in ("tests", "tier", "least"))
    rule = f"The stage's own conformance tests for `{lab.seam}` pass (tier {tier})."
    try:
        import pytest
    except ImportError:
        return [
            Outcome(
                rule, "pytest is not installed", "the tests of the stage", read='pip install "cutaway[test]"'
            )
        ]
    if (compiler := lab.conformance.get("compiler")) and shutil.which(compiler) is None:
        return [Outcome(f"Not run, because there is no {compiler}: the conformance tests for `{lab.seam}`.")]
    listener, said = Listener(tests), io.StringIO()
    words = [*map(str, map(file_of, tests)), "--tier", tier, "--swap", f"{lab.seam}={lab.module}:{lab.seam}"]
    with _alone(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main([*OPTIONS, "-c", os.devnull, "--rootdir", os.curdir, *words], plugins=[listener])
    if listener.outcomes:
        return listener.outcomes
    if status != 0:
        return [Outcome(rule, f"pytest ended with {status!s}: {said.getvalue().strip().splitlines()[-1]}")]
    if listener.ran < least or not listener.ran:
        return [
            Outcome(rule, f"{listener.ran} tests ran", f"at least {least}: a run with fewer proves nothing")
        ]
    return [Outcome(f"{rule[:-1]}: {listener.ran} of {listener.ran}.")]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """No plugin but those named above: an installed one may add options that this run does not know."""
    before = {name: os.environ.get(name) for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS")}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
