"""`make site-check`: every page of the site in a browser, in both themes, on a phone and on a desktop.

Input: the folder site/, as `make site` wrote it. What was seen of a page is kept in
build/site-check as long as the page stays the same. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from stage_contracts.tests.report_heading import heading
from tests.browser import chromium, search
from tests.browser.links import broken_links

SITE = chromium.ROOT / "site"
KEPT = chromium.ROOT / "build/site-check"


def windows_of(page: Path, two: bool) -> tuple:
    """Source pages differ in their text alone: they are seen in two windows, the others in all four."""
    return chromium.TWO if two or page.is_relative_to(SITE / "source") else chromium.WINDOWS


def visits(pages: list[tuple[Path, str]], window: tuple[str, str]) -> None:
    """Look at pages in one window, and keep what is seen of each, so that a run that is cut short goes on there."""
    with chromium.browser() as browser:
        names = [page.relative_to(SITE).as_posix() for page, _ in pages]
        seen = chromium.visited(browser, [page for page, _ in pages], names, [window], fold=True)
        for (_, key), visit in zip(pages, seen, strict=True):
            print(visit.size, visit.theme, visit.path, *visit.problems, sep="  ", file=sys.stderr, flush=True)
            (KEPT / key).write_text(json.dumps(vars(visit)), encoding="utf-8")


def keys(pages: list[Path], version: str) -> dict[Path, str]:
    """What a page's visit depends on, as a name of a file: its bytes, the site's scripts and styles, the browser, the checks."""
    shared = [path for path in sorted(SITE.rglob("assets/**/*")) if path.suffix in (".css", ".js")]
    base = hashlib.sha256(f"{version} {chromium.axe_version()}".encode())
    for path in [*shared, Path(chromium.__file__)]:
        base.update(path.read_bytes())
    found = {}
    for page in pages:
        own = base.copy()
        own.update(str(page.relative_to(SITE)).encode() + page.read_bytes())
        found[page] = own.hexdigest()[:24]
    return found


def looked_at(pages: list[Path], asked: argparse.Namespace, version: str) -> tuple[list[chromium.Visit], int]:
    """Every visit, and how many of them were kept from a run before."""
    KEPT.mkdir(parents=True, exist_ok=True)
    key = keys(pages, version)
    wanted = [(p, w, f"{key[p]}-{'-'.join(w)}.json") for p in pages for w in windows_of(p, asked.two)]
    open_ = [(p, w, name) for p, w, name in wanted if not (KEPT / name).exists()]
    groups = [
        ([(p, name) for p, w, name in open_ if w == window][k :: asked.jobs], window)
        for window in chromium.WINDOWS
        for k in range(asked.jobs)
    ]
    with ProcessPoolExecutor(asked.jobs) as pool:
        list(pool.map(visits, *zip(*[group for group in groups if group[0]], strict=True))) if open_ else None
    texts = [(KEPT / name).read_text(encoding="utf-8") for _, _, name in wanted]
    return [chromium.Visit(**json.loads(text)) for text in texts], len(wanted) - len(open_)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="pages whose path has this in it")
    options.add_argument("--two", action="store_true", help="a dark desktop and a light phone only")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--quick", action="store_true", help="one page")
    asked = options.parse_args()
    with chromium.browser() as browser:  # says what is missing before anything else
        version = browser.version
    pages = [p for p in sorted(SITE.rglob("*.html")) if asked.only in p.relative_to(SITE).as_posix()]
    pages = [p for p in pages if p.name != "404.html"]  # it is for a host: its links begin at the root
    pages = [p for p in pages if p.name == "start.html"] if asked.quick else pages
    found, kept = looked_at(pages, asked, version)
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
        + (f", {kept} of them kept from a run that was cut short: same page, same browser" if kept else "")
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
    print("  (in the dark the rules of colour; of words in code blocks that look the same, three a page)")
    print(
        f"links: {links}, of which broken: {len(broken)}; other hosts' pages that are linked: {len(outside)}, not followed"
    )
    print("searches, typed into the box of the page Start here, and what they find, best first:")
    for query, wanted, places in queries:
        print(f"  {query}: {', '.join(places)}{'' if wanted in places else f' (wanted: {wanted})'}")
    lines = broken + [f"{v.path} ({v.theme}, {v.size}): {p}" for v in found for p in v.problems]
    print("\n".join(lines[:60]))
    if len(lines) > 60:
        print(f"and {len(lines) - 60} more")
    sys.exit(bool(lines) or any(wanted not in places for _, wanted, places in queries))


if __name__ == "__main__":
    main()
