"""How far halves are from the exact result, beside rounding once and beside torch: every row, both half dtypes.

Input: the samples of each row, drawn often enough that their mean error says something. The exact result is eager's in
float64 of the same halves; rounding once is eager's in float32, cast. `python -m tests.oracle.half_rounding [ROW]` prints
what is further away than either.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.tensor import Tensor
from tests.oracle import samples, torch_side  # noqa: F401  (samples declares the rows)
from tests.oracle.cases import Case, function_of, leaves, map_leaves
from tests.oracle.compare import is_float
from tests.oracle.spec import ROWS, Row

HALVES = ("bfloat16", "float16")
DRAWS, ENOUGH = 24, 600  # of a sample: as many draws, or as many numbers
MORE = 1.15  # times the other's error is no more than chance and another order of sums
CHANCE = 3.0  # standard deviations


@dataclass
class Errors:
    """Distances from the exact numbers, in units of the half at that number; one entry for each number."""

    here: list[np.ndarray] = field(default_factory=list)
    once: list[np.ndarray] = field(default_factory=list)
    torch: list[np.ndarray] = field(default_factory=list)

    def excess(self, other: str) -> float | None:
        """Our mean error over the other's, where it is clearly larger; else None."""
        mine, theirs = np.concatenate(self.here), np.concatenate(getattr(self, other) or [np.zeros(0)])
        if not mine.size or mine.shape != theirs.shape:
            return None
        by_chance = CHANCE * float(np.sqrt(np.square(mine - theirs).sum()))
        larger = mine.sum() > MORE * theirs.sum() + by_chance
        return float(mine.sum() / max(theirs.sum(), 1e-9)) if larger else None


def measured(row: Row, index: int, dtype: str) -> Errors:
    """The errors of one sample."""
    errors, count = Errors(), 0
    for draw in range(DRAWS):
        case = Case(row, index, dtype, draw=draw)
        exact = _here(case, "float64")
        here, once = _here(case, dtype), [_rounded(x, dtype) for x in _here(case, "float32")]
        theirs = _of_torch(case)
        for k, wanted in enumerate(exact):
            if k >= len(here) or here[k].dtype.name != dtype:
                continue
            sides = {"here": here[k], "once": once[k]}
            if theirs is not None:
                sides["torch"] = theirs[k]
            count += _enter(errors, wanted, sides)
        if count >= ENOUGH:
            break
    return errors


def _enter(errors: Errors, exact: np.ndarray, sides: dict[str, np.ndarray]) -> int:
    with np.errstate(all="ignore"):
        wide = {name: np.asarray(a).astype(np.float64) for name, a in sides.items()}
    if any(a.shape != exact.shape for a in wide.values()):
        return 0
    seen = np.isfinite(exact) & np.logical_and.reduce([np.isfinite(a) for a in wide.values()])
    unit = np.abs(exact) + 1e-2 * float(np.abs(exact[seen]).max(initial=0)) + 1e-6
    for name, a in wide.items():
        with np.errstate(all="ignore"):
            getattr(errors, name).append((np.abs(a - exact) / unit)[seen])
    return int(seen.sum())


def _here(case: Case, dtype: str) -> list[np.ndarray]:
    """Eager's floats of the case, its halves as numbers of `dtype`."""
    ct.manual_seed(0)
    given = lambda a: Tensor(a) if a.dtype.name != case.dtype else Tensor(a).to(getattr(ct, dtype))  # noqa: E731
    args, kwargs = map_leaves(case.arrays(), given, np.ndarray)
    out = function_of(case.row.name)(*args, **kwargs)
    found = leaves(args[0] if out is None else out, Tensor)
    return [_settled(case, a) for a in (t.detach()._data for t in found) if is_float(a)]


def _of_torch(case: Case) -> list[np.ndarray] | None:
    """torch's, as it computes by itself (oneDNN included); None without it, or where it has no such kernel."""
    if torch_side.torch is None or "torch" in case.row.exceptions:
        return None
    try:
        out = torch_side.run(case, own=False)
    except (RuntimeError, TypeError, NotImplementedError, LookupError, ValueError, AttributeError, IndexError):
        return None
    return [_settled(case, a) for a in out if is_float(a)]


def _settled(case: Case, array: np.ndarray) -> np.ndarray:
    return case.row.canonical(array) if case.row.canonical else array


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return Tensor(array).to(getattr(ct, dtype))._data if array.dtype.name == "float32" else array


def rows() -> list[str]:
    """The rows that take halves and float32: those that compute."""
    return [
        name
        for name, row in ROWS.items()
        if row.alias_of is None and "float32" in row.dtypes and any(half in row.dtypes for half in HALVES)
    ]


def excesses(name: str, other: str) -> Iterator[tuple[str, float]]:
    """(which case, our mean error over the other's) of the cases whose error is clearly larger."""
    row = ROWS[name]
    for dtype in (half for half in HALVES if half in row.dtypes):
        for index in range(len(row.samples)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ratio = measured(row, index, dtype).excess(other)
            if ratio is not None:
                yield f"sample {index}, {dtype}", ratio


def main(names: list[str]) -> None:
    for other in ("torch", "once"):
        print(f"further than {other}:")
        for name in names or rows():
            try:
                for case, ratio in excesses(name, other):
                    print(f"  {name:32s} {case:24s} {ratio:6.2f} times")
            except Exception as e:
                print(" ", name, "ERR", type(e).__name__, str(e)[:100])


if __name__ == "__main__":
    main(sys.argv[1:])
