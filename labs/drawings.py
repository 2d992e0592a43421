"""What the labs' drawings share: boxes with text, arrows, and colours for light and dark, as SVG text.

Input: places in pixels and words, from a lab's drawing.py, which takes them from real artifacts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
text { font: 14px monospace; fill: #222; white-space: pre; }
.head { font-weight: bold; }
.box { fill: #eef3fb; stroke: #5577aa; }
.back { fill: #fbf1e6; stroke: #b07030; }
.frame { fill: none; stroke: #b03060; stroke-width: 2; }
.arrow { stroke: #888; fill: none; }
.cross { stroke: #b03060; stroke-width: 2; fill: none; }
svg { background: #fff; }
@media (prefers-color-scheme: dark) {
svg { background: #16191d; }
text { fill: #e6e6e6; }
.box { fill: #22324a; }
.back { fill: #45311f; }
.cross, .frame { stroke: #ff7aa8; }
.arrow { stroke: #999; }
}
"""
LINE = 20  # of text


def svg(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """A whole drawing."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>", "",
    ])  # fmt: skip


def box(x: int, y: int, width: int, lines: Sequence[str], kind: str = "box") -> str:
    """A box with lines of text. Its height is `height_of(lines)`."""
    texts = (
        f'<text x="{x + 10}" y="{y + LINE * (k + 1)}">{escape(line)}</text>' for k, line in enumerate(lines)
    )
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height_of(lines)}" rx="5"/>'
        + "".join(texts)
    )


def height_of(lines: Sequence[str]) -> int:
    return LINE * len(lines) + 10


def head(x: int, y: int, text: str) -> str:
    return f'<text class="head" x="{x}" y="{y}">{escape(text)}</text>'


def path(kind: str, *points: tuple[int, int]) -> str:
    """A line of class `kind` through points; four points are a curve."""
    (x, y), *rest = points
    turns = " ".join(f"{a},{b}" for a, b in rest)
    return f'<path class="{kind}" d="M{x},{y} {"C" if len(points) == 4 else "L"}{turns}"/>'
