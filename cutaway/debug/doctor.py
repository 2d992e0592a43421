"""`cutaway doctor`: checks what the compiler depends on, and names the command that fixes each problem.

Input: the checks of doctor_checks.py, run in order, and the self-test of self_test.py, run in a process of its own.
With --report the same as text for a bug report; names of folders, of the user and of the machine are left out.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from cutaway.debug.doctor_checks import CHECKS
from cutaway.debug.finding import Finding
from cutaway.version import __version__

SELF_TEST_SECONDS = 180  # it takes about ten; a machine that needs more is told so
STATUS = {"ok": "ok", "note": "note", "problem": "PROBLEM"}


def examine(self_test: bool = True, only: Collection[str] = ()) -> Iterator[Finding]:
    """Every finding, as it is made; of the checks in `only`, or of all. A check that fails itself is a finding, too."""
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        try:
            yield from check()
        except Exception as error:
            what = f"the check failed: {type(error).__name__}: {error}"
            yield Finding(name, "problem", what, "report it with `cutaway doctor --report`")
    if self_test and not only:
        yield from tested()


def tested() -> Iterator[Finding]:
    """The self-test: a program through every stage, in a process that may crash."""
    command = [sys.executable, "-m", "cutaway.debug.self_test"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SELF_TEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        yield Finding(
            "self-test", "problem", f"it takes longer than {SELF_TEST_SECONDS} seconds",
            "see what runs beside it; CUTAWAY_LOGS=+dynamo,+inductor shows where it waits",
        )  # fmt: skip
        return
    try:
        rows = json.loads(run.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        ended = f"signal {-run.returncode}" if run.returncode < 0 else f"status {run.returncode}"
        last = (run.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        yield Finding(
            "self-test", "problem", f"it ended with {ended}: {last}",
            "run `python -m cutaway.debug.self_test` and report what it prints; backend='eager' needs no kernels",
        )  # fmt: skip
        return
    for row in rows:
        yield Finding(**row)


def lines_of(finding: Finding) -> list[str]:
    """One finding as it prints: what was seen, and below it what to do."""
    lines = [f"{STATUS[finding.status]:<8}{finding.check:<14}{finding.seen}"]
    if finding.advice:
        lines.append(f"{'':<22}{finding.advice}")
    if finding.fix:
        lines.append(f"{'':<22}$ {finding.fix}")
    return lines


def summary(findings: list[Finding]) -> str:
    """The last line: how many problems, and which comes first."""
    problems = [f for f in findings if f.status == "problem"]
    notes = sum(f.status == "note" for f in findings)
    said = f"{len(problems)} problem{'s' * (len(problems) != 1)}, {notes} note{'s' * (notes != 1)}"
    if not problems:
        return f"{said}: programs compile and run here"
    first = problems[0]
    return f"{said}; begin with {first.check}: {first.fix or first.advice}"


# ---- for a bug report ----------------------------------------------------------------------------------------------


def report(findings: list[Finding]) -> str:
    """All of it as Markdown, without private paths."""
    lines = [
        f"Cutaway {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "",
        "```",
    ]
    lines += [line for finding in findings for line in lines_of(finding)]
    return without_private("\n".join([*lines, "```"]))


def without_private(text: str) -> str:
    """A text without the user's folders, name and machine."""
    for path, word in (
        (os.environ.get("VIRTUAL_ENV", ""), "<environment>"),
        (sys.prefix, "<environment>"),
        (str(Path(__file__).parents[2]), "<checkout>"),
        (str(Path.cwd()), "<here>"),
        (str(Path.home()), "~"),
        (tempfile.gettempdir(), "<temporary>"),
    ):
        if len(path) > 1:
            text = text.replace(path, word)
    names = {_user(), platform.node()} - {"", "root", "localhost"}
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}\b", "<name>", text)
    # what is left of folders: their last part says what a reader needs
    system = r"/(?:usr|bin|lib|lib64|opt|proc|dev|etc|sys)\b"
    return re.sub(rf"(?<![\w>~<.-])(?!{system})(?:/[\w.@+-]+)+/([\w.@+-]+)", r"<folder>/\1", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return ""
