"""The tables of the page on torch's names: the sums, the names that are the same, and a row for each of the others.

Input: torch_names.txt beside this file, which `make names` writes, and reports/names.txt. hooks.py puts them in place.
"""

from pathlib import Path

HERE = Path(__file__).parent
SAME = "same"


def rows():
    """(name, word, note) for every name, in the order of the file."""
    lines = (HERE / "torch_names.txt").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" | ", 2)) for line in lines]


def _sums():
    report = (HERE.parent / "reports" / "names.txt").read_text(encoding="utf-8")
    return f"```\n{report.strip()}\n```"


def _tables():
    """A section for each path: the others first, as a table, then the names that are the same."""
    by_path = {}
    for name, word, note in rows():
        path, _, last = name.rpartition(".")
        by_path.setdefault(path, []).append((last, word, note))
    return "\n\n".join(f"## {path}\n\n{_section(found)}" for path, found in by_path.items())


def _section(found):
    others = sorted((word, last, note) for last, word, note in found if word != SAME)
    lines = ["| name | | |", "| --- | --- | --- |"] if others else []
    for word, last, note in others:
        note = note if word == "not here" or word == "apart" else f"`{note}`"
        lines.append(f"| `{last}` | {word} | {note.replace('|', chr(92) + '|')} |")
    same = " ".join(f"`{last}`" for last, word, _ in found if word == SAME)
    return "\n".join(lines) + f"\n\nSame: {same}"


TEXTS = {"<!-- torch names sums -->": _sums, "<!-- torch names tables -->": _tables}
