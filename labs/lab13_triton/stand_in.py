"""A Triton of forty lines, on NumPy: it runs single lines of a kernel and sees each address that they touch.

Input: the lines. It needs no Triton, and it says which lane did what, which a GPU cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Number(np.ndarray):
    """`tl.program_id(0)`: a number with `.to`, as in Triton."""

    def to(self, dtype: Any) -> Number:
        return self.astype(dtype).view(Number)


def number(value: Any) -> Number:
    return np.asarray(value).view(Number)


@dataclass(frozen=True)
class Pointer:
    """The start of an array, or an address in it."""

    name: str
    index: Any = 0

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.name, self.index + np.asarray(other))


@dataclass
class StandIn:
    """What a kernel calls `tl`, for one program."""

    program: int
    accesses: list[tuple[str, Any, Any]] = field(default_factory=list)  # (name, index, mask or None)
    int32, int64 = np.int32, np.int64

    def program_id(self, axis: int) -> Number:
        return number(self.program)

    def arange(self, start: int, end: int) -> Number:
        return number(np.arange(start, end))

    def load(self, at: Pointer, mask: Any = None, other: Any = None) -> Number:
        self.accesses.append((at.name, at.index, mask))
        return number(np.zeros(np.shape(at.index), np.float32))

    def store(self, at: Pointer, value: Any, mask: Any = None) -> None:
        self.accesses.append((at.name, at.index, mask))

    def where(self, condition: Any, a: Any, b: Any) -> Number:
        return number(np.where(condition, a, b))

    def sum(self, values: Any, axis: int) -> Number:
        return number(np.sum(values, axis))

    def max(self, values: Any, axis: int) -> Number:
        return number(np.fmax.reduce(values, axis=axis))  # it drops NaN

    def min(self, values: Any, axis: int) -> Number:
        return number(np.fmin.reduce(values, axis=axis))

    def reduce(self, values: Any, axis: int, fold: Callable) -> Number:
        return number(fold(np.asarray(values), axis))


FOLDS = {"_prod": np.prod, "_amax": np.max, "_amin": np.min}


def run_lines(lines: list[str], tl: StandIn, names: Mapping[str, Any]) -> dict[str, Any]:
    """Run lines as the body of a kernel. Gives all names after them."""
    found = {"tl": tl, **FOLDS, **names}
    with np.errstate(all="ignore"):
        exec("\n".join(lines), found)
    return found
