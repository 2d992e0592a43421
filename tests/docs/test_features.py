"""The page of features tells the truth: each command is there, and each test that is named holds its feature.

Input: site_docs/features.py, the Makefile, the command line.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from cutaway.cli import main
from labs.catalogue import all_labs
from tests.docs.site_files import load

ROOT = Path(__file__).parents[2]
FEATURES = load("features").FEATURES
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def test_at_least_22_of_24_are_there():
    assert len(FEATURES) == 24 and len({f.name for f in FEATURES}) == 24
    assert sum(bool(f.test) for f in FEATURES) >= 22


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_the_command_is_there(feature):
    program, *words = shlex.split(feature.command)
    if program == "make":
        assert words[0] in TARGETS
    elif program == "pytest":
        assert (ROOT / words[0]).exists()
    else:
        assert program == "cutaway"
        command = main
        for word in words:
            if not hasattr(command, "get_command"):
                break
            command = command.get_command(None, word)
            assert command is not None, f"cutaway has no command {word}"


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
