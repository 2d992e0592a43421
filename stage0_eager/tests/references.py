"""What each pointwise core operator means, one element at a time, in Python's own numbers.

Input: Python floats or ints that hold the operands exactly. The answer is in float64, or an unbounded int that the
caller wraps; so nothing here shares code, dtype or library calls with the kernels.
"""

import math

from scipy import special

NAN, INF = math.nan, math.inf


def ieee(function, at=None):
    """`function` of math, with IEEE results where Python raises; `at` gives poles and overflows by argument."""

    def safe(x):
        if at is not None and x in at:
            return at[x]
        try:
            return function(x)
        except ValueError:
            return NAN
        except OverflowError:
            return INF

    return safe


def signed(function):
    """An odd function whose overflow has the sign of its argument."""
    return lambda x: math.copysign(ieee(function)(abs(x)), x) if x == x else x


def rounded(function):
    """floor, ceil, ...: infinities and NaN pass, and a zero keeps the sign of what it came from."""
    return lambda x: x if not math.isfinite(x) else math.copysign(float(function(x)), x)


def rsqrt(x):
    return math.copysign(INF, x) if x == 0 else NAN if x < 0 else 1 / math.sqrt(x)


def sign(x):
    return float((x > 0) - (x < 0))  # 0 for NaN; 0 has no sign: +0 also for -0


UNARY = {
    "exp": ieee(math.exp),
    "exp2": ieee(math.exp2),
    "expm1": ieee(math.expm1),
    "log": ieee(math.log, {0.0: -INF}),
    "log2": ieee(math.log2, {0.0: -INF}),
    "log10": ieee(math.log10, {0.0: -INF}),
    "log1p": ieee(math.log1p, {-1.0: -INF}),
    "sqrt": ieee(math.sqrt),
    "rsqrt": rsqrt,
    "reciprocal": lambda x: math.copysign(INF, x) if x == 0 else 1 / x,
    "sin": ieee(math.sin),
    "cos": ieee(math.cos),
    "tan": ieee(math.tan),
    "asin": ieee(math.asin),
    "acos": ieee(math.acos),
    "atan": math.atan,
    "sinh": signed(math.sinh),
    "cosh": ieee(math.cosh),
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": ieee(math.acosh),
    "atanh": ieee(math.atanh, {1.0: INF, -1.0: -INF}),
    "erf": math.erf,
    "erfc": math.erfc,
    "sigmoid": special.expit,
    "abs": abs,
    "floor": rounded(math.floor),
    "ceil": rounded(math.ceil),
    "round": rounded(round),
    "trunc": rounded(math.trunc),
    "neg": lambda x: -x,
    "sign": sign,
    "isnan": lambda x: x != x,
    "isinf": lambda x: abs(x) == INF,
    "logical_not": lambda x: x == 0,
}


def div(x, y):
    if y == 0:
        return NAN if x == 0 or x != x else math.copysign(INF, x) * math.copysign(1.0, y)
    return x / y


def floor_divide(x, y):
    if y == 0:
        return div(x, y)
    try:
        return x // y
    except (ValueError, OverflowError):
        return NAN


def remainder(x, y):
    return NAN if y == 0 or math.isinf(x) else x % y


def fmod(x, y):
    return ieee(lambda v: math.fmod(v, y))(x)


def power(x, y):
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF
    except ValueError:
        odd_pole = x == 0 and y < 0 and y % 2 == 1
        return math.copysign(INF, x) if odd_pole else INF if x == 0 else NAN


def extremum(wins):
    return lambda x, y: NAN if x != x or y != y else wins(x, y)


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": div,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "fmod": fmod,
    "pow": power,
    "maximum": extremum(max),
    "minimum": extremum(min),
    "atan2": math.atan2,
    "copysign": math.copysign,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_xor": lambda x, y: bool(x) != bool(y),
}


# ---- integers: unbounded results, which the caller wraps to the dtype -------------------------------------------


def int_power(x, y):
    if y >= 0:
        return x**y
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


def left_shift(x, y, bits):
    return x << y if 0 <= y < bits else 0


def right_shift(x, y, bits):
    return x >> y if 0 <= y < bits else (-1 if x < 0 else 0)


INT_UNARY = {
    "abs": abs,
    "floor": int,
    "ceil": int,
    "round": int,
    "trunc": int,
    "neg": lambda x: -x,
    "sign": lambda x: (x > 0) - (x < 0),
    "isnan": lambda x: False,
    "isinf": lambda x: False,
    "logical_not": lambda x: x == 0,
    "bitwise_not": lambda x: ~x,
}
INT_BINARY = {
    **{k: BINARY[k] for k in "add sub mul eq ne lt le gt ge logical_and logical_or logical_xor".split()},
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": lambda x, y: int(math.copysign(1, x)) * (abs(x) % abs(y)),
    "pow": int_power,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_left_shift": left_shift,
    "bitwise_right_shift": right_shift,
}
