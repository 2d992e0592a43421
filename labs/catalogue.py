"""The labs there are, as data: each is a folder `labNN_name/` here with a file lab.toml.

Input: those folders. Everything else about a lab (its starter, its reference, its tests) is found from its lab.toml.
"""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent


class LabError(click.ClickException):
    """Something that the learner can put right. The message is one sentence or two."""


@dataclass(frozen=True)
class Lab:
    """One lab. The fields are those of lab.toml; README.md explains each."""

    folder: Path
    id: str  # never changes: progress is kept under it
    number: int
    title: str
    hours: float
    needs: tuple[int, ...]  # the labs that you should know before; you can start without them
    seam: str  # what is swapped in the compiler, or "" for a lab about something else
    functions: tuple[str, ...]  # what the checks call
    file: str  # the file that the learner writes
    source: str  # the tagged file that the starter and the reference come from
    checks: int  # how many checks this lab has: a run with fewer proves nothing
    regions: dict[str, str]  # the tagged bodies to write, and what each must do
    hints: tuple[str, ...]
    pytorch: tuple[dict[str, str], ...]  # what, file, symbol
    questions: tuple[str, ...]
    conformance: dict[str, Any]  # tests, tier, least
    given: tuple[str, ...] = ()  # files of this folder that the learner reads and does not change

    @property
    def package(self) -> str:
        return self.folder.name

    @property
    def page(self) -> Path:
        return self.folder / "page.md"

    @property
    def module(self) -> str:
        """The name under which the learner's file is imported."""
        return f"{self.package}.{Path(self.file).stem}"

    @property
    def source_path(self) -> Path:
        own = self.folder / self.source
        return own if own.is_file() else file_of(self.source)

    @property
    def source_text(self) -> str:
        return self.source_path.read_text(encoding="utf-8")


def file_of(path: str) -> Path:
    """A file of one of the packages, from its path in the repository. Works for an installed package too."""
    package, _, rest = path.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LabError(f"there is no package {package!r}; expected a path such as stage2_autograd/tiny/x.py")
    return Path(spec.origin).parent / rest


@cache
def all_labs() -> tuple[Lab, ...]:
    """Every lab, in the order of the numbers."""
    return tuple(sorted(map(read, HERE.glob("lab*/lab.toml")), key=lambda lab: lab.number))


def read(path: Path) -> Lab:
    """The lab that a lab.toml describes. A field too many or too few is an error that names it."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
    }
    try:
        return Lab(folder=path.parent, **fields)
    except TypeError as error:
        raise LabError(f"{path}: {error}; expected the fields that labs/README.md lists") from error


def lab_of(number: int) -> Lab:
    """The lab with this number."""
    for lab in all_labs():
        if lab.number == number:
            return lab
    known = ", ".join(str(lab.number) for lab in all_labs())
    raise LabError(f"there is no lab {number}; expected one of {known} (`cutaway lab list` names them)")
