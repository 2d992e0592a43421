"""The site's search finds an Arabic page by the words that a reader types: without marks, and without what is joined on.

Input: site_docs/ar/*.md as sections of a search index, and a search like the theme's: a word of the index that begins
with the query. `make site-check` types the same queries into Chromium.
"""

import json
import re

import pytest

from tests.browser.search import QUERIES
from tests.docs.site_files import SITE, load

arabic = load("arabic_search")
TYPED = {query: page for query, page in QUERIES.items() if arabic.WORD.fullmatch(query)}


def index():
    pages = sorted((SITE / "ar").glob("*.md"))
    texts = [re.sub(r"\A---\n.*?\n---\n", "", page.read_text(encoding="utf-8"), flags=re.S) for page in pages]
    docs = [
        {
            "location": f"ar/{page.stem}.html",
            "title": text.strip().splitlines()[0],
            "text": text,
            "boost": 0.5,
        }
        for page, text in zip(pages, texts)
    ]
    return json.dumps({"config": {"lang": ["en", "ar"]}, "docs": docs})


def found(index, query):
    """The pages with a word that begins with the query. In mkdocs.yml no stemmer is on, and words end at blanks and hyphens."""
    docs = json.loads(index)["docs"]
    text = {doc["location"]: arabic.TAG.sub(" ", f"{doc['title']} {doc['text']}") for doc in docs}
    ends = re.compile(r"^[^\w\u0621-\u065f\u0671]+")
    return [
        page
        for page, words in text.items()
        if any(ends.sub("", w).startswith(query) for w in re.split(r"[\s\-]+", words))
    ]


@pytest.mark.parametrize("query", TYPED)
def test_a_word_that_a_reader_types_finds_its_page(query):
    assert TYPED[query] in found(arabic.with_forms(index()), query)


def test_the_index_as_mkdocs_writes_it_lacks_them():
    missed = [query for query in TYPED if TYPED[query] not in found(index(), query)]
    assert missed == ["التحليل", "الاداء", "محلل"]


@pytest.mark.parametrize(
    "written, typed",
    [
        ("لتحليل", {"تحليل", "التحليل", "لتحليل"}),
        ("والمفسّر", {"مفسر", "المفسر", "والمفسر"}),
        ("للأداء", {"أداء", "اداء", "الاداء"}),
        ("مُدخَلٍ", {"مدخل"}),
    ],
)
def test_the_forms_of_a_word(written, typed):
    assert typed <= arabic.forms(written)
    assert not any(arabic.MARKS.search(form) for form in arabic.forms(written))


def test_two_letters_are_no_word():
    assert arabic.forms("فيه") == {"فيه"} and arabic.forms("لكن") == {"لكن"}


def test_english_pages_stay_as_they_are_and_no_text_is_lost():
    page = {"location": "start.html", "title": "Start", "text": "<p>تحليل</p>"}
    arab = {"location": "ar/start.html", "title": "حلّ", "text": "<p>للتحليل <code>x</code></p>"}
    one, two = json.loads(arabic.with_forms(json.dumps({"docs": [page, arab]})))["docs"]
    assert one == page
    assert two["title"] == arab["title"] and two["text"].startswith(arab["text"])
    hidden = two["text"][len(arab["text"]) :]
    assert re.fullmatch("<p hidden>[^<>]*</p>", hidden)
    assert {"تحليل", "التحليل", "حل"} <= set(arabic.WORD.findall(hidden))


def test_the_build_writes_them_before_the_offline_copy_is_made(tmp_path, monkeypatch):
    pytest.importorskip("mkdocs", reason="the extra `site` is not installed")
    hooks = load("hooks")
    monkeypatch.setattr(hooks._beside("source_pages"), "write_pages", lambda site: None)
    written = tmp_path / "search/search_index.json"
    written.parent.mkdir()
    written.write_text(index(), encoding="utf-8")
    hooks.on_post_build({"site_dir": str(tmp_path)})
    assert "ar/profiling.html" in found(written.read_text(encoding="utf-8"), "محلل")
    assert 0 > hooks.on_post_build.mkdocs_priority > -100
