"""The drawing of lab 19's page: what the processor and the link do in a step, under three schedules.

Input: the steps that the simulator makes of the reference's buckets.
"""

from __future__ import annotations

from ..drawings import head, svg
from .link import Link, Step, layers, simulate
from .overlap import all_reduce_time, in_buckets, schedule, without_overlap

LEFT, WIDTH, ROW = 110, 620, 26


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    gradients, backward = layers(12, 512)
    link, few, many = Link(8, 25, 6000), in_buckets(gradients, 1 << 22), in_buckets(gradients, 0)
    steps = {
        "without overlap": simulate([without_overlap(backward, few)] * 8, few, link, all_reduce_time),
        "a bucket for each gradient": simulate([schedule(backward, many)] * 8, many, link, all_reduce_time),
        "buckets of 4 MB": simulate([schedule(backward, few)] * 8, few, link, all_reduce_time),
    }
    longest, parts, y = max(step.time for step in steps.values()), [], 30
    for name, step in steps.items():
        parts.append(head(10, y, f"{name}: {step.time:,} microseconds, {step.hidden} % of the link hidden"))
        parts += lanes(step, longest, y + 10)
        y += 10 + 2 * ROW + 40
    return {"timeline.svg": svg("Three schedules of one step", LEFT + WIDTH + 20, y - 20, parts)}


def lanes(step: Step, longest: int, y: int) -> list[str]:
    """Two rows of boxes: the processor's, and the link's."""
    parts = [f'<text x="10" y="{y + 18}">processor</text>', f'<text x="10" y="{y + ROW + 18}">link</text>']
    for name, begin, end in step.spans[0]:
        parts.append(block("back" if name == "update" else "box", begin, end, longest, y))
    for begin, end in step.transfers.values():
        parts.append(block("box", begin, end, longest, y + ROW))
    return parts


def block(kind: str, begin: int, end: int, longest: int, y: int) -> str:
    x, width = LEFT + WIDTH * begin / longest, max(1.0, WIDTH * (end - begin) / longest)
    return f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}"/>'
