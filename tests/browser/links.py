"""Every link of a folder of pages leads to a file that is there, and to an id that is in it.

Input: the folder that `make site` wrote. Links to other hosts are counted and not followed: nothing here needs a network.
"""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Links(HTMLParser):
    """The links and ids of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@cache
def read(path: Path) -> Links:
    return Links(path.read_text(encoding="utf-8"))


def broken_links(site: Path) -> tuple[list[str], int, set[str]]:
    """(broken ones, how many there are, those to other hosts)."""
    broken, count, outside = [], 0, set()
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html":  # its links begin at the root of a host
            continue
        for link in read(page).links:
            count += 1
            if link.startswith(("https:", "http:", "mailto:", "data:", "javascript:")):
                outside.add(link)
            elif why := _broken(page, link):
                broken.append(f"{page.relative_to(site)}: {link}: {why}")
    return broken, count, outside


def _broken(page: Path, link: str) -> str:
    target, fragment = urldefrag(link)
    path = (page.parent / unquote(target.partition("?")[0])).resolve() if target else page
    if path.is_dir():
        path = path / "index.html"
    if not path.exists():
        return "no such file"
    if fragment and path.suffix == ".html" and unquote(fragment) not in read(path).ids | {"__top"}:
        return "no such id"
    return ""
