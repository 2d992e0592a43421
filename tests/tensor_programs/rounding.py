"""How far rounding alone may move what a program computes: eager, run again with another rounding at every step.

Input: an eager call. Under `Roundings` each operator's result is off by a few units in the last place, at random, where
it was rounded at all. What compiled code gives must lie among what some such runs give. This is Monte Carlo arithmetic
(Parker 1997): the tolerance comes from the program, so a program that amplifies rounding may differ and no other may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from stage0_eager.table.evaluation import evaluate
from stage0_eager.tensor import Tensor

Observed = list[tuple[str, Any]]

# Digits of each float dtype, and the exponent of its smallest number of full precision.
DIGITS = {"float64": (53, -1022), "float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}
# By how many units in the last place a step may differ: an elementary function by 4, in each of the two.
UNITS = 4
# Where terms are added up in an order of the kernel's choice: each is off, as their sum may be much smaller than they.
ADDED_UP = {
    "sum", "prod", "cumsum", "cumprod", "logcumsumexp", "scatter_add", "scatter_reduce", "matmul", "convolution",
    "convolution_weight_gradient", "cholesky", "triangular_solve", "solve", "inv", "matrix_exp", "det", "slogdet", "qr",
    "svd", "eigh",
}  # fmt: skip
# These choose or move values; nothing is rounded.
EXACT = {"view", "identity", "movement", "creation", "random", "mutation"}
# Runs at most, and how many times the spread of those so far a value may be away: they are a sample.
RUNS, SPREADS = 32, 4


class Roundings:
    """The interpreter that evaluates, and rounds otherwise."""

    origins: tuple = ()
    outer = None  # random numbers are drawn as without it

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def keeps(self, op: Any) -> bool:
        """Composites run as their steps."""
        return op.core is not None

    def concerns(self, op: Any, args: tuple) -> bool:
        return True

    def process(self, op: Any, args: tuple) -> Any:
        if op.core.kind in EXACT:
            return evaluate(op, args)
        operands = [
            t._data
            for a in args
            for t in (a if isinstance(a, (list, tuple)) else [a])
            if isinstance(t, Tensor)
        ]
        if op.name in ADDED_UP and not all(map(few_digits, operands)):
            args = tuple(Tensor(self.otherwise(a._data)) if isinstance(a, Tensor) else a for a in args)
        out = evaluate(op, args)
        for t in out if isinstance(out, tuple) else (out,):
            t._data = self.otherwise(t._data, operands)
        return out

    def otherwise(self, values: np.ndarray, operands: Iterable[np.ndarray] = ()) -> np.ndarray:
        """`values`, those that were rounded by up to UNITS more: not what an operand holds, nor few digits of few."""
        name = values.dtype.name
        if name not in DIGITS or not values.size:
            return values
        known = [o for o in operands if o.size]
        exact = ~np.isfinite(values) | (values == 0)
        if known:
            held = np.concatenate([np.abs(o.astype(np.float64)).reshape(-1) for o in known])
            exact |= np.isin(np.abs(values.astype(np.float64)), held)
            if all(map(few_digits, known)):
                exact |= _few(values, DIGITS[name][0])
        if exact.all():
            return values
        off = self.rng.choice([-1, 1], values.shape) * self.rng.integers(1, UNITS + 1, values.shape) / UNITS
        moved = np.empty_like(values)  # which keeps the layout
        with np.errstate(all="ignore"):
            moved[...] = np.where(exact, values, values.astype(np.float64) + off * units(values, name))
        return moved


def few_digits(values: np.ndarray) -> bool:
    """Whether half of the digits would do for every element: then no sum or product of two is rounded."""
    digits, _ = DIGITS.get(values.dtype.name, (0, 0))
    return not digits or bool(_few(values, digits).all())


def _few(values: np.ndarray, digits: int) -> np.ndarray:
    fraction, _ = np.frexp(values.astype(np.float64))
    scaled = np.ldexp(fraction, digits // 2)
    return (scaled == np.rint(scaled)) | ~np.isfinite(scaled)


# ---- what is close ---------------------------------------------------------------------------------------------


def a_step_away(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether every element of `a` is what one differently rounded step makes of `b`'s."""
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.isfinite(x) & (np.abs(x - y) <= units(y, a.dtype.name))
    return bool((near | (x == y) | (np.isnan(x) & np.isnan(y))).all())


def units(values: np.ndarray, dtype: str) -> np.ndarray:
    """UNITS in the last place of each element."""
    digits, least = DIGITS[dtype]
    exponents = np.frexp(np.where(np.isfinite(values), values, 0).astype(np.float64))[1]
    return UNITS * np.ldexp(1.0, np.maximum(exponents - 1, least) + 1 - digits)


class Spread:
    """Where the runs so far put each element of one value of eager's."""

    def __init__(self, expected: np.ndarray) -> None:
        self.expected = expected
        self.values = expected.astype(np.float64)
        self.widest = np.zeros(expected.shape)
        self.seen = {kind: which(self.values) for kind, which in KINDS.items()}

    def add(self, run: np.ndarray) -> None:
        if run.shape != self.expected.shape or run.dtype != self.expected.dtype:
            return
        values = run.astype(np.float64)
        with np.errstate(all="ignore"):
            away = np.abs(values - self.values)
        self.widest = np.maximum(self.widest, np.where(np.isfinite(away), away, 0))
        for kind, which in KINDS.items():
            self.seen[kind] |= which(values)

    def holds(self, got: np.ndarray) -> np.ndarray:
        """Which elements of `got` rounding explains: as near as the runs are, NaN or infinite where a run was."""
        values = got.astype(np.float64)
        with np.errstate(all="ignore"):
            away = np.abs(values - self.values)
        if got.dtype.kind in "biu":  # an integer that no run moved is exact
            return (got == self.expected) | ((self.widest > 0) & (away <= self.widest))
        near = np.isfinite(values) & (away <= SPREADS * self.widest + units(self.values, got.dtype.name))
        return near | np.logical_or.reduce([self.seen[kind] & which(values) for kind, which in KINDS.items()])


KINDS: dict[str, Any] = {"nan": np.isnan, "inf": np.isposinf, "-inf": np.isneginf}


def unexplained(
    doubts: dict[int, tuple[np.ndarray, np.ndarray]], runs: Iterator[dict[int, np.ndarray]]
) -> int | None:
    """The first of `doubts` (place: got, expected) that rounding does not explain, or None. Each run gives its values
    by place."""
    spreads = {place: Spread(expected) for place, (_, expected) in doubts.items()}
    left = dict(doubts)
    for _, run in zip(range(RUNS), runs, strict=False):
        for place in list(left):
            if place in run:
                spreads[place].add(run[place])
            if spreads[place].holds(left[place][0]).all():
                del left[place]
        if not left:
            return None
    return min(left)
