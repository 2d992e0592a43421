"""The page Start here, followed as a reader would: its files written, its commands run, in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "site_docs/start.md").read_text(encoding="utf-8")


def run(words, folder):
    words = words.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
    words = re.sub(r"^cutaway ", f"{shlex.quote(sys.executable)} -m cutaway.cli ", words)
    words = re.sub(
        r"^pytest (\S+)", f"{shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider {ROOT}/\\1", words
    )
    found = subprocess.run(words, shell=True, cwd=folder, env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"},
                           capture_output=True, text=True)  # fmt: skip
    assert found.returncode == 0, f"{words}\n{found.stdout[-2000:]}{found.stderr[-2000:]}"
    return found.stdout


def saved_bytes(said):
    return [int(number.replace(",", "")) for number in re.findall(r"values, ([\d,]+) bytes", said)]


def test_the_page_can_be_followed(tmp_path):
    first, mine, more = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    commands = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", PAGE, flags=re.S), re.M)
    assert [c.split()[0] for c in commands] == ["python", "cutaway", "pytest"]
    (tmp_path / "first.py").write_text(first)
    (theirs,) = saved_bytes(run(commands[0], tmp_path))
    run(commands[1], tmp_path)
    assert (tmp_path / "explain.html").stat().st_size > 50_000
    (tmp_path / "mine.py").write_text(mine)
    (tmp_path / "first.py").write_text(first + more)
    assert saved_bytes(run(commands[0], tmp_path))[-1] > theirs
    assert "passed" in run(commands[2], tmp_path)
