"""The errors of the generated C++'s mathematical functions, in units in the last place, per function and dtype.

Input: how many random values per function. float32 is held against float64, float64 against mpmath's 40 digits.
`make vector-math` writes the table.
"""

from __future__ import annotations

import argparse
import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from stage3_lowering.lowering.cpp_math import BINARY, UNARY, math_text
from stage3_lowering.tests.cpp_runner import FLAGS, build
from stage_contracts.tests.report_heading import heading

SPECIALS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 5e-324, 1e-310, 3.4e38, 1.7e308, 88.8,
            -104.5, 709.9, -746.0, 0.5, 2.0, 1e5, -1e5]  # fmt: skip
# Where a function is interesting; elsewhere it is constant, infinite or NaN.
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("asin", "acos", "atanh"), (-1, 1)),
    **dict.fromkeys(("log", "log2", "log10"), (0, 1e6)),
    **dict.fromkeys(("sin", "cos", "tan"), (-1000, 1000)),
    **dict.fromkeys(("erf", "erfc"), (-6, 6)),
    "acosh": (1, 1e4),
    "log1p": (-1, 1e4),
    "tanh": (-12, 12),
}
BOUND = 4.0


def values_of(name: str, dtype: type, count: int, seed: int = 0) -> np.ndarray:
    """Random values where the function is interesting, half of them of random magnitude; then the special ones."""
    rng = np.random.default_rng(seed)
    low, high = RANGES.get(name, (-80, 80))
    uniform = rng.uniform(low, high, count // 2)
    scaled = np.exp2(rng.uniform(-30, math.log2(high), count - count // 2)) * rng.choice(
        [-1, 1], count - count // 2
    )
    with np.errstate(over="ignore"):
        return np.concatenate([uniform, np.clip(scaled, low, high), SPECIALS]).astype(dtype)


def vector_function(name: str, dtype: type) -> Callable[..., np.ndarray]:
    """The generated function over arrays, in a SIMD loop, as kernels call it."""
    of = "float" if dtype is np.float32 else "double"
    x, y = f"const {of}* x, ", f"const {of}* y, " if name in BINARY else ""
    call = f"cutaway::{name}(x[i]{', y[i]' if y else ''})"
    text = f"""#include <stdint.h>
namespace cutaway {{
{math_text(call)}}}
extern "C" void loop({x}{y}{of}* out, int64_t n) {{
    #pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = {call};
}}
"""
    function = build(text, FLAGS.replace("-O1", "-O3 -march=native")).loop

    def run(*arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        function(*(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)), ctypes.c_int64(out.size))
        return out

    return run


def exact(name: str, *arrays: np.ndarray) -> np.ndarray:
    """The function in more digits than the arrays have: float64 for float32, else objects of mpmath."""
    wide = [a.astype(np.float64) for a in arrays]
    if arrays[0].dtype == np.float32:
        numpy_name = {"pow": "power", "atan2": "arctan2"}.get(
            name, name.replace("a", "arc", 1) if name[0] == "a" else name
        )
        function = getattr(np, numpy_name, None) or np.vectorize(getattr(math, name), otypes=[float])
        with np.errstate(all="ignore"):
            return function(*wide)
    words = {"exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2), "pow": mpmath.power}
    function = words.get(name) or getattr(mpmath, name)
    with mpmath.workdps(40):
        return np.array([_number(function, *map(float, row)) for row in zip(*wide, strict=True)], object)


def _number(function: Callable[..., Any], *args: float) -> Any:
    try:
        found = function(*map(mpmath.mpf, args))
    except (ValueError, ZeroDivisionError, OverflowError):
        return mpmath.nan
    return mpmath.nan if isinstance(found, mpmath.mpc) else found


def errors(name: str, dtype: type, count: int) -> tuple[float, int]:
    """(largest error in ulp over the values with a finite result, how many specials are not NumPy's)."""
    arrays = [values_of(name, dtype, count, seed) for seed in range(1 + (name in BINARY))]
    if name == "pow":
        arrays = [np.abs(arrays[0]), np.clip(arrays[1], -20, 20)]
    found, wanted = vector_function(name, dtype)(*arrays), exact(name, *arrays)
    random = slice(0, count)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(dtype)
        finite = np.isfinite(rounded[random]) & (np.abs(rounded[random]) >= np.finfo(dtype).tiny)
        unit = np.spacing(np.abs(rounded[random][finite]))
        worst = np.abs((found[random][finite] - wanted[random][finite]) / unit).max(initial=0)
    special = wrong_specials(name, dtype)
    return float(worst), special


def wrong_specials(name: str, dtype: type) -> int:
    """How many special values (zeros, infinities, NaN, denormals, overflows) give another kind of result than C's."""
    with np.errstate(over="ignore"):
        grid = np.array(SPECIALS).astype(dtype)
    arrays = [np.repeat(grid, len(grid)), np.tile(grid, len(grid))] if name in BINARY else [grid]
    found = vector_function(name, dtype)(*arrays)
    library = ctypes.CDLL("libm.so.6")
    c = getattr(library, name + "f" * (dtype is np.float32))
    number = ctypes.c_float if dtype is np.float32 else ctypes.c_double
    c.restype, c.argtypes = number, [number] * len(arrays)
    wanted = np.array([c(*row) for row in zip(*arrays, strict=True)], dtype)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(wanted)
    with np.errstate(all="ignore"):
        near = np.abs(found.astype(np.float64) - wanted) <= 8 * np.spacing(np.abs(wanted)).astype(np.float64)
    return int((~(same | near & np.isfinite(wanted))).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--values64", type=int, default=5_000, help="for float64, whose reference is slow")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    lines = [
        heading("Errors of the generated C++'s mathematical functions", "make vector-math", "0 and 1"),
        "",
        "| function | dtype | values | largest error, ulp | special values that differ from C's |",
        "|---|---|---|---|---|",
    ]
    for name in (*UNARY, *BINARY):
        for dtype, count in ((np.float32, options.values), (np.float64, options.values64)):
            worst, special = errors(name, dtype, count)
            lines.append(f"| {name} | {np.dtype(dtype).name} | {count} | {worst:.2f} | {special} |")
            print(lines[-1], flush=True)
    if options.report:
        options.report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
