"""Every command on the pages exists: its make target, its Python, the files and folders it names.

Input: the indented lines and the `make ...` words of README.md, CONTRIBUTING.md and the packages' READMEs. What takes
minutes (make test, make tour) is run by CI itself; a pytest command is collected here.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("*/README.md"))]
TEXT = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in PAGES}
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
LINE = re.compile(r"^    ((?:\.venv/bin/|pytest |python |make )[^#\n]*)", re.M)
COMMANDS = [(page, " ".join(c.split())) for page, text in TEXT.items() for c in LINE.findall(text)]


@pytest.mark.parametrize("page", TEXT)
def test_every_make_target_exists(page):
    asked = set(re.findall(r"(?:`|^    )make ([a-z][a-z-]*)", TEXT[page], re.M))
    assert asked - TARGETS == set()


def test_there_are_commands():
    assert {"README.md", "CONTRIBUTING.md"} <= {page for page, _ in COMMANDS}


@pytest.mark.parametrize("page, command", [c for c in COMMANDS if not c[1].startswith("make ")])
def test_every_command_is_one(page, command, tmp_path):
    """From a fresh clone: with the environment's own Python, on tests that are there, a seam from the reader's file."""
    first, *words = shlex.split(command)
    assert first == ".venv/bin/python", (
        f"{page}: a fresh clone has no {first!r} on its path; say .venv/bin/python"
    )
    assert all((ROOT / w).exists() for w in words if re.fullmatch(r"(stage|cutaway|tests)[\w/]*(\.py)?", w))
    # what is swapped else is collected by CI's own run
    if "my_module" not in command and "mine.py" not in command:
        return
    code = (
        "from stage1_capture.tiny import capture as my_capture\n"
        "from stage1_capture.tests.tiny_parts import interpret as my_interpret\n"
        "from stage2_autograd.tiny.partition import partition\nmy_partition = partition\n"
    )
    for name in ("my_module.py", "mine.py"):
        (tmp_path / name).write_text(code)
    words = [w.replace("mine.py:", f"{tmp_path / 'mine.py'}:") for w in words]
    run = subprocess.run(
        [sys.executable, *words, "--collect-only", "-q", "-p", "no:cacheprovider"],
        check=False, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-500:]
