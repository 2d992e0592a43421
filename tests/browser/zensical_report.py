"""`make zensical`: the site built by Zensical, beside the one that mkdocs built: the same pages, words and links?

Input: build/plain_site, which `make site` leaves: finished Markdown and a configuration without hooks. The program
`zensical` is in an environment of its own (--program). Exit code 1 if a page or its words are missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

from stage_contracts.tests.report_heading import heading
from tests.browser.links import broken_links

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ROOT / "build/plain_site"
# What our hooks do in mkdocs, and Zensical, which runs none, does not.
LACKS = (
    "hooks in Python: pages that are made (labs, catalogues, outputs of commands) are handed over as finished Markdown",
    "an Arabic page has English words of the theme, is read from the left, and has the whole navigation beside it",
    "no switch of languages: our hook gives each page its own",
    "pages of source code: our hook writes them after the build; here the report wrote them",
)


class Article(HTMLParser):
    """The words of a page's <article>: what a reader reads, without navigation."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.depth, self.quiet, self.words = 0, 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.depth += tag == "article"
        self.quiet += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.depth -= tag == "article"
        self.quiet -= tag in ("script", "style")

    def handle_data(self, data):
        if self.depth and not self.quiet:
            self.words += re.findall(r"\w+", data)


def words_of(path: Path) -> Counter[str]:
    return Counter(Article(path.read_text(encoding="utf-8")).words)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--program", type=Path, required=True, help="Zensical's command")
    asked = options.parse_args()
    program = str(asked.program.resolve())
    begin = time.perf_counter()
    done = subprocess.run([program, "build", "--clean"], cwd=PLAIN, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    printed = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]
    _write_sources(PLAIN / "site")
    pages = sorted(p.relative_to(PLAIN / "docs").with_suffix(".html") for p in (PLAIN / "docs").rglob("*.md"))
    missing = [page for page in pages if not (PLAIN / "site" / page).exists()]
    differ = []
    for page in pages:
        ours, theirs = ROOT / "site" / page, PLAIN / "site" / page
        if page not in missing and (lost := words_of(ours) - words_of(theirs)):
            differ.append(
                (page, sum(lost.values()), sum(words_of(ours).values()), [w for w, _ in lost.most_common(5)])
            )
    broken, links, _ = broken_links(PLAIN / "site")
    print(
        heading(
            "the site, built by Zensical",
            "make zensical",
            "none: no chance in it",
            more=f"Zensical {version}",
        )
    )
    print(
        f"\n{len(pages)} pages, of which built: {len(pages) - len(missing)}, in {seconds:.0f} s; status {done.returncode}"
    )
    print(f"warnings: {len(re.findall(r'^Warning:', printed, re.M))}")
    print(f"pages without all the words that mkdocs' page has: {len(differ)}")
    for page, lost, all_, examples in differ:
        print(f"  {page}: {lost} of {all_} words: {', '.join(examples)}")
    print(f"links: {links}, of which broken: {len(broken)}")
    print(*(f"  {line}" for line in broken[:20]), sep="\n")
    print("what it lacks, and what we do instead:")
    print(*(f"  {line}" for line in LACKS), sep="\n")
    if done.returncode or missing:
        print(printed[-2000:], *missing, sep="\n")
    sys.exit(bool(done.returncode or missing))


def _write_sources(site: Path) -> None:
    spec = importlib.util.spec_from_file_location("source_pages", ROOT / "site_docs/source_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_pages(site)


if __name__ == "__main__":
    main()
