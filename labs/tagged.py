"""Starters and references from one tagged file, so that nothing is written twice.

Input: the text of a source file. A body between `# lab: begin NAME` and `# lab: end` is the reference; the starter has
a NotImplementedError in its place. Signatures and docstrings stay outside the tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

BEGIN = re.compile(r"(?P<indent> *)# lab: begin (?P<name>\w+)")
END = re.compile(r" *# lab: end")


def parts(text: str) -> list[tuple[str, list[str]]]:
    """The lines of a source in pieces: (the region's name, or "" outside of all regions, its lines)."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for number, line in enumerate(text.splitlines(), 1):
        inside = found[-1][0]
        if begin := BEGIN.fullmatch(line):
            name = begin["name"]
            if inside or any(name == other for other, _ in found):
                why = f"region {inside!r} has not ended" if inside else "this name was used before"
                raise ValueError(f"line {number}: {line.strip()!r}, but {why}")
            found.append((name, []))
        elif END.fullmatch(line):
            if not inside:
                raise ValueError(f"line {number}: {line.strip()!r}, but no region has begun")
            found.append(("", []))
        else:
            found[-1][1].append(line)
    if found[-1][0]:
        raise ValueError(f"region {found[-1][0]!r} never ends; expected a line `# lab: end`")
    return found


def regions(text: str) -> dict[str, str]:
    """The body of each tagged region, by name."""
    return {name: "\n".join(lines) + "\n" for name, lines in parts(text) if name}


def solution(text: str) -> str:
    """The source without its tags."""
    return "\n".join(line for _, lines in parts(text) for line in lines) + "\n"


def starter(text: str, number: int, wanted: Mapping[str, str]) -> str:
    """The source in which each region of `wanted` (its name -> what to write there) is left to the learner."""
    if missing := sorted(set(wanted) - set(regions(text))):
        raise ValueError(
            f"the source has no region {', '.join(missing)}; expected `# lab: begin {missing[0]}`"
        )
    made: list[str] = []
    for name, lines in parts(text):
        if name not in wanted:
            made += lines
            continue
        first = next(line for line in lines if line.strip())  # a later one may be inside a text
        indent = first[: len(first) - len(first.lstrip())]
        said = f"lab {number}: {name}: {wanted[name]}".replace("\\", "\\\\").replace('"', "'")
        made += [f"{indent}raise NotImplementedError(", f'{indent}    "{said}"', f"{indent})"]
    return "\n".join(made) + "\n"
