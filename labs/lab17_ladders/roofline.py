"""The rungs, as measured on this machine, under the roofline, as an SVG drawing and a table.

Input: the bodies of ladders.py. A kernel is no faster than its bytes (a copy's bytes a second: the slopes) nor than its
arithmetic (a BLAS product's operations a second: the flat part). Times are of this machine, today, and decide nothing.
"""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.profiler.peaks import least_seconds_of, measured_peaks

from .kernels import count, prepared, run

# What is measured, and a small problem of the same kind that is counted.
TIMED = {"softmax": [(512, 1000)], "matmul": [(256, 256), (256, 256)], "attention": [(256, 64)] * 3}
SMALL = {"softmax": [(6, 1000)], "matmul": [(32, 48), (48, 40)], "attention": [(48, 16)] * 3}
LEFT, TOP, WIDTH, HEIGHT = 70, 40, 620, 380
COLOURS = {"softmax": "#2a7f62", "matmul": "#3f5fb0", "attention": "#b0553f"}
STYLE = """text { font: 13px monospace; fill: #222; } svg { background: #fff; }
.roof { stroke: #888; fill: none; stroke-width: 2; }
.grid { stroke: #ddd; } @media (prefers-color-scheme: dark) { svg { background: #16191d; } text { fill: #e6e6e6; }
.grid { stroke: #333; } }"""


@dataclass(frozen=True)
class Rung:
    """One measured version: operations a byte, and operations a second."""

    ladder: str
    version: int
    intensity: float
    seconds: float
    rate: float


def drawn(shapes: list[tuple[int, int]]) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in shapes)


def operations(ladder: str, arrays: tuple[np.ndarray, ...]) -> int:
    """What the ladder has to compute, in any version: the same for all, so that a rate says which is faster."""
    rows, columns = arrays[0].shape
    if ladder == "softmax":
        return 5 * rows * columns
    return 2 * rows * columns * arrays[1].shape[1] if ladder == "matmul" else 4 * rows * rows * columns


def measure(ladders: Any) -> list[Rung]:
    """All rungs that are written."""
    found = []
    for ladder, versions in ladders.RUNGS.items():
        arrays = drawn(TIMED[ladder])
        for version in range(1, versions + 1):
            try:
                body = getattr(ladders, f"{ladder}_{version}")()
            except NotImplementedError:
                continue
            run(ladder, body, drawn(SMALL[ladder]))
            found.append(
                rung(ladder, version, body, least_seconds_of(prepared(ladder, body, arrays), during=0.1))
            )
    return found


def rung(ladder: str, version: int, body: str, seconds: float) -> Rung:
    """A version that took so many seconds, with what is counted of it."""
    arrays, small = drawn(TIMED[ladder]), drawn(SMALL[ladder])
    intensity = operations(ladder, small) / (64 * count(ladder, body, small).misses)
    return Rung(ladder, version, intensity, seconds, operations(ladder, arrays) / seconds)


def table(rungs: list[Rung]) -> list[str]:
    lines = [f"{'rung':14}{'operations/byte':>16}{'milliseconds':>14}{'GFLOP/s':>10}"]
    return lines + [
        f"{r.ladder} {r.version:<{13 - len(r.ladder)}}{r.intensity:>16.2f}{r.seconds * 1e3:>14.3f}{r.rate / 1e9:>10.2f}"
        for r in rungs
    ]


