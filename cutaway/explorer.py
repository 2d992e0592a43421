"""`fn.explain_html(path)`, `cutaway explain script.py:function`, `side_by_side`: the tour's page of your functions.

Input: a compiled function that was called. Each frame that was compiled for it has a tab: a version for each kind of
call, and, where its graph broke, what comes after the break.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutaway.artifacts import Artifacts
from cutaway.page import Specimen, emit_for_both_targets, write_page


def explain_html(compiled: Any, path: Path, *, site: bool = False) -> Path:
    """Write the page, and return its path. Raises IndexError where nothing was compiled yet."""
    write_page(path, _specimens(compiled), site=site)
    return path.resolve()


def side_by_side(compiled: Mapping[str, Any], path: str | Path) -> Path:
    """One page of several programs, or of one program compiled in several ways: name -> the compiled function.

    Two are shown beside each other. What came from the same expression of yours lights up in both.
    """
    if len(compiled) < 2:
        raise ValueError(f"side_by_side shows two compiled functions or more, but got {len(compiled)}")
    shown = [
        Specimen(f"{name}: {specimen.title}" if specimen.title != name else name, specimen.artifacts)
        for name, each in compiled.items()
        for specimen in _specimens(each)[-1:]
    ]
    write_page(Path(path), shown, both=True)
    return Path(path).resolve()


def _specimens(compiled: Any) -> list[Specimen]:
    found: list[Artifacts] = list(compiled.artifacts) or [
        compiled.artifacts[0]
    ]  # which says why there are none
    for artifacts in found:
        emit_for_both_targets(artifacts)
    return [Specimen(title, a) for title, a in zip(_titles(found), found, strict=True)]


def _titles(found: list[Artifacts]) -> list[str]:
    """A name for each frame: that of the function, then `from line N` and `version K` where they are needed."""
    resumed = {resume.function.__code__ for artifacts in found for resume in artifacts.frame.resumes}
    named = [_title(artifacts, artifacts.frame.code in resumed) for artifacts in found]
    times, seen = Counter(named), Counter[str]()
    titles = []
    for name in named:
        seen[name] += 1
        titles.append(f"{name}, version {seen[name]}" if times[name] > 1 else name)
    return titles


def _title(artifacts: Artifacts, resumed: bool) -> str:
    graph = artifacts.captured
    lines = [origin.line for node in graph.calls for origin in node.origins] if graph is not None else []
    return (
        f"{artifacts.function_name}, from line {min(lines)}" if resumed and lines else artifacts.function_name
    )
