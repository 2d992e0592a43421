"""Stage 2's conformance tests, run with seams swapped: several runs of pytest, one after the other, in one child.

Input: for each run, the options after `pytest stage2_autograd`, such as ["--swap", "partition=module:function"].
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
START = "from stage2_autograd.tests.swapping import answer; answer()"


class Run(NamedTuple):
    code: int
    output: str


def run_swapped(*runs: list[str]) -> list[Run]:
    """What each run returned and printed. One process: the imports cost more than the tests of a tier."""
    asked = json.dumps(runs)
    child = subprocess.run(
        [sys.executable, "-c", START], cwd=ROOT, input=asked, capture_output=True, text=True, timeout=590
    )
    assert child.returncode == 0, child.stderr[-3000:]
    return [Run(*each) for each in json.loads(child.stdout)]


def answer() -> None:
    """The child: options of the runs from standard input, results to standard output, both as JSON."""
    results = []
    for options in json.load(sys.stdin):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = pytest.main(["stage2_autograd", "-q", "-p", "no:cacheprovider", *options])
        results.append((int(code), said.getvalue()))
    json.dump(results, sys.stdout)
