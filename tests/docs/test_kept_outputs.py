"""What the site's build keeps for the tests is given back to the tree that it was made of, and to no other.

Input: site_docs/kept_outputs.py, with a folder of its own.
"""

import json

import pytest

from tests.docs.guide_pages import GUIDES
from tests.docs.site_files import load

kept = load("kept_outputs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "KEPT", tmp_path)
    return tmp_path


def test_what_is_kept_is_given_back(folder):
    assert kept.get("a mark") is None
    kept.put("a mark", [["$ python x.py", "1"]])
    assert kept.get("a mark") == [["$ python x.py", "1"]] and kept.get("another") is None
    assert len(list(folder.iterdir())) == 1


def test_another_tree_runs_its_commands_itself(folder, monkeypatch):
    kept.put("a mark", "old")
    monkeypatch.setattr(kept, "tree", lambda: "another")
    assert kept.get("a mark") is None


def test_the_tree_is_every_file_of_the_packages(tmp_path, monkeypatch):
    before = kept.tree()
    (tmp_path / "cutaway").mkdir()
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "cutaway/one.py").write_text("x = 1\n")
    one = kept.tree.__wrapped__()
    (tmp_path / "cutaway/one.py").write_text("x = 2\n")
    assert len({before, one, kept.tree.__wrapped__()}) == 3


def test_a_half_written_file_counts_as_none(folder):
    kept.put("a mark", "text")
    (file,) = folder.iterdir()
    file.write_text(json.dumps({"tree": kept.tree()})[:-3])
    assert kept.get("a mark") is None


def test_a_guides_page_and_its_test_have_the_same_output(folder, tmp_path, monkeypatch):
    guide = GUIDES["swap"]
    own = guide.printed.__globals__["kept_outputs"]
    monkeypatch.setattr(own, "KEPT", folder)
    monkeypatch.setattr(type(guide), "run_in", lambda self, folder, mark: iter([["line", f"ran {mark}"]]))
    block = guide._command("swapped")
    assert "ran swapped" in block()
    monkeypatch.setattr(type(guide), "run_in", lambda self, folder, mark: iter([["line", "ran again"]]))
    assert guide.printed(tmp_path, "swapped") == [["line", "ran swapped"]]
