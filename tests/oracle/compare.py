"""When two results are the same: exactly for integers, within a table of units for floats.

Input: arrays (or nested tuples of them). A unit is one rounding of the dtype at the larger of the value itself and,
for rows that add up many values, the largest value that took part.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# How many roundings a result may be away, times the row's own `units`. Half precision is rounded between the steps
# of a composite, with steps few; the wide dtypes go through longer expansions.
UNITS = {"float16": 4, "bfloat16": 4, "float32": 8, "float64": 16}
# Central differences of step 1e-6 in float64: truncation and cancellation, relative to the largest derivative.
DIFFERENCES = 2e-5


class Mismatch(AssertionError):
    """Two answers that should agree do not."""


def epsilon(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


def magnitude(arrays: list[np.ndarray]) -> float:
    """The largest finite absolute value, at least 1."""
    sizes = [np.abs(a.astype(np.float64)) for a in arrays if a.size]
    return max([1.0, *(float(s[np.isfinite(s)].max()) for s in sizes if np.isfinite(s).any())])


def same(got: np.ndarray, want: Any, units: float, scale: float = 0.0) -> None:
    """Raise Mismatch unless `got` is `want`, which is brought to got's dtype first."""
    want = np.asarray(want)
    if got.shape != want.shape:
        raise Mismatch(f"shape {got.shape}, expected {want.shape}")
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
        if not is_float(got):
            wrong = got != want
        else:
            allowed = units * UNITS[got.dtype.name] * epsilon(got.dtype)
            g, w = got.astype(np.float64), want.astype(np.float64)
            smallest = float(ml_dtypes.finfo(got.dtype).smallest_subnormal)
            near = np.abs(g - w) <= np.maximum(allowed * np.maximum(np.abs(w), scale), 2 * smallest)
            wrong = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Mismatch(
            f"{int(wrong.sum())} of {wrong.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
        )
