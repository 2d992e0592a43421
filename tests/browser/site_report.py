"""`make site-check`: every page of the site in a browser, in both themes, on a phone and on a desktop.

Input: the folder site/, as `make site` wrote it. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from stage_contracts.tests.report_heading import heading
from tests.browser import chromium, search
from tests.browser.links import broken_links

SITE = chromium.ROOT / "site"


def visits(pages: list[Path], two: bool) -> list[chromium.Visit]:
    """Source pages differ in their text alone: they are seen in two windows, the others in all four."""
    found = []
    source = [page for page in pages if page.is_relative_to(SITE / "source")]
    others = [page for page in pages if page not in source]
    with chromium.browser() as browser:
        for part, windows in ((others, chromium.TWO if two else chromium.WINDOWS), (source, chromium.TWO)):
            names = [page.relative_to(SITE).as_posix() for page in part]
            for visit in chromium.visited(browser, part, names, windows):
                print(
                    visit.size,
                    visit.theme,
                    visit.path,
                    *visit.problems,
                    sep="\n  ",
                    file=sys.stderr,
                    flush=True,
                )
                found.append(visit)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="pages whose path has this in it")
    options.add_argument("--two", action="store_true", help="a light desktop and a dark phone only")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--quick", action="store_true", help="one page")
    asked = options.parse_args()
    with chromium.browser() as browser:  # says what is missing before anything else
        version = browser.version
    pages = [p for p in sorted(SITE.rglob("*.html")) if asked.only in p.relative_to(SITE).as_posix()]
    pages = [p for p in pages if p.name != "404.html"]  # it is for a host: its links begin at the root
    pages = [p for p in pages if p.name == "start.html"] if asked.quick else pages
    with ProcessPoolExecutor(asked.jobs) as pool:
        parts = [pages[k :: asked.jobs] for k in range(asked.jobs)]
        found = [visit for part in pool.map(visits, parts, [asked.two] * asked.jobs) for visit in part]
    broken, links, outside = broken_links(SITE)
    queries = [] if asked.quick or asked.only else search.answers(SITE)
    more = f"Chromium {version}, axe-core {chromium.axe_version()}"
    print(
        heading(
            "every page of the site in a browser, and every link",
            "make site-check",
            "none: no chance in it",
            more=more,
        )
    )
    print(
        f"\n{len(pages)} pages, {len(found)} visits ({' and '.join(chromium.THEMES)}; {' and '.join(chromium.SIZES)})"
    )
    wrong = Counter(problem.split(":")[0].split(" (")[0] for visit in found for problem in visit.problems)
    print(
        f"console errors and warnings, failed loads: {sum(wrong[k] for k in ('console', 'error', 'failed'))}"
    )
    print(f"requests to another host: {wrong['request']}")
    print(f"pages that scroll sideways: {wrong['scrolls sideways']}")
    rules = ", ".join(chromium.RULES)
    print(
        f"violations of axe-core's rules ({rules}): {sum(n for k, n in wrong.items() if k.startswith('axe'))}"
    )
    print(
        f"links: {links}, of which broken: {len(broken)}; other hosts' pages that are linked: {len(outside)}, not followed"
    )
    print("searches and what they find first:")
    for query, wanted, first in queries:
        print(f"  {query}: {first}{'' if first == wanted else f' (wanted: {wanted})'}")
    lines = broken + [f"{v.path} ({v.theme}, {v.size}): {p}" for v in found for p in v.problems]
    print("\n".join(lines[:60]))
    if len(lines) > 60:
        print(f"and {len(lines) - 60} more")
    sys.exit(bool(lines) or any(first != wanted for _, wanted, first in queries))


if __name__ == "__main__":
    main()
