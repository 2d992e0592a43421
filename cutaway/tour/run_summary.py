"""The head of the page: how the training went, in numbers, as a curve, and as the digits it still gets wrong.

Input: the TourResult of this run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutaway.page.markup import Html, el, number

if TYPE_CHECKING:
    import numpy as np

    from cutaway.tour.results import Mistake, TourResult

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_SHOWN_MISTAKES = len(_WORDS)


def run_summary(run: TourResult) -> Html:
    figures = [
        (f"{run.accuracy:.1%}", f"of {run.held_out} held-out digits read correctly"),
        (number(run.compiled_ms, "ms"), f"a training step, compiled; {number(run.eager_ms, 'ms')} eager"),
        (f"{run.ratio:.1f}×", "faster, measured in turn in this run"),
        (
            number(run.kernels),
            f"kernels, compiled in {number(run.compile_s, 's')}; {_breaks(run.graph_breaks)}",
        ),
    ]
    cells = [el("div", el("dt", what), el("dd", value)) for value, what in figures]
    curve = el(
        "figure", _curve(run.losses), el("figcaption", f"Loss over {number(run.steps)} steps"), class_="curve"
    )
    wrong = [_digit(m) for m in run.mistakes[:_SHOWN_MISTAKES]]
    mistakes = el("figure", el("div", *wrong), el("figcaption", _wrong_words(run)), class_="mistakes")
    note = el("p", run.note, class_="note") if run.note else None
    return el("section", el("dl", *cells), curve, mistakes if wrong else None, note, class_="run")


def _breaks(count: int) -> str:
    return "no graph break" if count == 0 else f"{count} graph break{'s' * (count != 1)}"


def _wrong_words(run: TourResult) -> str:
    count = len(run.mistakes)
    if count <= len(_WORDS):
        return f"The {_WORDS[count - 1]} it got wrong"
    return f"{_WORDS[_SHOWN_MISTAKES - 1].capitalize()} of the {count} it got wrong"


def _curve(losses: tuple[float, ...], width: int = 220, height: int = 56) -> Html:
    """The losses on a logarithmic axis, averaged over neighbours so that the trend is what is seen."""
    points = min(len(losses), 110)
    means = [
        sum(part) / len(part)
        for part in (
            losses[k * len(losses) // points : (k + 1) * len(losses) // points] for k in range(points)
        )
        if part
    ]
    logs = [math.log(max(v, 1e-4)) for v in means] or [0.0]
    low, span = min(logs), max(max(logs) - min(logs), 1e-9)
    places = [
        f"{k * width / max(len(logs) - 1, 1):.1f},{3 + (height - 6) * (1 - (v - low) / span):.1f}"
        for k, v in enumerate(logs)
    ]
    label = f"training loss, from {means[0]:.2f} to {means[-1]:.3f}" if means else "training loss"
    return el(
        "svg",
        el("polyline", points=" ".join(places)),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=label,
    )


def _digit(mistake: Mistake) -> Html:
    words = f"a {mistake.label}, taken for a {mistake.predicted}"
    label = el("span", el("b", mistake.label), " → ", mistake.predicted)
    return el("span", _pixels(mistake.pixels, words), label, class_="digit", title=words)


def _pixels(pixels: np.ndarray, words: str) -> Html:
    dots = [
        el("rect", x=k % 8, y=k // 8, width="1.02", height="1.02", opacity=f"{int(v) / 16:.2f}")
        for k, v in enumerate(pixels)
        if v
    ]
    return el("svg", *dots, viewBox="0 0 8 8", role="img", aria_label=words)
