"""No internal error in any suite or fuzzer: each runner fails on one, though the call ran eagerly and the values agree.

Input: the runners, each with a fault's event planted in what it runs. Before, a fuzzer whose own check did not look, and
`make`'s single processes, passed over it.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stage1_capture.tests import fuzz as capture
from stage1_capture.tests import fuzz_attributes as attributes
from stage_contracts import events
from stage_contracts.tests.many_programs import run_some
from tests.oracle import pairs
from tests.random_bits import report as random_bits
from tests.rewrite_programs import fuzz as rewrites
from tests.tensor_programs import fuzz as tensor_programs
from tests.tensor_programs.family import fuzzer

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.internal_errors
SAYS = "internal error in the planted place"
FUZZERS = {
    "fuzz-capture": capture.FUZZ,
    "fuzz-attributes": attributes.FUZZ,
    "fuzz-autograd": fuzzer(tensor_programs.FAMILY),
    "fuzz-rewrites": fuzzer(rewrites.FAMILY),
}


def plant():
    events.record("internal_error", "planted", stage="here", error="Planted", traceback="", report=SAYS)


@pytest.mark.parametrize("name", FUZZERS)
def test_a_fuzzer(name):
    found = FUZZERS[name]

    def planted(seed):
        plant()
        return found.run(seed)

    _, wrong, _ = run_some(replace(found, run=planted), range(1))
    ((seed, problem),) = wrong
    assert seed == 0 and SAYS in problem
    assert run_some(found, range(1))[1] == []


def test_random_bits(monkeypatch):
    monkeypatch.setattr(random_bits, "ways", lambda: {"a way": lambda row, count: plant()})
    name = next(iter(random_bits.ROWS))
    (line,) = random_bits.lines_of((name, 10, 10, "a way"))
    assert line.found


def test_pairs(monkeypatch):
    monkeypatch.setattr(pairs, "pair_is_eager", lambda first, second: plant() or "agree")
    kind, _, why = pairs.verdict((0, 1))
    assert kind == "differ" and SAYS in why


FAILS = f"""
from stage_contracts import events
def test_agrees():
    events.record("internal_error", "planted", stage="here", error="Planted", traceback="", report="{SAYS}")
"""


@pytest.mark.parametrize("marked", [False, True])
def test_a_suite(marked, tmp_path):
    path = tmp_path / "test_planted.py"
    head = "import pytest\npytestmark = pytest.mark.internal_errors\n" if marked else ""
    path.write_text(head + FAILS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", str(path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert (run.returncode == 0) == marked, run.stdout
    assert (SAYS in run.stdout) != marked


def test_every_command_of_make_ends_with_an_error():
    """With this variable a process ends with status 70 after such an event (cutaway/tests/test_internal_errors.py)."""
    run = subprocess.run(["make", "--no-print-directory", "--eval", "said: ; @echo $$CUTAWAY_INTERNAL_ERRORS", "said"], check=False,
                         capture_output=True, text=True, cwd=ROOT)  # fmt: skip
    assert run.stdout.split() == ["exit"], run.stderr
