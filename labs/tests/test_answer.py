"""What is refused as an answer, with one sentence: nothing, a broken file, another file, the reference.

Input: a learner's folder for lab 4, in which one thing is wrong.
"""

import pytest

from labs.answer import answer_in
from labs.catalogue import lab_of
from labs.conformance import conformance
from labs.grade import grade
from labs.tagged import solution
from labs.workspace import Workspace

LAB = lab_of(4)
REFERENCE = solution(LAB.source_text)


@pytest.fixture
def mine(tmp_path):
    Workspace(tmp_path).start(LAB)
    return tmp_path


def write(folder, text, name=LAB.file):
    (folder / LAB.package / name).write_text(text, encoding="utf-8")
    return grade(folder, LAB)


REFUSED = {
    "": "partition.py is empty",
    '"""Only a docstring."""': "partition.py is empty",
    "def partition(joint:\n": "line 1 is not Python",
    "x = 1 / 0": "raised ZeroDivisionError: division by zero (partition.py:1)",
    "x = 1": "has no function 'partition'",
    "from stage2_autograd.tiny import partition\nx = 1": "uses stage2_autograd.tiny.partition",
    "import stage2_autograd.tiny.partition as p\npartition = p.partition": "uses stage2_autograd.tiny.partition",
    "import cutaway\npartition = cutaway.TINY_PIPELINE.partition": "uses cutaway",
    "import importlib\nx = 1": "uses importlib",
    "from stage_contracts.pipeline import load_seam\nx = 1": "uses stage_contracts.pipeline.load_seam",
    "from stage_contracts import pipeline\npartition = pipeline.load_seam('a:b')": "uses load_seam",
    "p = __import__('stage2_autograd.tiny').tiny.partition": "uses __import__",
    "from . import other\nfrom .other import partition\nx = 1": "uses stage2_autograd.tiny.partition",
    "from textwrap import dedent as partition\nx = 1\nread_by_backward = extract = partition": "comes from",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_answer_is_refused_with_one_sentence(mine, text):
    (mine / LAB.package / "other.py").write_text(
        "from stage2_autograd.tiny import partition\n" if "other" in text else "", encoding="utf-8"
    )
    found = write(mine, text)
    assert not found.passed and not found.outcomes
    assert REFUSED[text] in found.refused and "\n" not in found.refused


def test_a_folder_without_the_lab(tmp_path):
    assert "cutaway lab start 4" in grade(tmp_path, LAB).refused


def test_a_package_without_the_file(mine):
    (mine / LAB.package / LAB.file).unlink()
    assert "There is no partition.py" in grade(mine, LAB).refused


def test_the_file_under_test_is_the_learners(mine, tmp_path_factory):
    """Two learners' folders are graded one after the other, each by its own file."""
    other = tmp_path_factory.mktemp("other")
    Workspace(other).start(LAB)
    assert write(mine, REFERENCE).passed
    assert not grade(other, LAB).passed
    assert grade(mine, LAB).files == tuple(sorted((mine / LAB.package).rglob("*.py")))


def test_a_helper_file_beside_the_answer_is_allowed(mine):
    (mine / LAB.package / "helper.py").write_text("def last(xs):\n    return xs[-1]\n", encoding="utf-8")
    text = REFERENCE.replace("def split(", "from lab04_partition.helper import last\n\n\ndef split(")
    assert write(mine, text).passed


def test_an_error_in_the_learners_code_is_told_with_its_line(mine):
    found = write(mine, REFERENCE.replace("    part = Graph(name)\n", "    part = Graph(nme)\n"))
    line = REFERENCE.splitlines().index("    part = Graph(name)") + 1
    assert f"your code raised NameError: name 'nme' is not defined (partition.py:{line})" in found.said


def test_a_run_of_too_few_tests_is_no_proof(mine, monkeypatch):
    from dataclasses import replace

    lab = replace(LAB, conformance={**LAB.conformance, "least": 1000})
    (mine / LAB.package / LAB.file).write_text(REFERENCE, encoding="utf-8")
    found = grade(mine, lab)
    assert not found.passed and "a run with fewer proves nothing" in found.said
    with pytest.raises(AssertionError, match="expected 12"):
        grade(mine, replace(LAB, checks=12))


def test_a_loop_without_an_end_is_told_with_its_line(mine, monkeypatch):
    monkeypatch.setattr("labs.checks.SECONDS", 0.2)
    found = write(
        mine,
        REFERENCE.replace(
            "        if node in seen or", "        stack.append(node)\n        if node in seen or"
        ),
    )
    assert "ran longer than 0.2 s, and was at partition.py:" in found.said


def test_a_failed_test_of_the_stage_is_told_with_its_rule(mine):
    """Such an answer passes none of the lab's own checks either; here only the stage's tests are asked."""
    text = REFERENCE.replace("[*kept, *tangents]", "[*tangents, *kept]")
    (mine / LAB.package / LAB.file).write_text(text, encoding="utf-8")
    with answer_in(mine, LAB) as answer:
        failed = conformance(answer)
    assert len(failed) >= 2 and not any(outcome.passed for outcome in failed)
    told = {outcome.rule: outcome for outcome in failed}
    found = told[
        "Forward returns the outputs, then what is saved; backward takes what is saved, then the tangents."
    ]
    assert found.read == f"{LAB.conformance['tests'][0]}: test_the_halves_fit_and_together_are_eager"
