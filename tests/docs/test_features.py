"""The page of features tells the truth: each command runs, and each test that is named is there.

Input: site_docs/features.py, the command line, what CI runs.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutaway.cli import main
from labs.catalogue import all_labs
from tests.docs.site_files import load

ROOT = Path(__file__).parents[2]
FEATURES = load("features").FEATURES


def test_at_least_22_of_24_are_there():
    assert len(FEATURES) == 24 and len({f.name for f in FEATURES}) == 24
    assert sum(bool(f.test) for f in FEATURES) >= 22


# What CI runs as a step or as a part of `make test`; what needs a browser keeps a report.
BY_CI = {
    "make site": ".ci/run",
    "make labs": "labs/tests/test_labs.py",
    "pytest tests/kernels/test_golden_kernels.py": "tests/kernels/test_golden_kernels.py",
    "pytest stage2_autograd --swap partition=mine.py:partition --tier first": "tests/docs/test_start_page.py",
    "make site-check": "reports/site-check.txt",
    "cutaway playground": "tests/tour/test_playground.py",  # it serves until you end it
}
# The others run here, in this order, in a learner's folder: (status, what is printed).
RUN_HERE = {
    "cutaway lab list": (0, r"hours"),
    "cutaway lab start 5": (0, r"write  cutaway-labs/lab05"),
    "cutaway lab check": (1, r"0 of \d+ passed"),
    "cutaway lab diff": (0, r"lower.py is the starter"),
    "cutaway lab status": (0, r"\d+ of \d+ passed\."),
    "cutaway doctor": (0, r"ok      self-test"),
    "cutaway explain script.py:function": (0, r"The page is .*explain.html"),
}
SCRIPT = """
import cutaway

@cutaway.compile
def function(x):
    return (x.sin() * 2).sum()

function(cutaway.ones(8))
"""


def test_every_command_is_run_by_ci_or_here():
    assert {f.command for f in FEATURES} == BY_CI.keys() | RUN_HERE.keys()


@pytest.mark.parametrize(("command", "where"), BY_CI.items())
def test_what_runs_the_command_is_there(command, where):
    path = ROOT / where
    if command == "make site-check" and not path.exists():
        pytest.skip("make site-check was not run yet")
    text = path.read_text(encoding="utf-8")
    if "--swap" in command:
        assert command in (ROOT / "site_docs/start.md").read_text(encoding="utf-8")
    elif command.startswith("make site"):
        assert re.search(rf"^{command}\b", text, re.M)


def test_the_commands_show_their_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    for command, (status, printed) in RUN_HERE.items():
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        assert done.exit_code == status, f"{command}: {done.output}{done.exception!r}"
        assert re.search(printed, done.output), f"{command}: {done.output}"


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.test], ids=lambda f: f.name)
def test_the_test_is_there(feature):
    path, _, name = feature.test.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"\bdef {name}\(|\bmark\.{name}\b", text), feature.test


def test_each_lab_has_its_notebook_on_the_site():
    files = load("lab_pages").lab_files()
    for lab in all_labs():
        made = json.loads(files[f"labs/{lab.package}/{lab.package}.ipynb"])
        assert made["nbformat"] == 4 and len(made["cells"]) > 3
        assert f"({lab.package}.ipynb)" in files[f"labs/{lab.package}/index.md"]
