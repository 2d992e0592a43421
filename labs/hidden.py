"""Hidden cases: what a check wants is kept as a salted hash, so that you cannot copy it from the checks.

Input: the `HIDDEN` of a lab's checks.py: name -> function of an Answer, which gives integers, shapes and text, never
floats. `python -m labs.pages` writes hidden.json from the reference; a test compares.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .answer import Answer, answer_in
from .catalogue import Lab
from .checks import Check, Wrong
from .tagged import solution

Cases = Mapping[str, Callable[[Answer], Any]]
FILE = "hidden.json"
SHOWN = 60  # characters of a result


def digest(salt: str, value: Any) -> str:
    """The hash of a value that prints the same on every machine."""
    return hashlib.sha256(f"{salt}: {plain(value)!r}".encode()).hexdigest()


def plain(value: Any) -> Any:
    """Integers, truth values, None and text, in tuples. Anything else is refused: a float's last bits differ."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if hasattr(value, "__index__"):
        return int(value)
    raise TypeError(f"a hidden case gave {value!r}; expected integers, shapes or text")


def hidden_check(checks_file: str, cases: Cases, read: str) -> Check:
    """A check that compares each case with its hash."""
    path = Path(checks_file).parent / FILE

    def hidden_cases(answer: Answer) -> None:
        """Your functions give the reference's results for the hidden cases, which are kept as hashes."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        for name, case in cases.items():
            try:
                got = plain(case(answer))
            except TypeError as error:
                raise Wrong(f"{name}: {error}", "integers, shapes or text", read=read) from error
            if digest(kept["salt"], got) != kept["cases"][name]:
                text = repr(got)
                shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
                raise Wrong(
                    f"{name}: your result is {shown}", "another; only its hash is kept here", read=read
                )

    return hidden_cases


def derived(lab: Lab) -> dict[Path, str]:
    """hidden.json of a lab that has hidden cases, from its reference."""
    checks = importlib.import_module(f"{__package__}.{lab.package}.checks")
    cases: Cases = getattr(checks, "HIDDEN", {})
    if not cases:
        return {}
    salt = hashlib.sha256(f"{lab.id} {lab.number}".encode()).hexdigest()[:16]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / lab.package
        package.mkdir()
        (package / "__init__.py").write_text("", encoding="utf-8")
        (package / lab.file).write_text(solution(lab.source_text), encoding="utf-8")
        for name in lab.given:
            (package / name).write_text((lab.folder / name).read_text(encoding="utf-8"), encoding="utf-8")
        with answer_in(Path(folder), lab) as answer:
            kept = {name: digest(salt, case(answer)) for name, case in cases.items()}
    return {lab.folder / FILE: json.dumps({"salt": salt, "cases": kept}, indent=1) + "\n"}
