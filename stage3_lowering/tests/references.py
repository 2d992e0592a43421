"""What each pointwise core operator means, in NumPy, written without a look at the eager kernels.

Input: operands already of the dtype the arithmetic is done in. Transcendental functions are computed in
float64 (float32) or in long double (float64) and rounded once, so they are the right answers, not another
library's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

ULPS = 4.0  # of the result's dtype, for what the C library or libdevice computes; all else must be exact


def _wider(function: Callable) -> Callable:
    def exact(*args: Any) -> Any:
        wide = np.float64 if args[0].dtype == np.float32 else np.longdouble
        with np.errstate(all="ignore"):
            return np.asarray(function(*[a.astype(wide) for a in args])).astype(args[0].dtype)

    return exact


def _each(function: Callable[[float], float]) -> Callable:
    return lambda x: np.vectorize(function, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


_NAMES = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh, "sigmoid": _sigmoid, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
TRANSCENDENTAL: dict[str, Callable] = {name: _wider(f) for name, f in _NAMES.items()}
TRANSCENDENTAL |= {"erf": _each(math.erf), "erfc": _each(math.erfc)}
TRANSCENDENTAL_2 = {"pow": _wider(np.power), "atan2": _wider(np.arctan2)}

UNARY: dict[str, Callable] = {
    "sqrt": np.sqrt, "reciprocal": lambda x: (1 / x).astype(x.dtype), "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "neg": lambda x: -x, "sign": lambda x: np.sign(np.nan_to_num(x)),
    "isnan": np.isnan, "isinf": np.isinf, "logical_not": lambda x: x == 0, "bitwise_not": np.invert,
}  # fmt: skip
BINARY: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "maximum": np.maximum,
    "minimum": np.minimum, "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "copysign": np.copysign, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}  # fmt: skip


def _shift_left(x: int, y: int, bits: int) -> int:
    return x << y if 0 <= y < bits else 0


def _shift_right(x: int, y: int, bits: int) -> int:
    return x >> (y if 0 <= y < bits else bits - 1)


def _int_pow(x: int, y: int, bits: int) -> int:
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return pow(x, y, 1 << bits)


def _python_integers(function: Callable[[int, int, int], int]) -> Callable:
    """Python's unbounded integers, wrapped to the type's width at the end."""

    def wrapped(x: Any, y: Any) -> Any:
        bits = 8 * x.dtype.itemsize
        half = 1 << (bits - 1)

        def one(a: Any, b: Any) -> int:
            return (function(int(a), int(b), bits) + half) % (2 * half) - half

        return np.vectorize(one, otypes=[object])(x, y).astype(x.dtype)

    return wrapped


INTEGER: dict[str, Callable] = {
    "pow": _python_integers(_int_pow),
    "bitwise_left_shift": _python_integers(_shift_left),
    "bitwise_right_shift": _python_integers(_shift_right),
    "floor_divide": _python_integers(lambda a, b, bits: a // b),
    "remainder": _python_integers(lambda a, b, bits: a % b),
    "fmod": _python_integers(lambda a, b, bits: int(math.copysign(abs(a) % abs(b), a)) if abs(a) < 2**50 else
                             (abs(a) % abs(b)) * (1 if a >= 0 else -1)),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), lambda x: x),
}  # fmt: skip
