"""The tour's page: it loads nothing, shows every stage, ties every line to the source, escapes what it shows.

Input: two small functions, compiled here and drawn as `cutaway tour` draws its own.
"""

import re
from html.parser import HTMLParser

import pytest

import cutaway
from cutaway.page import Specimen, emit_for_both_targets
from cutaway.page.colours import GRAMMARS, coloured_lines
from cutaway.page.document import render
from cutaway.page.markup import el, text
from cutaway.page.origins import Origins
from cutaway.page.panes import code
from cutaway.page.stations import STATIONS
from cutaway.tour.block import block

VOID = {"meta", "br", "hr", "link"}


def clipped(x, limit):
    kept = cutaway.where(x < limit, x, limit)  # "<b>not markup</b>" & co
    return (kept * 2).sum()


class Page(HTMLParser):
    """The page read back: balanced, or the first tag that is not; text and origins per station."""

    def __init__(self, page):
        super().__init__()
        self.open, self.wrong = [], []
        self.places, self.texts, self.origins, self.loads, self.ids = [], {}, {}, [], []
        self.links = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        words = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
            if words.get("data-station") and tag == "article" or (words.get("class") or "") == "python":
                self.places.append((len(self.open), words["id"]))
        if "id" in words:
            self.ids.append(words["id"])
        if self.places:
            found = self.origins.setdefault(self.places[-1][1], set())
            found.update((words.get("data-origins") or "").split())
        found = [words[name] for name in ("src", "href", "srcset", "data") if words.get(name)]
        self.loads += (
            [] if tag == "a" and found and found[0].startswith(("file:", "source/", "labs/")) else found
        )
        self.links += found if tag == "a" else []

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} closes {self.open[-3:]}")
            return
        if self.places and self.places[-1][0] == len(self.open):
            self.places.pop()
        self.open.pop()

    def handle_data(self, data):
        if self.places:
            name = self.places[-1][1]
            self.texts[name] = self.texts.get(name, "") + data


@pytest.fixture(scope="module")
def artifacts():
    block_compiled, clipped_compiled = cutaway.compile(block), cutaway.compile(clipped)
    parameters = [cutaway.randn(*s, requires_grad=True) for s in [(128, 64), (128,), (128,), (128,)]]
    block_compiled(cutaway.randn(16, 64), *parameters)
    clipped_compiled(cutaway.randn(4, 5, requires_grad=True), cutaway.tensor(0.5))
    found = [block_compiled.artifacts[-1], clipped_compiled.artifacts[-1]]
    for each in found:
        emit_for_both_targets(each)
    return found


@pytest.fixture(scope="module")
def html(artifacts):
    return render([Specimen("block", artifacts[0]), Specimen("clipped", artifacts[1])])


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_tags_balance_and_ids_are_unique(page):
    assert not page.wrong, page.wrong[:3]
    assert not page.open
    assert len(page.ids) == len(set(page.ids))


def test_it_loads_nothing(html, page):
    assert all(link.startswith("#") for link in page.loads), page.loads
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|import\(", html)
    assert len(html.encode()) < 1_500_000


def test_every_link_leads_somewhere(page):
    assert {link[1:] for link in page.loads} <= set(page.ids)


def test_every_station_is_there(page):
    shown = {name.partition("-")[2] for name in page.texts if name.startswith("s0-")}
    assert {s.key for s in STATIONS} - {"breaks"} | {"source"} == shown


def test_every_origin_of_a_pane_is_in_the_source(page):
    for specimen in ("s0", "s1"):
        source = page.origins[f"{specimen}-source"]
        for name, origins in page.origins.items():
            if name.startswith(specimen):
                assert origins <= source, f"{name} has {sorted(origins - source)[:3]}"


@pytest.mark.parametrize(
    "station", ["graph", "joint", "core", "cut", "loops", "fusion", "cpp", "triton", "program"]
)
def test_every_expression_can_be_followed_to_a_kernel(page, artifacts, station):
    computed = set(Origins(artifacts[0]).hue)
    assert len(computed) == 4, "linear, layer_norm, gelu, mean"
    assert computed <= page.origins[f"s0-{station}"]


def test_a_pane_shows_the_artifact_as_it_prints(page, artifacts):
    first = artifacts[0]
    for station, artifact in [
        ("graph", first.captured),
        ("joint", first.joint.graph),
        ("loops", first.forward.lowered),
        ("loops", first.backward.lowered),
        ("program", first.forward.planned),
        ("cpp", first.forward.emitted["cpp"].units[0].text),
        ("triton", first.backward.emitted["triton"].units[0].text),
        ("launch", first.forward.run.source_text),
    ]:
        assert str(artifact) in page.texts[f"s0-{station}"], station


def test_what_is_shown_is_escaped(html, page):
    assert '"<b>not markup</b>" & co' in page.texts["s1-source"]
    assert "<b>not markup</b>" not in html


def test_a_function_without_a_backward_leaves_its_stations_out(artifacts):
    compiled = cutaway.compile(clipped)
    compiled(cutaway.randn(4, 5), cutaway.tensor(0.5))
    texts = Page(render([Specimen("clipped", compiled.artifacts[-1])])).texts
    assert "s0-joint" not in texts and "s0-cut" not in texts
    assert "s0-core" in texts and "s0-cpp" in texts


def test_markup_escapes_and_names_attributes():
    assert (
        el("a", "1 < 2", class_="x", data_x='"', hidden=False) == '<a class="x" data-x="&quot;">1 &lt; 2</a>'
    )
    assert text([None, "<", el("br")]) == "&lt;<br>"


@pytest.mark.parametrize("language", GRAMMARS)
def test_colouring_changes_no_text(language):
    source = '#x "y\nif a<b: "1 // 2" /* 3\n4 */ \'z\' 0x1F 1e-05f """a\nb""" @c LOAD_FAST 3 (x)\n\n'
    lines = coloured_lines(source, language)
    unescaped = [re.sub(r"<[^>]*>", "", line).replace("&lt;", "<").replace("&gt;", ">") for line in lines]
    assert "\n".join(unescaped) + "\n" == source.replace("&", "&amp;").replace("&amp;", "&")


def test_a_long_text_is_in_pieces_and_whole(artifacts):
    lines = [f"x{k} = {k} < {k + 1}" for k in range(250)]
    origins = Origins(artifacts[0])
    shown = code("\n".join(lines) + "\n", [()] * len(lines), origins)
    assert shown.count('class="later"') == 3 and 'style="--n:50"' in shown
    unescaped = re.sub(r"<[^>]*>", "", shown).replace("&lt;", "<").splitlines()
    assert unescaped == lines
    short = code("\n".join(lines[:200]) + "\n", [()] * 200, origins)
    assert "later" not in short
