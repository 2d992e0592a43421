"""How to write each pointwise operator in C++ and in Triton: one table for lower.py and emit.py.

Input: none. `{0}`, `{1}`, ... are the operands. An operator without an entry for the category of its operands is left
to its eager kernel: integer division, shifts and powers have pitfalls that would hide the idea.
"""

from __future__ import annotations

from stage_contracts.dtype import BOOL, FLOATING, INTEGER

# dtype -> (C++ type, Triton type, Triton pointer)
TYPES = {
    "bool": ("bool", "tl.int1", "*i1"),
    "int64": ("int64_t", "tl.int64", "*i64"),
    "float32": ("float", "tl.float32", "*fp32"),
    "float64": ("double", "tl.float64", "*fp64"),
}
CPP, TRITON, POINTER = 0, 1, 2  # columns of TYPES; the first two also of SPELLINGS

_LIBM = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
erf erfc floor ceil trunc fmod pow atan2 copysign""".split()
_TWO = "{0}, {1}"
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_WHERE = {"where": ("{0} ? {1} : {2}", "tl.where({0}, {1}, {2})")}
_NUMBER = {op: (f"{{0}} {sign} {{1}}",) * 2 for op, sign in _COMPARE.items()} | {
    "logical_not": ("{0} == 0",) * 2,
    "logical_and": ("{0} != 0 && {1} != 0", "({0} != 0) & ({1} != 0)"),
    "logical_or": ("{0} != 0 || {1} != 0", "({0} != 0) | ({1} != 0)"),
}
_FLOAT = {
    op: (f"std::{op}({a})", f"libdevice.{op}({a})")
    for op in _LIBM
    for a in [_TWO if op in ("fmod", "pow", "atan2", "copysign") else "{0}"]
} | {
    "add": ("{0} + {1}",) * 2,
    "sub": ("{0} - {1}",) * 2,
    "mul": ("{0} * {1}",) * 2,
    "div": ("{0} / {1}",) * 2,
    "neg": ("-{0}",) * 2,
    "reciprocal": ("1 / {0}",) * 2,
    "abs": ("std::abs({0})", "tl.abs({0})"),
    "sqrt": ("std::sqrt({0})", "tl.sqrt({0})"),
    "rsqrt": ("1 / std::sqrt({0})", "1 / tl.sqrt({0})"),
    "round": ("std::nearbyint({0})", "libdevice.rint({0})"),  # ties to even
    "sigmoid": ("1 / (1 + std::exp(-{0}))", "1 / (1 + libdevice.exp(-{0}))"),  # e^-x = inf gives 0
    "isnan": ("std::isnan({0})", "{0} != {0}"),
    "isinf": ("std::isinf({0})", "tl.abs({0}) == float('inf')"),
    # the first comparison is false for NaN on either side; the second picks the left one
    "maximum": ("{0} > {1} || {0} != {0} ? {0} : {1}", "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})"),
    "minimum": ("{0} < {1} || {0} != {0} ? {0} : {1}", "tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})"),
}
# Signed overflow is undefined in C++; unsigned arithmetic wraps, as eager does.
_INTEGER = {
    "add": ("int64_t(uint64_t({0}) + uint64_t({1}))", "{0} + {1}"),
    "sub": ("int64_t(uint64_t({0}) - uint64_t({1}))", "{0} - {1}"),
    "mul": ("int64_t(uint64_t({0}) * uint64_t({1}))", "{0} * {1}"),
    "neg": ("int64_t(0 - uint64_t({0}))", "0 - {0}"),
    "bitwise_not": ("~{0}",) * 2,
    "bitwise_and": ("{0} & {1}",) * 2,
    "bitwise_or": ("{0} | {1}",) * 2,
    "bitwise_xor": ("{0} ^ {1}",) * 2,
    "maximum": ("{0} > {1} ? {0} : {1}", "tl.where({0} > {1}, {0}, {1})"),
    "minimum": ("{0} < {1} ? {0} : {1}", "tl.where({0} < {1}, {0}, {1})"),
}
_BOOL = {
    **dict.fromkeys(("logical_not", "bitwise_not"), ("!{0}", "{0} == 0")),
    **dict.fromkeys(("add", "maximum", "logical_or", "bitwise_or"), ("{0} || {1}", "{0} | {1}")),
    **dict.fromkeys(("mul", "minimum", "logical_and", "bitwise_and"), ("{0} && {1}", "{0} & {1}")),
    **dict.fromkeys(("ne", "logical_xor", "bitwise_xor"), ("{0} != {1}", "{0} ^ {1}")),
    "eq": ("{0} == {1}",) * 2,
}

# category of the operands -> operator -> (C++, Triton)
SPELLINGS: dict[int, dict[str, tuple[str, ...]]] = {
    FLOATING: {**_WHERE, **_NUMBER, **_FLOAT},
    INTEGER: {**_WHERE, **_NUMBER, **_INTEGER},
    BOOL: {**_WHERE, **_BOOL},
}
