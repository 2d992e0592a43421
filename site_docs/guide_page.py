"""What the pages of guides/ share: programs as blocks of a page, and what commands print when the site is built.

Input: a file <name>_guide.py for each page guides/<name>.md, with PROGRAMS (file name -> text) and SHOWN (mark -> lines
of the shell, how many lines to show; -8 is the last eight). They run in a folder of their own that holds the programs.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ON_CUTAWAY = """\
import runpy
import sys

from cutaway.torch_api import as_torch

with as_torch():
    for program in sys.argv[1:]:
        runpy.run_path(program, run_name="__main__")
"""
# The commands that a line may begin with, so that none has to be installed.
COMMANDS = f'python() {{ {sys.executable} "$@"; }}; cutaway() {{ python -m cutaway.cli "$@"; }}'


class Guide:
    """One guide: `texts` are the marks of its page and how to make what stands there."""

    def __init__(self, name, programs, shown):
        self.name = name
        self.programs = {"on_cutaway.py": ON_CUTAWAY, **programs}
        self.shown = shown
        self.texts = {f"<!-- {name} program: {file} -->": self._program(file) for file in self.programs}
        self.texts |= {f"<!-- {name} shown: {mark} -->": self._command(mark) for mark in shown}

    def run_in(self, folder, mark):
        """(line, what it prints on either stream) for each line of a mark, with the programs in this folder."""
        for program, text in self.programs.items():
            (Path(folder) / program).write_text(text, encoding="utf-8")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTAWAY_", "TORCH"))}
        path = os.pathsep.join([str(ROOT), str(folder)])
        plain["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # mpiexec's
        for line in self.shown[mark][0].splitlines():
            result = subprocess.run(
                ["/bin/bash", "-c", f"{COMMANDS}; {line}"],
                env={**plain, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            yield line, _without_places(result.stdout, folder)

    def printed(self, folder, mark):
        """As run_in; where the site was built from this very tree, what was printed then."""
        return kept_outputs.get(f"{self.name} {mark}") or list(self.run_in(folder, mark))

    def _program(self, file):
        return lambda: f"```python\n{self.programs[file].rstrip()}\n```"

    def _command(self, mark):
        @cache
        def block():
            most = self.shown[mark][1]
            with tempfile.TemporaryDirectory() as folder:
                whole = list(self.run_in(folder, mark))
            kept_outputs.put(f"{self.name} {mark}", whole)
            printed = [part for line in whole for part in _cut(*line, most)]
            fence = "````" if any("```" in part for part in printed) else "```"
            return "\n".join([f"{fence}console", *printed, fence])

        return block


def _cut(line, printed, most):
    """A command and its output, of which `most` lines are shown."""
    lines = printed.rstrip().splitlines()
    if len(lines) > abs(most):
        lines = [*lines[:most], "..."] if most > 0 else ["...", *lines[most:]]
    return f"$ {line}", *lines


def _without_places(text, folder):
    """A text without the names of folders, and without times and processes in the names of files."""
    for place in (f"{Path(folder).resolve()}/", f"{folder}/", f"{ROOT}/"):
        text = text.replace(place, "")
    text = re.sub(r"cutaway_trace_\d+", "cutaway_trace_<n>", text)
    return re.sub(r"run_[\d_]+-pid_\d+", "run_<time>-pid_<n>", text)


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _guide(path):
    tables = _load(path)
    return Guide(path.stem.removesuffix("_guide"), tables.PROGRAMS, tables.SHOWN)


kept_outputs = _load(Path(__file__).parent / "kept_outputs.py")
GUIDES = {guide.name: guide for guide in map(_guide, sorted(Path(__file__).parent.glob("*_guide.py")))}
TEXTS = {mark: make for guide in GUIDES.values() for mark, make in guide.texts.items()}
