"""The command `cutaway lab`, as a learner uses it: start, check, hint, diff, solution, status, open.

Input: words on the command line, and an empty folder.
"""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import labs
from cutaway.cli import main
from labs.catalogue import all_labs, lab_of
from labs.tagged import solution

LAB = lab_of(4)


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Run `cutaway lab ...` in an empty folder: (status, output)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda url: True)

    def run(*words):
        result = CliRunner().invoke(main, ["lab", *map(str, words)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return run


def test_the_list_names_every_lab(say):
    status, said = say("list")
    assert status == 0 and all(lab.title in said for lab in all_labs())


def test_a_lab_from_start_to_end(say, tmp_path):
    """Start without any other lab, fail, take hints, write the answer, pass."""
    status, said = say("start", 4)
    mine = tmp_path / "cutaway-labs" / "lab04_partition"
    assert (
        status == 0
        and (mine / "page.md").is_file()
        and "write  cutaway-labs/lab04_partition/partition.py" in said
    )
    status, said = say("check")
    assert (
        status == 1
        and "to do  `read_by_backward` finds" in said
        and "cutaway-labs/lab04_partition/partition.py" in said
    )
    assert f"0 of {LAB.checks} passed" in said
    hints = [say("hint")[1] for _ in range(4)]
    assert [hint[5:11] for hint in hints[:3]] == ["1 of 3", "2 of 3", "3 of 3"] and "seen all 3" in hints[3]
    (mine / "partition.py").write_text(say("solution", 4)[1], encoding="utf-8")
    assert "+    saved: dict[Node, str] = {}" in say("diff")[1]
    assert "is the reference" in say("diff", "--reference")[1]
    status, said = say("check", 4)
    assert status == 0 and f"All {LAB.checks + 1} passed" in said
    assert "passed 20" in say("status")[1] and "3 hints" in say("status")[1]
    log = subprocess.run(["git", "status", "--short"], cwd=mine, capture_output=True, text=True)
    assert "partition.py" in log.stdout or log.returncode  # the starter was committed, the answer is yours


def test_starting_again_keeps_what_was_written(say, tmp_path):
    say("start", 4, "--folder", "mine")
    path = tmp_path / "mine" / "lab04_partition" / "partition.py"
    path.write_text("x = 1\n", encoding="utf-8")
    assert "your files are kept" in say("start", 4, "--folder", "mine")[1]
    assert path.read_text(encoding="utf-8") == "x = 1\n"


def test_solution_and_page_need_no_folder(say):
    assert say("solution", 4) == (0, solution(LAB.source_text))
    assert say("open", 4)[1].strip().endswith("page.md")


@pytest.mark.parametrize(
    "words, says",
    [
        (("start", 99), "there is no lab 99"),
        (("check",), "no lab is started here"),
        (("check", 4), "cutaway lab start 4"),
        (("hint",), "no lab is started here"),
    ],
)
def test_an_error_says_what_to_do(say, words, says):
    status, said = say(*words)
    assert status == 1 and says in said and len(said.splitlines()) == 1


def test_the_commands_of_the_page_run_in_order(say):
    """The starter fails, so `check` has the status 1."""
    page = (Path(labs.__file__).parent / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    cutaway lab (.*?) *#", page, re.M)
    assert len(commands) == 8
    for command in commands:
        status, said = say(*command.split())
        assert (status, bool(said)) == (1 if command == "check" else 0, True), said


def test_the_help_of_cutaway_does_not_import_the_labs():
    import sys

    program = "import sys, cutaway.cli; sys.exit('labs.command' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
