"""Every lab: its starter fails as it is, its reference passes, each planted wrong answer fails and is told why.

Input: the labs' folders. A wrong answer is the reference with one change, from the lab's wrong.toml. A wrong answer
that passes means that a check is missing.
"""

import re
import tomllib
from pathlib import Path

import pytest

from labs.catalogue import all_labs, file_of
from labs.grade import grade
from labs.pages import derived
from labs.tagged import regions, solution
from labs.workspace import Workspace

LABS = pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.package)


def planted(lab, file):
    """The changes of the reference in one of a lab's files: name -> {"replace", "by", perhaps "says"}."""
    path = lab.folder / file
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def each(file):
    """A parameter for each planted answer in the labs' files of this name."""
    found = [(lab, change, name) for lab in all_labs() for name, change in planted(lab, file).items()]
    return pytest.mark.parametrize(
        "lab, change", [row[:2] for row in found], ids=[f"{row[0].package}-{row[2]}" for row in found]
    )


def changed(lab, change):
    """The reference with one text replaced."""
    text = solution(lab.source_text)
    assert text.count(change["replace"]) == 1, "the reference has changed: write this answer anew"
    return text.replace(change["replace"], change["by"])


def graded(folder, lab, text=None):
    """The grade of the starter, or of `text` in its place."""
    Workspace(folder).start(lab)
    if text is not None:
        (folder / lab.package / lab.file).write_text(text, encoding="utf-8")
    return grade(folder, lab)


@LABS
def test_the_starter_is_imported_and_fails(lab, tmp_path):
    found = graded(tmp_path, lab)
    assert not found.refused and not found.passed
    assert "not written yet" in found.said


@LABS
def test_the_reference_passes(lab, tmp_path):
    found = graded(tmp_path, lab, solution(lab.source_text))
    assert found.passed, found.said
    assert {path.parent for path in found.files} == {tmp_path / lab.package}


@pytest.mark.internal_errors  # a wrong answer may call a compiled graph with what it was not made for
@each("wrong.toml")
def test_a_wrong_answer_fails_and_is_told_why(lab, change, tmp_path):
    found = graded(tmp_path, lab, changed(lab, change))
    assert not found.refused and not found.passed
    assert change["says"] in found.said, found.said


@each("right.toml")
def test_another_right_answer_passes(lab, change, tmp_path):
    """The checks ask for the rules, not for the reference's way to keep them."""
    found = graded(tmp_path, lab, changed(lab, change))
    assert found.passed, found.said


@LABS
def test_a_lab_is_whole(lab):
    assert len(lab.hints) == 3 and len(lab.questions) >= 3 and lab.pytorch
    assert len(planted(lab, "wrong.toml")) >= 3
    assert set(lab.regions) <= set(regions(lab.source_text))
    assert all(file_of(path).is_file() for path in lab.conformance.get("tests", ()))
    assert all(set(row) == {"what", "file", "symbol"} for row in lab.pytorch)
    page = lab.page.read_text(encoding="utf-8")
    for row in lab.pytorch:
        assert row["file"] in page and row["symbol"] in page


@LABS
def test_a_page_shows_what_its_code_prints(lab):
    """`python -m labs.pages` writes them anew."""
    for path, text in derived(lab).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run python -m labs.pages"


@LABS
@pytest.mark.parametrize(
    "text, says", [("", "is empty"), ("def f(:\n", "is not Python"), ("1 / 0\nx = 1", "ZeroDivisionError")]
)
def test_an_empty_or_broken_answer_is_reported_as_such(lab, text, says, tmp_path):
    found = graded(tmp_path, lab, text)
    assert not found.outcomes and says in found.refused and lab.file in found.refused


@LABS
def test_a_lab_needs_no_other_lab(lab):
    """Its checks run with this lab alone: no file of it imports from another lab's folder."""
    others = {other.package for other in all_labs()} - {lab.package}
    for path in lab.folder.glob("*.py"):
        assert not [name for name in others if name in path.read_text(encoding="utf-8")], path


@LABS
def test_what_a_check_tells_to_read_is_on_the_page(lab):
    """Each `page.md#heading` in the checks is a heading of the page."""
    named = set(re.findall(r"page\.md#([\w-]+)", (lab.folder / "checks.py").read_text(encoding="utf-8")))
    headings = re.findall(r"^##+ (.*)$", lab.page.read_text(encoding="utf-8"), re.M)
    slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert named and named <= slugs, named - slugs


def test_numbers_and_ids_are_used_once():
    labs = all_labs()
    assert len({lab.number for lab in labs}) == len({lab.id for lab in labs}) == len(labs) > 0
    assert all(lab.package == f"lab{lab.number:02}_{lab.id}" for lab in labs)


def test_every_tag_in_the_packages_belongs_to_a_lab():
    """A tag that no lab uses is left over from one that has changed."""
    root = Path(__file__).parents[2]
    sources = {lab.source_path: set() for lab in all_labs()}
    for lab in all_labs():
        sources[lab.source_path] |= set(lab.regions)
    for folder in root.glob("stage*"):
        for path in folder.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "# lab: " in text and "tests" not in path.parts:
                assert set(regions(text)) == sources.get(path, set()), path
