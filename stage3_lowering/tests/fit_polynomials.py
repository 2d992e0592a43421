"""The polynomials of the functions that the generated C++ writes out, fitted: prints their coefficients, lowest first.

Input: for each polynomial a function, an interval, a degree, and what an error counts. `python -m
stage3_lowering.tests.fit_polynomials` prints the constants that lowering/cpp_own_math.py holds.

Least squares whose weights grow where the error is large (Lawson 1961) come to the polynomial whose largest error is
smallest. Then the lowest coefficient is rounded to float32, the others are fitted again, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np

ROUNDS, POINTS = 60, 600
Function = Callable[[np.ndarray], np.ndarray]


class Wanted(NamedTuple):
    function: Function
    interval: tuple[float, float]
    degree: int
    weight: Function  # of an absolute error: then it is one of the result, relative to it
    known: tuple[float, ...] = ()  # the lowest coefficients, if they are chosen


def _log_erfc(a: np.ndarray) -> np.ndarray:
    return np.array([float(mpmath.log(mpmath.erfc(x))) for x in a])


def _erf_by_log(a: np.ndarray) -> np.ndarray:
    """How erf(a) / a, relative to itself, follows log(erfc(a)) / a."""
    rest = np.exp(_log_erfc(a))
    return a * rest / (1 - rest)


LOG2 = math.log(2) * 1.0005  # n is found in float32, so r may lie a little outside
WANTED = {
    "e**r": Wanted(np.exp, (-LOG2, LOG2), 7, lambda r: np.exp(-r), (1.0, 1.0)),
    "(e**r - 1 - r) / r**2": Wanted(
        lambda r: sum(r**k / math.factorial(k + 2) for k in range(12)),
        (-LOG2 / 2, LOG2 / 2),
        4,
        lambda r: r * r / np.abs(np.expm1(r)),
    ),
    "log(erfc(a)) / a + 1": Wanted(lambda a: _log_erfc(a) / a + 1, (1e-6, 4.0), 8, _erf_by_log),
}


def fit(wanted: Wanted) -> list[float]:
    """The coefficients as float32, the lowest first."""
    points = _points(*wanted.interval)
    weight, known = wanted.weight(points), list(wanted.known)
    while len(known) <= wanted.degree:
        powers = np.stack([points**k for k in range(len(known), wanted.degree + 1)], 1)
        rest = wanted.function(points) - _value(known, points)
        known.append(float(np.float32(_minimax(powers * weight[:, None], rest * weight)[0])))
    return known


def error(wanted: Wanted, coefficients: list[float]) -> float:
    """The largest error, as the weight counts it."""
    points = _points(*wanted.interval)
    found = (_value(coefficients, points) - wanted.function(points)) * wanted.weight(points)
    return float(np.abs(found).max())


def _minimax(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    counts, best = np.ones(len(wanted)), np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        root = np.sqrt(counts)
        best = np.linalg.lstsq(matrix * root[:, None], wanted * root, rcond=None)[0]
        off = np.abs(matrix @ best - wanted)
        counts *= off / off.mean() + 1e-3
        counts /= counts.mean()
    return best


def _points(low: float, high: float) -> np.ndarray:
    """Chebyshev's: closer together at the ends."""
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)


def _value(coefficients: list[float], points: np.ndarray) -> np.ndarray:
    return sum((c * points**k for k, c in enumerate(coefficients)), np.zeros_like(points))


if __name__ == "__main__":
    for name, wanted in WANTED.items():
        found = fit(wanted)
        print(f"{name}: largest error 2**{math.log2(error(wanted, found)):.1f}")
        print("   ", ", ".join(c.hex().replace("0000000p", "p") for c in found))
