"""The drawing of lab 15's page: the CPU's time for a program of twelve kernels, eager and replayed.

Input: what the simulated GPU counts.
"""

from __future__ import annotations

import numpy as np

from ..drawings import head, svg
from .cudagraphs import graphed
from .device import LAUNCH, Device, Program, Step, run_eagerly

LEFT = 110


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    steps = [Step("relu", f"a{k + 1}", (f"a{k}",)) for k in range(12)]
    program = Program(tuple(steps), ("a0",), ("a12",))
    device = Device()
    x = device.alloc(np.ones((2, 2)))
    run_eagerly(device, program, {"a0": x})
    eager = device.cpu_time
    run = graphed(device, program)
    run(x)
    before = device.cpu_time
    run(x)
    parts = [head(LEFT, 30, f"the CPU's time, in calls of {LAUNCH} microseconds")]
    parts += row(50, "eager", eager, ["launch"] * 12)
    parts += row(100, "replayed", device.cpu_time - before, ["copy", "replay", "copy"])
    return {
        "time.svg": svg(
            "Twelve launches take 120 microseconds, a replay 30", LEFT + eager * 5 + 80, 150, parts
        )
    }


def row(y: int, name: str, time: int, words: list[str]) -> list[str]:
    width = LAUNCH * 6
    parts = [f'<text x="10" y="{y + 22}">{name}</text>']
    for k, word in enumerate(words):
        kind = "box" if word == "launch" else "back"
        x = LEFT + k * (width - 8)
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width - 12}" height="34" rx="4"/>')
        parts.append(f'<text x="{x + 3}" y="{y + 22}" style="font-size: 11px">{word}</text>')
    parts.append(f'<text x="{LEFT + len(words) * (width - 8) + 10}" y="{y + 22}">{time}</text>')
    return parts
