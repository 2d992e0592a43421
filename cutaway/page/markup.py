"""HTML as function calls: `el("a", "1 < 2", href="#x")`. What is not already HTML is escaped, and tags
balance.

Input: text, numbers, other elements. Attribute names may end in an underscore (class_) and write data_x
as data-x.
"""

from __future__ import annotations

from html import escape
from typing import Any

_VOID = {"br", "meta", "link", "hr"}  # elements that have no end tag; SVG's own are always closed


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def text(value: Any) -> Html:
    """One child: HTML as it is, None as nothing, lists in order, anything else escaped."""
    if isinstance(value, Html):
        return value
    if value is None or value is False:
        return Html("")
    if isinstance(value, (list, tuple)):
        return Html("".join(map(text, value)))
    return Html(escape(str(value), quote=False))


def el(name: str, *children: Any, **attributes: Any) -> Html:
    """One element. An attribute that is None or False is left out; True writes its bare name."""
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False and value != "":
            words.append(f'{key}="{escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Html(opening if name in _VOID else f"{opening}{text(list(children))}</{name}>")


def join(separator: Any, items: list[Any]) -> Html:
    """Children with a separator between them."""
    return Html(text(separator).join(map(text, items)))


def number(value: float, unit: str = "") -> str:
    """Three significant digits and thousands with a thin space: 0.412, 18.3, 1 437."""
    if isinstance(value, int) or value >= 100 or value == int(value):
        shown = f"{round(value):,}".replace(",", "\u2009")
    else:
        shown = f"{value:.3g}"
    return f"{shown}\u202f{unit}" if unit else shown


def bytes_text(count: Any) -> str:
    """512 B, 32 KB, 1.5 MB (powers of 1024); of an open size the formula, 24*s0 B."""
    if not isinstance(count, int | float):
        return f"{count}\u202fB"
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return number(count / size, unit)
    return number(int(count), "B")


def milliseconds(nanoseconds: float) -> str:
    return number(nanoseconds / 1e6, "ms") if nanoseconds >= 1e5 else number(nanoseconds / 1e3, "µs")
