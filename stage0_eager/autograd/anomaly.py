"""Anomaly detection: shows the lines of the forward call whose backward made a NaN.

Input: the tape calls `watching()` when it makes a node, and after each step of the backward pass. When off, this costs
one read of a global; when on, every node stores where it was made.
"""

from __future__ import annotations

import traceback
import warnings
from contextlib import ContextDecorator
from typing import Any

import numpy as np

WATCH: dict[str, bool] = {}  # empty when off: then a node costs one read of a global


class set_detect_anomaly(ContextDecorator):
    """`set_detect_anomaly(True)` takes effect immediately, for all threads. As a context manager, it restores the mode.

    While it is on, an error or a NaN in the backward is reported with the lines of its forward call. This is slow.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.previous = dict(WATCH)
        self._set({"nan": check_nan} if mode else {})

    @staticmethod
    def _set(state: dict[str, bool]) -> None:
        WATCH.clear()
        WATCH.update(state)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._set(self.previous)


class detect_anomaly(set_detect_anomaly):
    """The same as set_detect_anomaly(True), for a block."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    return bool(WATCH)


def is_anomaly_check_nan_enabled() -> bool:
    return WATCH.get("nan", True)


def here() -> str:
    """The stack of the call that is being recorded, without the frames of this package."""
    own = __file__.rpartition("/")[0]
    frames = [
        f for f in traceback.extract_stack() if not f.filename.startswith(own) or "/tests/" in f.filename
    ]
    return "".join(traceback.format_list(frames))


def report(node: Any) -> None:
    """Warn, with the place where `node` was recorded."""
    where = getattr(node, "where", "") or "  (recorded while anomaly detection was off)\n"
    warnings.warn(
        f"Error detected in {node!r}. Traceback of forward call that caused the error:\n{where}", stacklevel=2
    )


def check(node: Any, results: list) -> None:
    """Raise RuntimeError if a gradient that `node` returned has a NaN."""
    if not WATCH.get("nan"):
        return
    for i, g in enumerate(results):
        data: Any = getattr(g, "_data", None)
        if hasattr(data, "__array_interface__") and data.dtype.kind not in "biu" and np.isnan(data).any():
            report(node)
            raise RuntimeError(f"Function {repr(node)[1:-1]!r} returned nan values in its {i}th output.")
