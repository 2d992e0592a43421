"""A predicted step as a drawing: what the processor computes, and below it each bucket on the link.

Input: a Step of cost.py and the seconds of its forward and its optimizer. Gives SVG, which a browser opens.
"""

from __future__ import annotations

from html import escape

from cutaway.distributed.cost import Step

WIDTH, LEFT, ROW, GAP = 900, 90, 34, 14
COLOURS = {
    "forward": "#4c78a8",
    "backward": "#f58518",
    "optimizer": "#54a24b",
    "bucket": "#b279a2",
    "ready": "#888",
}


def draw(step: Step, forward: float, optimizer: float, title: str) -> str:
    """One row for computing and one for the link; a dotted line where a bucket's last gradient is there."""
    scale = (WIDTH - LEFT - 20) / step.seconds
    computed = step.seconds - optimizer
    parts = [
        ("forward", 0.0, forward),
        ("backward", forward, computed),
        ("optimizer", computed, step.seconds),
    ]
    lines = [_bar(name, start, end, 0, scale) for name, start, end in parts if end > start]
    for number, bar in enumerate(step.bars):
        at = LEFT + bar.bucket.ready * scale
        lines.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{40 + 2 * ROW + GAP}" stroke="{COLOURS["ready"]}" '
                     'stroke-dasharray="2 3"/>')  # fmt: skip
        words = f"bucket {number}: {bar.bucket.nbytes / 1e6:.1f} MB"
        lines.append(_bar("bucket", bar.start, bar.end, 1, scale, words, str(number)))
    height = 40 + 2 * ROW + GAP + 34
    end = f"{step.seconds * 1e3:.1f} ms; {step.hidden:.0%} of {step.moved * 1e3:.1f} ms on the link is hidden"
    rows = "".join(
        f'<text x="8" y="{40 + k * (ROW + GAP) + 21}">{name}</text>'
        for k, name in enumerate(("compute", "link"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="13"><title>{escape(title)}</title>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>{rows}{"".join(lines)}'
        f'<text x="{LEFT}" y="{height - 10}">{end}</text></svg>'
    )


def _bar(
    kind: str, start: float, end: float, row: int, scale: float, words: str = "", label: str = ""
) -> str:
    y, wide = 40 + row * (ROW + GAP), max(1.0, (end - start) * scale)
    words = f"{words or kind}, {start * 1e3:.2f} to {end * 1e3:.2f} ms"
    text = label or (kind if wide > 60 else "")
    return (
        f'<rect x="{LEFT + start * scale:.1f}" y="{y}" width="{wide:.1f}" height="{ROW}" fill="{COLOURS[kind]}" '
        f'stroke="#fff"><title>{words}</title></rect>'
        + (
            f'<text x="{LEFT + start * scale + 5:.1f}" y="{y + 21}" fill="#fff">{text}</text>'
            if wide > 14
            else ""
        )
    )
