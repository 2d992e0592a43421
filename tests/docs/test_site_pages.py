"""What the site makes beside its pages: navigation, sources, the API's names, both themes; and what the browser found.

Input: mkdocs.yml, site_docs/ and reports/site-check.txt, which `make site-check` wrote. mkdocs itself is not needed.
"""

import importlib
import re
from pathlib import Path

import pytest

from tests.browser.links import Links
from tests.browser.search import QUERIES
from tests.docs.site_files import SITE, load

ROOT = SITE.parent
MKDOCS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
MADE = {"breaks", "guards", "messages", "passes", "fusion", "dynamo_config", "oracle", "glossary", "contributing", "benchmarks",
        "features"}  # fmt: skip


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[: ] ([\w/]+)\.md$", MKDOCS, re.M))
    written = {path.relative_to(SITE).with_suffix("").as_posix() for path in SITE.rglob("*.md")}
    stages = {name for name in listed if name.startswith("stages/")}
    assert listed == written | MADE | stages | {"ar/glossary"}
    assert len(stages) == 6


def test_the_labs_are_in_the_navigation_in_their_order():
    first, *labs = load("lab_pages").navigation()
    assert first == {"All labs": "labs/index.md"}
    numbers = [int(next(iter(lab)).split()[0]) for lab in labs]
    assert numbers == sorted(set(numbers)) and len(numbers) > 8


def test_every_name_of_the_api_pages_exists():
    names = [
        name
        for path in (SITE / "api").glob("*.md")
        for name in re.findall(r"^::: (\S+)", path.read_text(encoding="utf-8"), re.M)
    ]
    assert len(names) > 30
    for name in names:
        found, rest = None, name.split(".")
        for cut in range(len(rest), 0, -1):
            try:
                found = importlib.import_module(".".join(rest[:cut]))
            except ModuleNotFoundError:
                continue
            break
        for part in rest[cut:]:
            found = getattr(found, part)
        assert found.__doc__, name


def test_links_to_source_lead_to_pages_with_those_lines(tmp_path):
    sources = load("source_pages")
    page, path, line = sources.link_to(sources.link_to)
    assert path == "site_docs/source_pages.py" and page == f"source/{path}.html#L-{line}"
    (tmp_path / "index.html").write_text(
        f'<a href="{page}">it</a> <a href="source/nowhere/x.py.html">no file</a>'.replace(
            "source/nowhere/x.py", "source/labs/answer.py"
        )
    )
    sources.write_pages(tmp_path)
    made = (tmp_path / f"source/{path}.html").read_text(encoding="utf-8")
    assert f"L-{line}" in Links(made).ids and "def </span>" not in made.splitlines()[0]
    assert (tmp_path / "source/labs/answer.py.html").exists()
    assert sources.page_of("pyproject.toml") is None and sources.page_of("labs/nothing.py") is None


def test_the_searches_have_pages():
    for page in QUERIES.values():
        name = page.removesuffix(".html")
        assert name in MADE or (SITE / f"{name}.md").exists(), page


def test_the_frame_that_searches_offline_tells_the_worker_its_name():
    """Without it the theme's worker looks for the scripts of a second language where they are not, and finds nothing."""
    assert "lang: [en, ar]" in MKDOCS
    assert "window.IFrameWorker = " in (SITE / "assets/iframe-worker.js").read_text(encoding="utf-8")


def test_the_tours_program_has_a_name_without_where_it_was_made():
    """Its page shows the name: a function inside another would be `tour_html.<locals>.loss_of`."""
    assert load("live_pages").loss_of.__qualname__ == "loss_of"


def test_both_themes_are_there():
    assert "scheme: default" in MKDOCS and "scheme: slate" in MKDOCS
    css = (SITE / "assets/cutaway.css").read_text(encoding="utf-8")
    names = [
        re.findall(r"(--md-[\w-]+):", css.split(f'[data-md-color-scheme="{scheme}"] {{')[1].split("}")[0])
        for scheme in ("default", "slate")
    ]
    assert names[0] == names[1], "a colour of one theme has no fellow in the other"


@pytest.mark.parametrize("name", ["site-check"])
def test_the_report_of_the_browser_is_clean(name):
    path = Path(ROOT / f"reports/{name}.txt")
    if not path.exists():
        pytest.skip(f"make {name} was not run yet")
    text = path.read_text(encoding="utf-8")
    for what in (
        "requests to another host",
        "pages that scroll sideways",
        "console errors and warnings, failed loads",
    ):
        assert f"{what}: 0" in text
    assert re.search(r"^  install: install\.html, ", text, re.M)
    assert re.search(r"violations of axe-core's rules \(.*\): 0", text) and "of which broken: 0" in text
