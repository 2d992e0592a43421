"""`make lab-walk`: the walks of labs/walk.py by a reader who has the site alone: on which page does each command stand?

Input: the walks, and the site's pages. What a reader must read on the site before the first command is counted. A command
that no page shows ends the walk.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from labs import walk
from stage_contracts.tests.report_heading import heading
from tests.docs.site_files import SITE, load

# walk -> the pages that lead to it, which are read down to their tables
BEFORE = {
    "the first lab": ["labs/index.md"],
    "a partitioner of your own trains the digits": ["labs/index.md"],
    "an unfused fuse passes `first`": ["guides/swap.md"],
    "a short capture passes `first`": ["guides/swap.md"],
}
COMMAND = re.compile(r"\$ (.*)")


def pages() -> dict[str, str]:
    """The site's pages that a reader of labs reads: path -> text."""
    found = {
        path.relative_to(SITE).as_posix(): path.read_text(encoding="utf-8") for path in SITE.rglob("*.md")
    }
    made = load("lab_pages").lab_files()
    return {**found, **{path: text for path, text in made.items() if path.endswith(".md")}}


def as_shown(command: str) -> str:
    """A command as a page would show it: with another file to swap in, and without this walk's own options."""
    swapped = re.match(r"(cutaway tour) .*(--swap \w+=)", command)
    return f"{swapped[1]} {swapped[2]}" if swapped else command


def page_of(command: str, texts: dict[str, str], near: list[str]) -> str:
    """The page on which a command stands; of several, one that this walk reads."""
    pattern = re.compile(
        re.escape(as_shown(command)) + (r"" if as_shown(command) != command else r"(?![\w ]*\d)")
    )
    found = [page for page, text in texts.items() if pattern.search(text) and not page.startswith("ar/")]
    if not found:
        raise AssertionError(f"no page of the site shows `{as_shown(command)}`")
    return min(found, key=lambda page: (page not in near, page))


def words_above_the_table(text: str) -> int:
    return len(re.split(r"^\|", text, maxsplit=1, flags=re.M)[0].split())


def take(name: str) -> walk.Walk:
    """One walk from the site's first page of it."""
    texts = pages()
    with tempfile.TemporaryDirectory() as folder:
        taken = walk.Walk(Path(folder))
        for page in BEFORE[name]:
            words = words_above_the_table(texts[page])
            taken.note(f"read the site's page {page}, {words} words", words / walk.READS)
        walk.WALKS[name](taken)
    taken.lines = [with_page(line, texts, BEFORE[name]) for line in taken.lines]
    return taken


def with_page(line: str, texts: dict[str, str], near: list[str]) -> str:
    """A line of a walk; below a command, the page that shows it."""
    command = COMMAND.search(line.splitlines()[0])
    if command is None:
        return line
    page = page_of(command[1], texts, near)
    first, *rest = line.splitlines()
    return "\n".join([first, f"             (on the page {page}: {as_shown(command[1])})", *rest])


def main() -> None:
    print(
        heading("the labs as a new user takes them, from the site", "make lab-walk", "none: no chance in it")
    )
    print(" ".join((walk.__doc__ or "").split("\n\n")[1].split()))
    for name in walk.WALKS:
        taken = take(name)
        print(f"\n{name}: {taken.minutes:.1f} minutes", *taken.lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
