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
UNITS = {"float16": 4, "bfloat16": 4, "float32": 8, "float64": 16, "complex64": 16, "complex128": 16}
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
    sizes = [np.abs(a if a.dtype.kind == "c" else a.astype(np.float64)) for a in arrays if a.size]
    return max([1.0, *(float(s[np.isfinite(s)].max()) for s in sizes if np.isfinite(s).any())])


def same(got: np.ndarray, want: Any, units: float, scale: float = 0.0) -> None:
    """Raise Mismatch unless `got` is `want`, which is brought to got's dtype first."""
    want = np.asarray(want)
    if got.shape != want.shape:
        raise Mismatch(f"shape {got.shape}, expected {want.shape}")
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
        if got.dtype.kind == "c":
            same_parts(got, want, units, scale)
            return
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


def same_parts(got: np.ndarray, want: np.ndarray, units: float, scale: float = 0.0) -> None:
    """As same, for complex numbers: measured by their size; a NaN in one part is as good as in both."""
    with np.errstate(all="ignore"):
        nan = np.isnan(got) & np.isnan(want)
        infinite = np.isinf(want)
        exact = (got.real == want.real) & (got.imag == want.imag)
        allowed = units * UNITS[got.dtype.name] * np.finfo(got.dtype).eps * np.maximum(np.abs(want), scale)
        wrong = ~(
            nan | exact | (~infinite & (np.abs(got - want) <= allowed)) | _same_infinity(got, want, allowed)
        )
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Mismatch(
            f"{int(wrong.sum())} of {wrong.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
        )


def _same_infinity(got: np.ndarray, want: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """An infinity in one part, and the other part close or the same."""
    found = np.ones(got.shape, bool)
    for mine, theirs in ((got.real, want.real), (got.imag, want.imag)):
        close = np.abs(mine - theirs) <= np.where(np.isfinite(allowed), allowed, 1e-5 * np.abs(theirs))
        found &= (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)) | close
    return found & np.isinf(want)