def picture(rungs: list[Rung], slopes: tuple[float, ...], flops: float) -> str:
    """The rungs under the roof, both axes logarithmic. The drawing has what was measured in it, for `redrawn`."""
    low, high = -5, 6  # powers of two, operations a byte
    top = math.ceil(math.log10(flops))
    bottom = top - 4

    def at(intensity: float, rate: float) -> tuple[float, float]:
        x = LEFT + WIDTH * (math.log2(intensity) - low) / (high - low)
        y = TOP + HEIGHT * (top - math.log10(max(rate, 10.0**bottom))) / (top - bottom)
        return round(min(max(x, LEFT), LEFT + WIDTH), 1), round(y, 1)

    parts = []
    for power in range(low, high + 1):
        x, y = at(2.0**power, 10.0**bottom)
        parts += [
            line("grid", (x, TOP), (x, y)),
            words(x - 12, y + 18, str(2**power) if power >= 0 else f"1/{2**-power}"),
        ]
    for power in range(bottom, top + 1):
        x, y = at(2.0**low, 10.0**power)
        parts += [line("grid", (x, y), (x + WIDTH, y)), words(6, y + 4, f"{10.0 ** (power - 9):g}")]
    for bandwidth in slopes:
        ends = (2.0**low, flops / bandwidth, 2.0**high)
        parts.append(line("roof", *(at(end, min(flops, bandwidth * end)) for end in ends)))
    for rung in rungs:
        x, y = at(rung.intensity, rung.rate)
        parts += [dot(x, y, COLOURS[rung.ladder], 9), words(x - 4, y + 5, str(rung.version), "fill: #fff")]
    for k, (ladder, colour) in enumerate(COLOURS.items()):
        x = LEFT + 30 + 150.0 * k
        parts += [dot(x, TOP - 20, colour, 7), words(x + 14, TOP - 15, ladder)]
    parts.append(
        words(LEFT + 60, TOP + HEIGHT + 40, "operations for each byte that the small cache misses (counted)")
    )
    parts.append(words(4, TOP - 15, "GFLOP/s"))
    title = "The measured rungs under the roofline of this machine"
    kept = {"copies": slopes, "flops": flops, "seconds": [[r.ladder, r.version, r.seconds] for r in rungs]}
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {TOP + HEIGHT + 55}" role="img">'
        f"<title>{title}</title><metadata>{html.escape(json.dumps(kept), quote=False)}</metadata>"
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def redrawn(drawing: str, ladders: Any) -> str:
    """The drawing as it would be made now of the times in it: its counts, its rungs and its looks are today's."""
    found = re.search("<metadata>(.*?)</metadata>", drawing)
    if found is None:
        raise ValueError("roofline.svg has no times in it; expected <metadata>: measure anew")
    kept = json.loads(html.unescape(found[1]))
    times = {(ladder, version): seconds for ladder, version, seconds in kept["seconds"]}
    wanted = [(ladder, k) for ladder, versions in ladders.RUNGS.items() for k in range(1, versions + 1)]
    if set(times) != set(wanted):
        raise ValueError(f"roofline.svg has the times of {sorted(times)}; expected {wanted}: measure anew")
    rungs = [rung(*key, getattr(ladders, f"{key[0]}_{key[1]}")(), times[key]) for key in wanted]
    return picture(rungs, tuple(kept["copies"]), kept["flops"])


def line(kind: str, *points: tuple[float, float]) -> str:
    return f'<path class="{kind}" d="M{" L".join(f"{x},{y}" for x, y in points)}"/>'


def dot(x: float, y: float, colour: str, radius: int) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>'


def words(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{text}</text>'


def main(ladders: Any) -> None:
    """Measure, print a table, and write roofline.svg beside ladders.py."""
    peaks, rungs = measured_peaks(), measure(ladders)
    print("\n".join(table(rungs)))
    fast = max(speed for _, speed in peaks.copies)  # of a copy that fits a cache
    flops = max([peaks.flops_of("float32"), *(rung.rate for rung in rungs)])
    path = Path(ladders.__file__).parent / "roofline.svg"
    path.write_text(picture(rungs, (peaks.memory, fast), flops), encoding="utf-8")
    blas = peaks.flops_of("float32") / 1e9
    print(
        f"a copy moves {peaks.memory / 1e9:.1f} GB/s, in a cache {fast / 1e9:.1f}; BLAS computes {blas:.0f} GFLOP/s"
    )
    print(f"wrote {path.name}")
