"""The command line: what it prints, what it refuses, and that a refusal is one line.

Input: click's own runner, in this process; the whole tour runs in CI by itself.
"""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import cutaway
from cutaway.cli import main


def run(*words):
    return CliRunner().invoke(main, list(words))


def test_version_and_help():
    assert run("--version").output == f"cutaway {cutaway.__version__}\n"
    assert "tour" in run("--help").output
    assert "--swap" in run("tour", "--help").output


def test_help_and_torchs_names_load_nothing_heavy():
    words = "import sys; import cutaway.torch_api; from cutaway.cli import main; main(['--help'], standalone_mode=False)"
    words += "; assert 'sympy' not in sys.modules, 'sympy'"
    assert subprocess.run([sys.executable, "-c", words], capture_output=True).returncode == 0


def test_a_short_tour_writes_the_page_and_says_what_it_fell_short_of(tmp_path):
    page = tmp_path / "a page.html"
    result = run("tour", "--steps", "4", "--output", str(page))
    assert result.exit_code == 1
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"The page is {page}" in result.output
    last = result.output.strip().splitlines()[-1]
    assert "accuracy is" in last and "at least 97%" in last


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--swap", "nonsense"], "expected SEAM=module:object"),
        (["--swap", "partitoin=a:b"], "there is no seam 'partitoin'"),
        (["--partition", "no_such_module:f"], "no module 'no_such_module'"),
        (["--output", "no/such/folder/tour.html"], "there is no folder"),
        (["--device", "tpu"], "'tpu' is not one of"),
        (["--steps", "0"], "not in the range"),
    ],
)
def test_refusals_are_one_line(words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("tour", *words)
    assert result.exit_code in (1, 2)
    errors = [line for line in result.output.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1 and expected in errors[0]
    assert not list(tmp_path.iterdir())


PARTITIONS = """
from stage2_autograd.tiny import partition
import dataclasses

calls = []

def another(joint):
    calls.append(joint)
    return partition(joint)

def wrong(joint):
    cut = partition(joint)
    return dataclasses.replace(cut, saved=cut.saved[1:])
"""


def test_another_partition_takes_part_and_a_wrong_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PARTITIONS)
    result = run("tour", "--steps", "2", "--partition", "mine.py:another")
    assert "The page is" in result.output, result.output
    result = run("tour", "--steps", "2", "--partition", "mine.py:wrong")
    last = result.output.strip().splitlines()[-1]
    assert result.exit_code == 1 and "partition=mine.py:wrong" in last and "saved" in last
