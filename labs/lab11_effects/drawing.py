"""The drawing of lab 11's page: a list and an object before the call, what was written down, and both afterwards.

Input: the effects that the reference keeps of the page's function, and the lines that it writes.
"""

from __future__ import annotations

from typing import Any

import cutaway

from ..drawings import box, head, height_of, path, svg
from .effects import compiled
from .functions import Box

WIDTH, GAP = 250, 50


def train_step(x: Any, log: Any, state: Any) -> Any:
    loss = (x * 2).sum()
    log.append(loss)
    state.steps = state.steps + 1
    state.last = loss
    return loss * 10


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    run = compiled(train_step)
    log: list[Any] = []
    state: Any = Box(steps=7, last=None)
    before = [f"log    {log}", f"state  {vars(state)}"]
    run(cutaway.ones(3), log, state)
    kept = [f"{variable.source} held {held}" for variable, held in run.effects.changed]  # type: ignore[attr-defined]
    lines = [line.strip() for line in run.source.splitlines()[1:]]  # type: ignore[attr-defined]
    changes = [line for line in lines if line.startswith("v") and not line.split(" = ")[0].isidentifier()]
    after = [f"log    [loss]  ({len(log)} item)", f"state  steps {state.steps}, last loss"]
    parts, y = [], 30
    for title, words, kind in (
        ("outside, before the call", before, "box"), ("capture writes down", kept, "back"),
        ("after the graph, these lines run", changes, "back"), ("outside, after the replay", after, "box"),
    ):  # fmt: skip
        parts += [head(20, y, title), box(20, y + 12, 400, words, kind)]
        y += 12 + height_of(words)
        if title != "outside, after the replay":
            parts.append(path("arrow", (40, y), (40, y + GAP - 26)))
        y += GAP
    return {
        "replay.svg": svg("Side effects are written down, and replayed after the graph", 440, y - 30, parts)
    }
