"""Every report says how it was made: the command, the seed, the day and the versions in its first lines; and is small.

Input: reports/*.txt and the Makefile.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORTS = sorted((ROOT / "reports").glob("*.txt"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
LONG = {
    "cpu-speed": 40_000,  # a row for each program, in four tables
    "capture-coverage": 20_000,  # programs by name
    "distributed": 15_000,  # a row for each fault and each way to train
    "gpu-distributed": 15_000,  # three models, two numbers of GPUs
    "gpu-autotune": 25_000,  # each choice, with what was second
}
SAID = {
    "the command": r"^make [a-z-]+",
    "the seed": r"\bseed\b",
    "the day": r"\b20\d\d-\d\d-\d\d\b",
    "the version of Python": r"\bPython 3\.\d+",
}


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_says_how_it_was_made(path):
    text = path.read_text(encoding="utf-8")
    head = "\n".join(text.splitlines()[:4])
    missing = [what for what, pattern in SAID.items() if not re.search(pattern, head, re.M)]
    assert not missing, f"its first four lines do not say {', '.join(missing)}: see report_heading.py"
    target = re.search(r"^make ([a-z-]+)", head, re.M)[1]
    assert target in TARGETS and path.stem.startswith(target), f"make {target} does not write {path.name}"
    assert len(text) < LONG.get(path.stem, 10_000), (
        "a table of this size goes into build/, its sums are kept here"
    )


def test_there_are_reports():
    assert len(REPORTS) > 20
