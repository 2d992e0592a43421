"""The commits that CONTRIBUTING shows fit the tree of today: what they remove is there once, what they add is not. One of
them was made, and the tree has just that.

Input: the blocks of differences in CONTRIBUTING.md. `python -m tests.docs.test_contributing 2 FOLDER` applies one to a copy
of the tree, to run its test there.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S)
NEW = "/dev/null"


def changed(block, root):
    """File by file, the text after the difference. Lines go behind the lines that stand before them, or to the end."""
    for old, name, body in re.findall(
        r"^--- (\S+)\n(?:\+\+\+ b/(\S+)\n)?(.*?)(?=^--- |\Z)", block, re.S | re.M
    ):
        name = name or old.removeprefix("a/")
        text = "" if old == NEW else (root / name).read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", body, flags=re.M):
            text = applied(text, hunk.splitlines(), name)
        yield name, text


def applied(text, lines, name):
    removed = "".join(f"{line[1:]}\n" for line in lines if line[:1] in ("-", " "))
    added = "".join(f"{line[1:]}\n" for line in lines if line[:1] in ("+", " "))
    if removed and removed in text:
        assert text.count(removed) == 1, f"{name}: {removed!r} stands there more than once"
        return text.replace(removed, added)
    for line in [line[1:] for line in lines if line[:1] in ("-", " ")]:
        assert line in text, f"{name}: {line!r} is not there"
    for kind, line in [(line[:1], line[1:]) for line in lines]:
        if kind == "-":
            text = text.replace(f"{line}\n", "", 1)
    return text + added if not removed else text


NAMES = ("operator", "pass", "break code", "kind of value", "backend")
MADE = "kind of value"


def test_what_was_made_is_what_is_shown():
    block = BLOCKS[NAMES.index(MADE)]
    shown, line = block.split("--- a/")
    (new, text) = next(changed(shown, ROOT))
    assert text == (ROOT / new).read_text(encoding="utf-8")
    table, *lines = line.splitlines()
    added = "".join(f"{each[1:]}\n" for each in lines if each[:1] in "+ ")
    assert added in (ROOT / table).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in NAMES if name != MADE])
def test_each_difference_fits_the_tree(name):
    block = BLOCKS[NAMES.index(name)]
    files = dict(changed(block, ROOT))
    assert 1 <= len(files) <= 2
    for name, text in files.items():
        whole = (ROOT / name).exists()
        assert name.endswith(".pyi") or not whole or text != (ROOT / name).read_text(encoding="utf-8")
        if not whole:
            ast.parse(text)


if __name__ == "__main__":
    for each, new in changed(BLOCKS[int(sys.argv[1])], Path(sys.argv[2])):
        (Path(sys.argv[2]) / each).write_text(new, encoding="utf-8")
