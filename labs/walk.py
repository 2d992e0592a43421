"""The labs as a new user takes them, step by step, with minutes: `python -m labs.walk` writes them down.

Input: an empty folder, and the commands that the pages name. The reader is a script: it reads 200 words and types 200
characters a minute, without a mistake or a hint. What the machine takes is measured. A test replays the steps.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .catalogue import lab_of
from .tagged import parts, regions, starter

READS, TYPES = 200, 200  # words a minute; characters a minute
ROOT = Path(__file__).parent.parent
CLI = "import sys; from cutaway.cli import main; main(sys.argv[1:], prog_name='cutaway')"


@dataclass
class Walk:
    """What was done in a folder: a line for each step, with the minutes since the start."""

    folder: Path
    minutes: float = 0
    lines: list[str] = field(default_factory=list)
    said: str = ""  # by the last command
    status: int = 0

    def note(self, what: str, minutes: float) -> None:
        self.minutes += minutes
        self.lines.append(f"  {self.minutes:5.1f} min  {what}")

    def run(self, words: Sequence[str], shown: str, expect: str, status: int = 0) -> None:
        """Run a Python with these words. Its output must have `expect`, which is what the step is about."""
        start = time.monotonic()
        environment = dict(os.environ, PYTHONPATH=f"{ROOT}{os.pathsep}{self.folder}", NO_COLOR="1")
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, env=environment
        )
        self.said, self.status = done.stdout + done.stderr, done.returncode
        if expect not in self.said or self.status != status:
            raise AssertionError(
                f"{shown} ended with {self.status} and said:\n{self.said}\nexpected {expect!r}"
            )
        line = next(line for line in self.said.splitlines() if expect.splitlines()[0] in line).strip()
        self.note(f"$ {shown}\n             {line}", (time.monotonic() - start) / 60)

    def cutaway(self, text: str, expect: str, status: int = 0) -> None:
        self.run(["-c", CLI, *text.split()], f"cutaway {text}", expect, status)

    def read(self, path: Path) -> None:
        words = len(path.read_text(encoding="utf-8").split())
        self.note(f"read {path.name}, {words} words", words / READS)

    def type(self, path: Path, text: str, characters: int, what: str) -> None:
        path.write_text(text, encoding="utf-8")
        self.note(f"write {what}, {characters} characters", characters / TYPES)


def written(text: str, number: int, wanted: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The starter with one body more each time: (the body's name, the file)."""
    left = dict(wanted)
    for name in [name for name, _ in parts(text) if name in wanted]:
        del left[name]
        yield name, starter(text, number, left)


def first_lab(walk: Walk) -> None:
    """The first lab: from the list of labs to its last check, body by body."""
    lab = lab_of(1)
    walk.cutaway("lab list", lab.title)
    walk.cutaway("lab start 1", "write  ")
    mine = walk.folder / "cutaway-labs" / lab.package
    walk.read(mine / "page.md")
    walk.cutaway("lab check", "to do", status=1)
    bodies = regions(lab.source_text)
    for name, text in written(lab.source_text, lab.number, lab.regions):
        walk.type(mine / lab.file, text, len(re.sub(r"\s+", " ", bodies[name])), f"the body {name!r}")
    walk.cutaway("lab check", "All")


def partitioner(walk: Walk, epochs: int = 2) -> None:
    """A partitioner written in its lab trains the digits in the real compiler, and the page shows its cut."""
    lab = lab_of(4)
    walk.cutaway("lab start 4", "write  ")
    mine = walk.folder / "cutaway-labs" / lab.package
    walk.read(mine / "page.md")
    bodies = regions(lab.source_text)
    for name, text in written(lab.source_text, lab.number, lab.regions):
        walk.type(mine / lab.file, text, len(re.sub(r"\s+", " ", bodies[name])), f"the body {name!r}")
    walk.cutaway("lab check 4", "All")
    (walk.folder / "cutaway-labs" / "watched.py").write_text(WATCHED, encoding="utf-8")
    words = f"tour --epochs {epochs} --output tour.html --swap partition=cutaway-labs/watched.py:partition"
    # Two epochs are too few for the accuracy that the tour asks of 30.
    walk.cutaway(words, "held-out accuracy", status=1 if epochs < 30 else 0)
    chosen = (walk.folder / "cuts.txt").read_text(encoding="utf-8").split()
    page = re.sub(r"<[^>]+>", " ", (walk.folder / "tour.html").read_text(encoding="utf-8"))
    shown = re.findall(r"Partition\s+(\d+)\s+values saved", page)
    if not shown or not set(shown) <= set(chosen):
        raise AssertionError(f"the page shows {shown} saved values; the partitioner chose {chosen}")
    walk.note(
        f"open tour.html: its Partition station shows {' and '.join(shown)} values saved, as chosen", 0.5
    )


WATCHED = '''"""The lab's partitioner, which also writes down how many values it saves."""

from lab04_partition import partition as lab


def partition(joint):
    cut = lab.partition(joint)
    with open("cuts.txt", "a") as file:
        print(len(cut.saved), file=file)
    return cut
'''


def conformance(walk: Walk, seam: str, stage: str, file: Path) -> None:
    """A first version of a seam, in a file of its own, passes the tier `first` of its stage."""
    text = file.read_text(encoding="utf-8")
    (walk.folder / "mine.py").write_text(text, encoding="utf-8")
    lines = sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())
    walk.note(f"write {seam}, {lines} lines, in mine.py", len(re.sub(r"\s+", " ", text)) / TYPES)
    words = f"{stage} --swap {seam}=mine:{seam} --tier first"
    walk.run(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "-n0", "--rootdir",
         str(ROOT), str(ROOT / stage), *words.split()[1:]],
        f"pytest {words}", "passed",
    )  # fmt: skip


NAIVE = ROOT / "tests" / "architecture" / "naive"
WALKS: dict[str, Callable[[Walk], None]] = {
    "the first lab": first_lab,
    "a partitioner of your own trains the digits": partitioner,
    "an unfused fuse passes `first`": lambda w: conformance(w, "fuse", "stage3_lowering", NAIVE / "fuse.py"),
    "a short capture passes `first`": lambda w: conformance(
        w, "capture", "stage1_capture", NAIVE / "capture.py"
    ),
}


def walk(name: str) -> Walk:
    """Take one walk in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        taken = Walk(Path(folder))
        WALKS[name](taken)
        return taken


def report() -> str:
    lines = [
        "The labs as a new user takes them, from an empty folder",
        f"make lab-walk; no seed; {datetime.date.today()}; Python {platform.python_version()}; {platform.machine()}",
    ]
    lines += [" ".join((__doc__ or "").split("\n\n")[1].split()), ""]
    for name in WALKS:
        taken = walk(name)
        lines += [f"{name}: {taken.minutes:.1f} minutes", *taken.lines, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report().rstrip())
