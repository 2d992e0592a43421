"""The chapters of the site: every mark is filled, every drawing is made from an artifact, with `dot` and without.

Input: site_docs/chapter_page.py, whose programs run here as they do when the site is built.
"""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from stage_contracts.passes import Pass, PassTable

SITE = Path(__file__).parents[2] / "site_docs"


@pytest.fixture(scope="module")
def chapters():
    spec = importlib.util.spec_from_file_location("chapter_page", SITE / "chapter_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_mark_of_the_chapters_is_filled_and_every_text_is_shown(chapters):
    pages = [path.read_text(encoding="utf-8") for path in sorted((SITE / "chapters").glob("*.md"))]
    marks = re.findall("<!-- .* -->", "\n".join(pages))
    assert sorted(marks) == sorted(chapters.TEXTS)
    assert all(len(page.split("<!-- chapter drawing: ")) > 4 for page in pages)


def test_drawings_show_what_the_artifacts_hold(chapters):
    assert len(chapters.DRAWINGS) >= 20
    for title, make in chapters.DRAWINGS.values():
        found, edges = make()
        assert len(found) > 2 and edges, title
        assert {box for start, end, _ in edges for box in (start, end)} == {*found}, title
    found, _ = chapters.DRAWINGS["cut"][1]()
    saved = {box for box, (kind, _) in found.items() if kind == "saved"}
    assert saved == {value.name for value in chapters.last("autograd").partition.saved}
    assert ("call", "matmul") in chapters.DRAWINGS["net"][1]()[0].values()


def test_constraints_that_follow_from_others_are_left_out(chapters):
    order = (("a", "b", ""), ("b", "c", ""), ("a", "c", ""))
    table = PassTable("letters", tuple(Pass(name, print, name) for name in "abc"), order)
    assert chapters.drawings.passes(table)[1] == [("a", "b", ""), ("b", "c", "")]


def test_without_graphviz_the_drawing_has_the_same_boxes(chapters, monkeypatch):
    monkeypatch.setattr(chapters.drawings, "shutil", SimpleNamespace(which=lambda _: None))
    found, edges = chapters.DRAWINGS["joint"][1]()
    root = ElementTree.fromstring(chapters.drawings.svg("joint", found, edges))
    kinds = [g.get("class") for g in root.findall("{http://www.w3.org/2000/svg}g")]
    assert kinds == [f"node {kind}" for kind, _ in found.values()]


def test_places_of_this_machine_are_not_shown(chapters):
    assert not [mark for mark, make in chapters.TEXTS.items() if str(SITE) in make()]
