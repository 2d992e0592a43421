"""Triton for each loop op: an expression template per category of operand, and the helper functions they call.

Input: none; these are tables. In a template `{0}`, `{1}`, ... are the operands, `{T}` is their Triton type, and
`{bits}` is its width. Functions come from libdevice, because `tl.exp` and the like are the fast approximations. The
names of helpers start with `_`.
"""

from __future__ import annotations

from stage_contracts.dtype import BOOL, FLOATING, INTEGER

TRITON_TYPES = {
    "bool": "tl.int1", "uint8": "tl.uint8", "int8": "tl.int8", "int16": "tl.int16", "int32": "tl.int32",
    "int64": "tl.int64", "float32": "tl.float32", "float64": "tl.float64",
    "float16": "tl.float16", "bfloat16": "tl.bfloat16",
}  # fmt: skip
POINTERS = {
    "bool": "*i1", "uint8": "*u8", "int8": "*i8", "int16": "*i16", "int32": "*i32", "int64": "*i64",
    "float32": "*fp32", "float64": "*fp64", "float16": "*fp16", "bfloat16": "*bf16",
}  # fmt: skip

_LIBDEVICE = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "trunc",
]  # fmt: skip
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_FLOAT: dict[str, str] = {name: f"libdevice.{name}({{0}})" for name in _LIBDEVICE} | {
    "round": "libdevice.rint({0})",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "1 / tl.sqrt({0})",
    "reciprocal": "1 / {0}",
    "sigmoid": "_sigmoid({0})",
    "abs": "tl.abs({0})",
    "isnan": "{0} != {0}",
    "isinf": "tl.abs({0}) == float('inf')",
    "div": "{0} / {1}",
    "floor_divide": "_floor_divide({0}, {1})",
    "remainder": "_remainder({0}, {1})",
    "fmod": "libdevice.fmod({0}, {1})",
    "pow": "libdevice.pow({0}, {1})",
    "atan2": "libdevice.atan2({0}, {1})",
    "copysign": "libdevice.copysign({0}, {1})",
    "neg": "-{0}",
}
# Over a hundred instructions for each element, with jumps: PTX of Triton 3.9 for sm_90. No other but acosh has over 80.
LONG_CODE = frozenset({"sin", "cos", "tan", "fmod", "remainder", "floor_divide", "pow"})
# `/` and tl.sqrt are exact on float64 but approximate on float32
FLOAT32 = {
    "sqrt": "tl.sqrt_rn({0})",
    "rsqrt": "tl.div_rn(1.0, tl.sqrt_rn({0}))",
    "reciprocal": "tl.div_rn(1.0, {0})",
    "div": "tl.div_rn({0}, {1})",
}
_INTEGER: dict[str, str] = {
    "abs": "tl.abs({0})",
    "neg": "0 - {0}",
    "bitwise_not": "~{0}",
    "floor_divide": "_int_floor_divide({0}, {1})",
    "remainder": "_int_remainder({0}, {1})",
    "fmod": "_int_fmod({0}, {1})",
    "pow": "_int_pow({0}, {1})",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_left_shift": "_shift_left({0}, {1}, {bits})",
    "bitwise_right_shift": "_shift_right({0}, {1}, {bits})",
}
UNSIGNED = {
    "abs": "{0}", "floor_divide": "{0} // {1}", "remainder": "{0} % {1}", "fmod": "{0} % {1}",
    "sign": "({0} > 0).to({T})",
}  # fmt: skip
_NUMBER: dict[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "maximum": "_maximum({0}, {1})",
    "minimum": "_minimum({0}, {1})",
    "sign": "({0} > 0).to({T}) - ({0} < 0).to({T})",
    "logical_not": "{0} == 0",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_xor": "({0} != 0) ^ ({1} != 0)",
} | {op: f"{{0}} {sign} {{1}}" for op, sign in _COMPARE.items()}
_BOOL: dict[str, str] = {
    **dict.fromkeys(("logical_not", "bitwise_not"), "{0} == 0"),
    **dict.fromkeys(("add", "maximum", "logical_or", "bitwise_or"), "{0} | {1}"),
    **dict.fromkeys(("mul", "minimum", "logical_and", "bitwise_and"), "{0} & {1}"),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), "{0} ^ {1}"),
    # True is -1 as a signed bit, so order is decided on wider integers
    **{op: f"{{0}}.to(tl.int32) {sign} {{1}}.to(tl.int32)" for op, sign in _COMPARE.items()},
}
_ANY: dict[str, str] = {"where": "tl.where({0}, {1}, {2})"}

EXCEPTIONS: dict[str, dict[str, str]] = {"float32": FLOAT32, "uint8": UNSIGNED}  # by dtype, before TRITON_OPS
TRITON_OPS: dict[int, dict[str, str]] = {
    FLOATING: {**_ANY, **_NUMBER, **_FLOAT},
    INTEGER: {**_ANY, **_NUMBER, **_INTEGER},
    BOOL: {**_ANY, **_BOOL},
}

# Operators whose helper asks for the dtype of its operands, which a number has not.
ASK_DTYPE = {"floor_divide"}

