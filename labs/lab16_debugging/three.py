"""Program three: a gated layer with a residual. `python -m lab16_debugging.three` prints its result."""

from __future__ import annotations

from typing import Any

import cutaway

from .broken import show

F = cutaway.nn.functional


def inputs() -> list[Any]:
    cutaway.manual_seed(3)
    return [cutaway.randn(5, 12), cutaway.randn(24, 12), cutaway.randn(24, 12), cutaway.randn(12, 24)]


def program(rows: Any, up: Any, gate: Any, down: Any) -> Any:
    normed = rows * (rows.square().mean(1, keepdim=True) + 1e-5).rsqrt()
    wide = F.linear(normed, up)
    open_ = F.linear(normed, gate)
    gated = wide * open_.sigmoid()
    back = F.linear(gated, down)
    total = rows + back.clamp(-2, 2)
    bounded = total.tanh()
    centred = bounded - bounded.mean(1, keepdim=True)
    return centred.exp().sum(1)


if __name__ == "__main__":
    show(program, inputs)
