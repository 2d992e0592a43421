"""Program one: a network that looks at differences between two pictures. `python -m lab16_debugging.one` runs it."""

from __future__ import annotations

from typing import Any

import cutaway

from .broken import show

F = cutaway.nn.functional


def inputs() -> list[Any]:
    cutaway.manual_seed(1)
    return [cutaway.randn(6, 8), cutaway.randn(6, 8), cutaway.randn(4, 8), cutaway.randn(4)]


def program(picture: Any, background: Any, weight: Any, bias: Any) -> Any:
    difference = picture - background
    strength = (-difference).abs()
    skewed = (-difference) ** 3 / 10
    kept = difference - (-skewed)
    steps = (kept * strength).floor()
    return F.linear(steps, weight, bias).sum(1)


if __name__ == "__main__":
    show(program, inputs)
