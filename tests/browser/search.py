"""What the site's search finds first for a word that a reader would type.

Input: the site, as a folder. The searches run in the browser, offline, as a reader's do.
"""

from __future__ import annotations

from pathlib import Path

from tests.browser import chromium

QUERIES = {
    "install": "start.html",
    "graph break": "breaks.html",
    "recompile": "guides/recompilation.html",
    "GPU": "guides/gpu.html",
    "contributing": "contributing.html",
}


def answers(site: Path) -> list[tuple[str, str, str]]:
    """(query, the page wanted, the page found first)."""
    found = []
    with chromium.browser() as browser, chromium.window(browser, "desktop") as page:
        page.goto((site / "start.html").resolve().as_uri(), wait_until="load")
        for query, wanted in QUERIES.items():
            page.locator("input[data-md-component=search-query]").fill("")
            page.locator("input[data-md-component=search-query]").fill(query)
            first = page.locator(".md-search-result__item a").first
            try:
                first.wait_for(state="attached", timeout=10_000)
                page.wait_for_timeout(700)
                href = page.locator(".md-search-result__item a").first.get_attribute("href") or ""
            except Exception as error:  # the report says so
                href = f"nothing ({type(error).__name__})"
            address = href.partition("?")[0].partition("#")[0]
            found.append((query, wanted, address.removeprefix(site.resolve().as_uri()).lstrip("/")))
    return found
