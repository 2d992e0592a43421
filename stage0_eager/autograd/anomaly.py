"""Anomaly detection: which call made a NaN in the backward, shown by the lines that made the call.

Input: the tape calls `watching()` when it makes a node and after each step of the backward pass. When off, it costs one
read of a global; when on, every node remembers where it was made.
"""

from __future__ import annotations

import traceback
import warnings
from contextlib import ContextDecorator
from typing import Any

import numpy as np

WATCH: dict[str, bool] = {}  # empty when off: what a node costs then is one look at a global


class set_detect_anomaly(ContextDecorator):
    """`set_detect_anomaly(True)` acts at once, for all threads; as a context manager it restores the mode after.

    While on, an error or a NaN in backward is reported with the lines of the forward call it is for. Slow.
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
    """As set_detect_anomaly(True), for a block."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    return bool(WATCH)


def is_anomaly_check_nan_enabled() -> bool:
    return WATCH.get("nan", True)


def here() -> str:
    """The lines that lead to the call being recorded, without this package's own."""
    own = __file__.rpartition("/")[0]
    frames = [
        f for f in traceback.extract_stack() if not f.filename.startswith(own) or "/tests/" in f.filename
    ]
    return "".join(traceback.format_list(frames))


def report(node: Any) -> None:
    """Warn with the place where `node` was recorded."""
    where = getattr(node, "where", "") or "  (recorded while anomaly detection was off)\n"
    warnings.warn(
        f"Error detected in {node!r}. Traceback of forward call that caused the error:\n{where}", stacklevel=2
    )


def check(node: Any, results: list) -> None:
    """Raise RuntimeError when a gradient that `node` gave has a NaN in it."""
    if not WATCH.get("nan"):
        return
    for i, g in enumerate(results):
        data: Any = getattr(g, "_data", None)
        if hasattr(data, "__array_interface__") and data.dtype.kind not in "biu" and np.isnan(data).any():
            report(node)
            raise RuntimeError(f"Function {repr(node)[1:-1]!r} returned nan values in its {i}th output.")
