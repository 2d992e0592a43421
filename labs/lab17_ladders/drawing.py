"""The drawing of lab 17's page: loads, stores and the longest chain of each version of softmax, as bars.

Input: what the counting kernels count. Of roofline.svg the measured times stay; the rest is made anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..drawings import head, svg
from . import ladders, roofline
from .kernels import count

LEFT, WIDTH, STEP = 110, 150, 34
COLUMNS = ("loads", "stores", "longest chain")


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    arrays = (np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32),)
    rows = []
    for version in range(1, ladders.RUNGS["softmax"] + 1):
        found = count("softmax", getattr(ladders, f"softmax_{version}")(), arrays)
        rows.append((sum(found.loads), sum(found.stores), found.depth))
    parts = [head(LEFT + k * (WIDTH + 50), 26, name) for k, name in enumerate(COLUMNS)]
    for number, row in enumerate(rows):
        y = 40 + number * STEP
        parts.append(f'<text x="10" y="{y + 20}">softmax {number + 1}</text>')
        for k, value in enumerate(row):
            x, most = LEFT + k * (WIDTH + 50), max(other[k] for other in rows)
            width = WIDTH * value // most
            parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{STEP - 8}" rx="3"/>')
            parts.append(f'<text x="{x + 6}" y="{y + 19}">{value}</text>')
    width, height = LEFT + 3 * (WIDTH + 50), 50 + STEP * len(rows)
    counts = svg("Each version loads, stores or waits less", width, height, parts)
    measured = Path(__file__).with_name("roofline.svg").read_text(encoding="utf-8")
    return {"counts.svg": counts, "roofline.svg": roofline.redrawn(measured, ladders)}
