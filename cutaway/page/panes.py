"""A pane: one artifact's text, line by line, each line with the ids of the expressions it came from.

Input: the text exactly as the artifact prints, one tuple of ids per line, the language to colour it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutaway.page.colours import coloured_lines
from cutaway.page.markup import Html, el, join
from cutaway.page.origins import HUES, Ids, Origins

PIECE = 100  # lines of a long text that become elements together, when the reader comes near (later.js)
STRIPES = 5  # colours shown in a line's gutter; a line with more origins shows its first ones


def gutter(ids: Ids, origins: Origins) -> str:
    """The class that paints a line's gutter: `g` and the hue numbers, such as `g03`."""
    hues = dict.fromkeys(origins.hue[name] for name in ids if name in origins.hue)
    return "g" + "".join(map(str, list(hues)[:STRIPES])) if hues else ""


def hue_class(ids: Ids, origins: Origins) -> str:
    """The class that sets an element's colour: that of its first origin that has one."""
    return next((f"c{origins.hue[name]}" for name in ids if name in origins.hue), "")


def gutter_rules(used: Iterable[str]) -> str:
    """The style sheet's part for the gutters of one page."""
    rules = []
    for name in sorted(set(used) - {""}):
        stops = [f"var(--h{hue}) {3 * k}px {3 * k + 3}px" for k, hue in enumerate(name[1:])]
        rules.append(f".{name}{{--g:linear-gradient(90deg,{','.join(stops)},transparent 0)}}")
    return "\n".join(rules)


def marked(
    name: str, *children: Any, ids: Ids, origins: Origins, class_: str = "", **attributes: Any
) -> Html:
    """An element that lights up with its origins."""
    classes = " ".join(filter(None, [class_, gutter(ids, origins)]))
    return el(name, *children, class_=classes, data_origins=" ".join(ids), **attributes)


def code(
    source: str, ids: Sequence[Ids], origins: Origins, language: str = "python", turn: int | None = None
) -> Html:
    """The text as lines. Line breaks are inside the lines, so that what is copied is the text itself.

    turn: the number of the line from which on it is the backward; a rule is drawn above it.
    """
    lines = coloured_lines(source, language)
    if len(lines) != len(ids):
        raise AssertionError(f"internal error: {len(lines)} lines of text, origins for {len(ids)}")
    shown = [
        marked("span", line, "\n", ids=here, origins=origins, class_="ln turn" if number == turn else "ln")
        for number, (line, here) in enumerate(zip(lines, ids, strict=True))
    ]
    return el("pre", el("code", _pieces(shown)), class_=f"code {language}", tabindex="0")


def _pieces(lines: list[Html]) -> Html:
    """The lines of a short text; of a long one, pieces that the browser reads as text until they are looked at."""
    if len(lines) <= 2 * PIECE:
        return Html("".join(lines))
    parts = [lines[k : k + PIECE] for k in range(0, len(lines), PIECE)]
    return Html("".join(
        el("span", el("noscript", Html("".join(part))), class_="later", style=f"--n:{len(part)}") for part in parts
    ))  # fmt: skip


def pane(title: Any, body: Any, note: Any = None, **attributes: Any) -> Html:
    """A titled frame around one artifact."""
    head = el("figcaption", el("b", title), el("span", note) if note else None)
    return el("figure", head, body, class_="pane", **attributes)


def tabs(name: str, panes: Sequence[tuple[str, Any, Html]]) -> Html:
    """Panes that take turns: (title, note, body) each. Without JavaScript all show, one below another."""
    if len(panes) == 1:
        return pane(panes[0][0], panes[0][2], panes[0][1])
    buttons = [
        el(
            "button", title, el("small", note, class_="note"), el("small", class_="lit-count"),
            type="button", role="tab", aria_selected="true" if k == 0 else "false",
            aria_controls=f"{name}-{k}", id=f"{name}-{k}-tab",
        )
        for k, (title, note, _) in enumerate(panes)
    ]  # fmt: skip
    bodies = [
        el("div", body, role="tabpanel", id=f"{name}-{k}", aria_labelledby=f"{name}-{k}-tab", class_="panel")
        for k, (_, _, body) in enumerate(panes)
    ]
    return el("figure", el("figcaption", *buttons, role="tablist"), *bodies, class_="pane tabs")


def facts(*items: tuple[Any, str]) -> Html:
    """`12 instructions · 5 guards`: a line of numbers with what they count."""
    return join(
        Html('<span class="dot"> · </span>'), [el("span", el("b", n), " ", what) for n, what in items]
    )


__all__ = ["HUES", "code", "facts", "gutter", "gutter_rules", "hue_class", "marked", "pane", "tabs"]
