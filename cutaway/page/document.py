"""The page as a whole: its head, the machine in miniature, your source, and every station below.

Input: compiled functions that ran at least once, and what the head of the page shows beside the title. Output: one
HTML file with its style and script inside, which loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.artifacts import Artifacts
from cutaway.page.guide import guide
from cutaway.page.markup import Html, el, text
from cutaway.page.origins import HUES, Origins
from cutaway.page.panes import gutter_rules
from cutaway.page.source_pane import source_pane
from cutaway.page.stations import STAGES, STATIONS, View
from stage_contracts.breaks import Unsupported

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Specimen:
    """One compiled function to cut open: a title for its tab, and its artifacts."""

    title: str
    artifacts: Artifacts


def emit_for_both_targets(artifacts: Artifacts) -> None:
    """C++ and Triton source for each half, whichever ran. What a target refuses is not shown."""
    for half in ("forward", "backward"):
        for target in ("cpp", "triton"):
            if getattr(artifacts, half) is not None:
                try:
                    artifacts.emit(half, target)
                except Unsupported:
                    continue


def write_page(
    path: Path,
    specimens: Sequence[Specimen],
    head: Html | None = None,
    *,
    site: bool = False,
    both: bool = False,
) -> int:
    """Write the page and return its size in bytes. site: it stands among the site's pages; both: side by side."""
    page = render(specimens, head, site=site, both=both)
    path.write_text(page, encoding="utf-8")
    return len(page.encode())


def render(
    specimens: Sequence[Specimen], head: Html | None = None, *, site: bool = False, both: bool = False
) -> str:
    """The page as text."""
    if not specimens:
        raise ValueError(
            "the page needs at least one compiled function that ran, but got none; call one first"
        )
    shown = [_specimen(f"s{k}", specimen, site) for k, specimen in enumerate(specimens)]
    body = text([_top(head), _choice(specimens, both), el("div", *shown, class_="floors"), _footer()])
    parts = {
        "<!--style-->": el("style", Html(_read("page.css") + _hue_rules() + gutter_rules(_gutters(body)))),
        "<!--body-->": body,
        "<!--script-->": el("script", Html(_read("later.js") + _read("page.js"))),
    }
    page = _read("page.html")
    for mark, part in parts.items():
        page = page.replace(mark, part)
    return page


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _gutters(body: str) -> set[str]:
    """The gutter classes that a page uses."""
    import re

    return {word for classes in re.findall(r'class="([^"]*)"', body) for word in classes.split()
            if re.fullmatch(rf"g[0-{HUES - 1}]+", word)}  # fmt: skip


def _hue_rules() -> str:
    return "".join(f".c{hue}{{--c:var(--h{hue})}}\n" for hue in range(HUES))


# ---- parts -------------------------------------------------------------------------------------


def _top(head: Html | None) -> Html:
    words = (
        "This page is one Python function on its way through a compiler, cut open at every stage. Point at "
        "any line: everything it came from and everything it became lights up. Click to keep it lit."
    )
    title = el("h1", el("span", "Cutaway"), ": one function, cut open")
    return el(
        "header",
        el("div", title, el("p", words, class_="lede")),
        head,
        class_="top",
    )


def _choice(specimens: Sequence[Specimen], both: bool) -> Html | None:
    if len(specimens) == 1:
        return None
    buttons = [
        el("button", s.title, type="button", role="tab", data_specimen=f"s{k}",
           aria_selected="true" if k == 0 else "false")
        for k, s in enumerate(specimens)
    ]  # fmt: skip
    tabs = el("div", *buttons, role="tablist", aria_label="the function to look at")
    beside = el(
        "button", "side by side", type="button", class_="beside", aria_pressed="true" if both else "false"
    )
    return el("nav", tabs, beside, class_="choice", aria_label="which functions")


def _specimen(name: str, specimen: Specimen, site: bool) -> Html:
    view = View(name, specimen.artifacts, Origins(specimen.artifacts))
    drawn = [(station, station.draw(view)) for station in STATIONS]
    kept: list[tuple[Any, tuple[Html, Html]]] = [(s, d) for s, d in drawn if d is not None]
    stages = []
    for key, (number, title, words) in STAGES.items():
        stations = [_station(view, s, d, site) for s, d in kept if s.stage == key]
        if stations:
            head = el("h2", el("span", number), title, el("small", words))
            stages.append(el("section", head, *stations, class_="stage", id=f"{name}-{key}"))
    hint = el(
        "p", "Each colour is one expression of yours. ", el("kbd", "↑"), el("kbd", "↓"), " walk the source, ",
        el("kbd", "←"), el("kbd", "→"), " the stations, ", el("kbd", "Esc"), " lets go.", class_="hint",
    )  # fmt: skip
    aside = el(
        "aside",
        el("h2", specimen.title, class_="of"),
        source_pane(specimen.artifacts, view.origins),
        el("div", class_="guide-here"),
        hint,
        class_="python",
        id=f"{name}-source",
        aria_label=f"{specimen.title}: source",
    )
    floor = el("div", aside, el("div", *stages, class_="stages"), class_="floor")
    read = " ".join(n for n in view.origins.by_id if n not in view.origins.hue)
    machine = _machine(name, [s for s, _ in kept])
    return el("main", machine, floor, class_="specimen", id=name, data_read=read or " ")


def _machine(name: str, stations: list[Any]) -> Html:
    """The miniature: a shaft through four chambers, a bead on it for each station."""
    python = el("a", el("b"), "source", href=f"#{name}-source", class_="bead", data_station="source")
    chambers = [el("div", el("span", "Python"), el("div", python, class_="beads"), class_="chamber open")]
    for key, (number, title, _) in STAGES.items():
        beads = [
            el("a", el("b"), s.label, href=f"#{name}-{s.key}", class_="bead", data_station=s.key)
            for s in stations
            if s.stage == key
        ]
        if beads:
            label = el("span", el("b", number), title)
            chambers.append(el("div", label, el("div", *beads, class_="beads"), class_="chamber"))
    return el("nav", el("div", *chambers, class_="shaft"), class_="machine", aria_label="the machine")


def _station(view: View, station: Any, drawn: tuple[Html, Html], site: bool) -> Html:
    facts, body = drawn
    head = el("header", el("h3", station.title), el("p", facts, class_="facts") if facts else None)
    return el(
        "article", head, el("p", station.words, class_="words"), guide(station.key, site), body,
        class_="station", id=f"{view.name}-{station.key}", data_station=station.key,
    )  # fmt: skip


def _footer() -> Html:
    from cutaway.version import __version__

    words = f"Written by Cutaway, version {__version__}, from what the compiler kept of its own work."
    return el("footer", el("p", words))
