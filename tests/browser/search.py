"""What the site's search finds first for a word that a reader would type.

Input: the site, as a folder. The searches run in the browser, offline, as a reader's do.
"""

from __future__ import annotations

from pathlib import Path

from tests.browser import chromium

QUERIES = {
    "install": "install.html",
    "graph break": "guides/graph_breaks.html",
    "recompile": "guides/recompilation.html",
    "GPU": "guides/gpu.html",
    "contributing": "contributing.html",
    "تحليل": "ar/profiling.html",
    "التحليل": "ar/profiling.html",  # the page writes "for" in the article's place
    "الاداء": "ar/profiling.html",  # and a hamza
    "محلل": "ar/profiling.html",  # and a mark
    "المشكلات": "ar/troubleshooting.html",
}
SECONDS = 60  # the index is read and built when the box is first used


def answers(site: Path) -> list[tuple[str, str, list[str]]]:
    """(query, the page wanted, the pages found, best first), each typed into the box of the page Start here."""
    found = []
    with chromium.browser() as browser:
        for query, wanted in QUERIES.items():
            with chromium.window(browser, "desktop") as page:
                page.goto((site / "start.html").resolve().as_uri(), wait_until="load")
                page.locator("input[data-md-component=search-query]").click()
                page.keyboard.type(query, delay=20)
                page.keyboard.press(
                    "Shift"
                )  # the theme waits for a key to be let go; Arabic letters come without
                links = page.locator(".md-search-result__item a")
                try:
                    links.first.wait_for(state="attached", timeout=SECONDS * 1000)
                    page.wait_for_timeout(500)
                    hrefs = [link.get_attribute("href") or "" for link in links.all()]
                except Exception as error:  # the report says so
                    hrefs = [f"nothing ({type(error).__name__})"]
            places = [href.partition("?")[0].partition("#")[0] for href in hrefs]
            names = [place.removeprefix(site.resolve().as_uri()).lstrip("/") for place in places]
            found.append((query, wanted, list(dict.fromkeys(names))[:3]))
    return found
