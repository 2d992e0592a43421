"""The Arabic edition says what the English pages say: no section has changed since it was translated, the code is shared.

Input: site_docs/ar/*.md and the English pages that they name. What to do when this fails: bring the page up to date, then
`python site_docs/languages.py --accept`.
"""

import re

import pytest

from tests.docs.site_files import SITE, load

languages = load("languages")
PAGES = languages.pages()
MARK = re.compile(r"<!-- .*? -->")


def test_five_pages_are_translated():
    names = {path.stem for path in PAGES}
    assert names == {"start", "get_started", "troubleshooting", "faq", "profiling"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_english_page_has_not_changed_since(path):
    assert not languages.changed(path, PAGES[path])


def test_a_change_in_an_english_page_is_found(tmp_path):
    path, english = next(iter(PAGES.items()))
    other = tmp_path / "page.md"
    text = english.read_text(encoding="utf-8")
    heading = re.findall(r"^## .*$", text, re.M)[0]
    other.write_text(text.replace(heading, f"{heading}\n\nOne sentence more."), encoding="utf-8")
    assert languages.changed(path, other) == [heading]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_and_outputs_are_those_of_the_english_page(path):
    arabic, english = (p.read_text(encoding="utf-8") for p in (path, PAGES[path]))
    assert not languages.blocks(path), "code is taken from the English page, by its number"
    count = len(languages.blocks(PAGES[path]))
    shared = [f"<!-- english code: {k} -->" for k in range(1, count + 1)]
    assert MARK.findall(arabic) == (shared or MARK.findall(english))
    for level in ("# ", "## ", "!!! note"):
        assert len(re.findall(f"^{level}", arabic, re.M)) == len(
            re.findall(f"^{level}", re.sub(r"```.*?```", "", english, flags=re.S), re.M)
        )
    kept = r"`[^`\n]+`"
    missing = set(re.findall(kept, MARK.sub("", english))) - set(re.findall(kept, arabic))
    assert not {name for name in missing if "```" not in name}, (
        "names of the code are the same in both languages"
    )


def test_what_a_page_shows_in_place_of_a_mark():
    page = languages.with_shared_code("<!-- english code: 2 -->", "ar/start.md")
    assert page == "    python first.py"


def test_every_term_has_a_word_in_both_languages():
    english, arabic = load("glossary"), load("glossary_ar")
    assert set(english.TERMS) == set(arabic.TERMS)
    assert all(
        re.search("[\u0600-\u06ff]", word) and meaning.endswith(".")
        for word, meaning in arabic.TERMS.values()
    )
    words = [word for word, _ in (arabic.TERMS | arabic.MORE).values()]
    assert len(words) == len(set(words)), "two terms have one word"


def test_the_switch_leads_to_the_same_page_and_back():
    for path, english in PAGES.items():
        here, there = (p.relative_to(SITE).as_posix() for p in (path, english))
        assert languages.counterpart(here) == there and languages.counterpart(there) == here
    assert languages.counterpart("numpy.md") == "ar/start.md"
