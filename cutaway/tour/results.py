"""The results of a training run: the numbers that the table and the page show. It is only data.

Input: train.py fills it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Mistake:
    """A held-out digit that was classified wrongly: its 64 pixels (0 to 16), its label, and the prediction."""

    pixels: np.ndarray
    label: int
    predicted: int


@dataclass(frozen=True)
class TourResult:
    """One training run. Times are medians over steps of one run, compiled and eager in turn."""

    accuracy: float  # on the held-out digits, 0 to 1
    held_out: int
    steps: int
    losses: tuple[float, ...]  # one per step
    eager_ms: float
    compiled_ms: float
    compile_s: float
    kernels: int
    graph_breaks: int
    seconds: float  # of the whole run
    device: str = "cpu"
    note: str = ""  # one line if something ran in another way than requested
    mistakes: tuple[Mistake, ...] = field(default=())

    @property
    def ratio(self) -> float:
        """How many times as fast the compiled step was."""
        return self.eager_ms / self.compiled_ms