# kind: (accumulator's start, one step on `acc` and `v`, the reduction of a block along its rows)
REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "sum": ("0", "{acc} + {v}", "tl.sum({acc}, 1)"),
    "prod": ("1", "{acc} * {v}", "tl.reduce({acc}, 1, _multiply)"),
    "amax": ("{lowest}", "_maximum({acc}, {v})", "tl.reduce({acc}, 1, _maximum)"),
    "amin": ("{highest}", "_minimum({acc}, {v})", "tl.reduce({acc}, 1, _minimum)"),
    "any": ("False", "{acc} | {v}", "(tl.max({acc}.to(tl.int32), 1) != 0)"),
    "all": ("True", "{acc} & {v}", "(tl.min({acc}.to(tl.int32), 1) != 0)"),
}
# kind -> the scan of a block along its rows
SCANS: dict[str, str] = {
    "sum": "tl.cumsum({v}, 1)",
    "prod": "tl.associative_scan({v}, 1, _multiply)",
    "amax": "tl.associative_scan({v}, 1, _maximum)",
    "amin": "tl.associative_scan({v}, 1, _minimum)",
}

HELPERS: dict[str, str] = {
    "_divide": """
def _divide(a, b):  # correctly rounded; `/` on float32 is approximate
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b
""",
    "_sigmoid": """
def _sigmoid(x):  # e^-|x| never overflows
    e = libdevice.exp(-tl.abs(x))
    return _divide(tl.where(x >= 0, 1.0, e), 1 + e)
""",
    "_maximum": """
def _maximum(a, b):  # NaN if either is NaN
    return tl.where((a > b) | (a != a), a, b)
""",
    "_minimum": """
def _minimum(a, b):  # NaN if either is NaN
    return tl.where((a < b) | (a != a), a, b)
""",
    "_multiply": """
def _multiply(a, b):
    return a * b
""",
    "_first_largest": """
def _first_largest(a, i, b, j):  # the earliest position wins among equals; NaN is the largest
    same = (a == b) | ((a != a) & (b != b))
    second = tl.where(same, j < i, (b > a) | (b != b))
    return tl.where(second, b, a), tl.where(second, j, i)
""",
    "_first_smallest": """
def _first_smallest(a, i, b, j):  # the earliest position wins among equals; NaN is the smallest
    same = (a == b) | ((a != a) & (b != b))
    second = tl.where(same, j < i, (b < a) | (b != b))
    return tl.where(second, b, a), tl.where(second, j, i)
""",
    "_floor_divide": """
def _floor_divide(a, b):  # as Python's //: from the exact remainder, not from a rounded a / b
    rest = libdevice.fmod(a, b)
    quotient = _divide(a - rest, b)
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = libdevice.floor(quotient)
    whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
    whole = tl.where(quotient == 0, libdevice.copysign(quotient * 0, _divide(a, b)), whole)
    return tl.where(b == 0, _divide(a, b), whole)
""",
    "_remainder": """
def _remainder(a, b):  # the sign of b, as Python's %
    rest = libdevice.fmod(a, b)
    moved = tl.where((b < 0) != (rest < 0), rest + b, rest)
    return tl.where(b == 0, rest, tl.where(rest == 0, libdevice.copysign(rest, b), moved))
""",
    "_int_floor_divide": """
def _int_floor_divide(a, b):  # the smallest integer // -1 wraps
    odd = (b == 0) | (b == -1)
    divisor = tl.where(odd, 1, b)
    quotient = a // divisor
    rest = a - quotient * divisor
    quotient = tl.where((rest != 0) & ((a < 0) != (divisor < 0)), quotient - 1, quotient)
    return tl.where(b == -1, 0 - a, tl.where(b == 0, 0, quotient))
""",
    "_int_remainder": """
def _int_remainder(a, b):  # the sign of b, as Python's %
    divisor = tl.where((b == 0) | (b == -1), 1, b)
    rest = a - (a // divisor) * divisor
    return tl.where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)
""",
    "_int_fmod": """
def _int_fmod(a, b):  # the sign of a, as C's %
    divisor = tl.where((b == 0) | (b == -1), 1, b)
    return a - (a // divisor) * divisor
""",
    "_int_pow": """
def _int_pow(x, y):  # by squaring; 1 / x**|y| truncated for a negative exponent
    result = x * 0 + 1 + y * 0
    square = x + y * 0
    left = tl.where(y < 0, 0, y) + x * 0
    for _ in range(64):
        result = tl.where((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    sign = tl.where((y & 1) != 0, x, x * x)
    return tl.where(y >= 0, result, tl.where((x == 1) | (x == -1), sign, 0))
""",
    "_shift_left": """
def _shift_left(a, b, bits):
    outside = (b < 0) | (b >= bits)
    return tl.where(outside, 0, a << tl.where(outside, 0, b))
""",
    "_shift_right": """
def _shift_right(a, b, bits):
    return a >> tl.where((b < 0) | (b >= bits), bits - 1, b)
""",
    "_to_integer": """
def _to_integer(x, low: tl.constexpr, type: tl.constexpr):  # truncated; NaN and what does not fit: the smallest
    return tl.where((x >= low) & (x < -low), x, low).to(type)
""",
    "_wrap_index": """
def _wrap_index(index, size, mask):  # negatives count from the end
    index = tl.where(index < 0, index + size, index)
    tl.device_assert((index >= 0) & (index < size), "index out of range", mask)
    return index
""",
    "_philox": """
def _philox(seed, counter, index):
    # Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): word index % 4 of block index // 4.
    index = index.to(tl.int64)
    block = index // 4
    c0, c1 = (block & 0xFFFFFFFF).to(tl.uint32), (block >> 32).to(tl.uint32)
    c2, c3 = (counter & 0xFFFFFFFF).to(tl.uint32), (counter >> 32).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox(seed, c0, c1, c2 + c0 * 0, c3 + c0 * 0)
    word = index % 4
    return tl.where(word < 2, tl.where(word == 0, w0, w1), tl.where(word == 2, w2, w3)).to(tl.int64)
""",
}
