"""NumPy's elementwise functions: one line each in a table of (name, operator, rule of dtypes).

Input: tensors and Python numbers. The rule converts the operands before Cutaway's operator sees them, so torch's own
promotion changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.functions import comparison, pointwise_composed, special
from stage0_eager.numpy_api import promotion
from stage0_eager.numpy_api.rows import NotHere, array, cast, kind_of, numpy_function, operands
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.dtype import BOOL, FLOATING, DType

# ---- rules: the dtype a function computes in, from what its operands promote to ---------------------------------


def _same(found: DType) -> DType:
    return found


def _no_bool(found: DType) -> DType:
    if found is dt.bool_:
        raise NotHere("not defined for bools")
    return found


def _number(found: DType) -> DType:
    return dt.int8 if found is dt.bool_ else found


def _float(found: DType) -> DType:
    return promotion.FLOAT_FOR[found]


def _divided(found: DType) -> DType:
    return found if found.category == FLOATING else dt.float64


def _integral(found: DType) -> DType:
    if found.category == FLOATING:
        raise NotHere("not defined for floats")
    return found


def _integer(found: DType) -> DType:
    return _number(_integral(found))


RULES: dict[str, tuple[Callable[[DType], DType], str]] = {
    "same": (_same, "as promoted"),
    "no_bool": (_no_bool, "as promoted; not for bools"),
    "number": (_number, "as promoted; bools as int8"),
    "float": (_float, "integers in the smallest float that holds them: int8 in float16, int32 in float64"),
    "divided": (_divided, "integers in float64"),
    "integral": (_integral, "bools and integers only"),
    "integer": (_integer, "integers only; bools as int8"),
}


def computed_in(rule: str, values: tuple, dtype: DType | None) -> DType:
    """The dtype the arithmetic is done in; `dtype` is what the caller asked for."""
    if dtype is not None:
        found = RULES[rule][0](dtype)
        if found is not dtype:
            raise NotHere(f"no loop for {dtype.name}")
        return dtype
    kinds = [kind_of(value) for value in values]
    # uint8 and int8 both fit into float16
    if rule == "float" and all(isinstance(kind, DType) for kind in kinds):
        kinds = [promotion.FLOAT_FOR.get(kind, kind) for kind in kinds]
    return RULES[rule][0](promotion.result_type(kinds))


def _enter(name: str, rule: str, compute: Callable, arity: int) -> None:
    """A row for one function of the tables below."""
    if arity == 1:

        def body(x, *, dtype=None):
            return compute(array(x, computed_in(rule, (x,), dtype)))
    else:

        def body(x1, x2, *, dtype=None):  # type: ignore[misc]
            wanted = computed_in(rule, (x1, x2), dtype)
            # beside float16 a number is one, in NumPy; these operators would keep it in float32
            kept = wanted is dt.float16 and compute in (c.mul, c.div)
            return compute(
                *operands(x1, x2, dtype=wanted, numbers=isinstance(compute, Operator) and not kept)
            )

    body.__name__ = name.split()[0]
    body.__doc__ = f"np.{body.__name__}: computed in {RULES[rule][1]}."
    numpy_function(*name.split(), ufunc=True)(body)


# ---- formulas that are more than one operator -------------------------------------------------------------------


def _nonzero_divisor(y: Any) -> Any:
    return c.where(c.eq(y, 0), 1, y)


def _guarded(op: Callable) -> Callable:
    """Integers divided by zero give 0 in NumPy (with a warning), and an error in torch."""

    def divide(x: Any, y: Any) -> Any:
        if x.dtype.category == FLOATING:
            return op(x, y)
        return c.where(c.eq(y, 0), 0, op(x, _nonzero_divisor(y)))

    return divide


def _sign(x: Any) -> Any:
    return c.where(c.isnan(x), x, c.sign(x)) if x.dtype.category == FLOATING else c.sign(x)


def _copy_of_integers(op: Callable) -> Callable:
    """floor, ceil and trunc leave integers as they are."""
    return lambda x: op(x) if x.dtype.category == FLOATING else c.clone(x)


def _or_other(op: Callable) -> Callable:
    """fmax, fmin: the operand that is a number, where one is NaN."""

    def choose(x: Any, y: Any) -> Any:
        if x.dtype.category != FLOATING:
            return op(x, y)
        return c.where(c.isnan(x), y, c.where(c.isnan(y), x, op(x, y)))

    return choose


def _logaddexp(x: Any, y: Any) -> Any:
    apart = c.sub(x, y)
    larger = c.maximum(x, y)
    summed = c.add(larger, c.log1p(c.exp(c.neg(c.abs(apart)))))
    return c.where(c.eq(x, y), c.add(x, math.log(2)), summed)


def _heaviside(x: Any, at_zero: Any) -> Any:
    steps = c.where(c.lt(x, 0), 0.0, c.where(c.gt(x, 0), 1.0, at_zero))
    return c.where(c.isnan(x), x, cast(steps, x.dtype))


def _scaled(above: float, below: float) -> Callable:
    """x times a quotient that is rounded as C rounds it for the dtype; half precision in float32."""

    def scale(x: Any) -> Any:
        wide = cast(x, dt.float32) if x.dtype is dt.float16 else x
        number = above / below if wide.dtype is dt.float64 else float(np.float32(above) / np.float32(below))
        return cast(c.mul(wide, number), x.dtype)

    return scale


def _reciprocal(x: Any) -> Any:
    return c.reciprocal(x) if x.dtype.category == FLOATING else _guarded(_truncated)(c.add(c.mul(x, 0), 1), x)


def _truncated(x: Any, y: Any) -> Any:
    """x / y of integers, towards zero."""
    below = c.ne(c.lt(x, 0), c.lt(y, 0))
    quotient = c.floor_divide(x, y)
    inexact = c.ne(c.mul(quotient, y), x)
    return c.where(c.logical_and(below, inexact), c.add(quotient, 1), quotient)


_FLOATS = "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh".split()
ONE: tuple[tuple[str, str, Callable], ...] = (
    *[(name, "float", getattr(c, name)) for name in _FLOATS],
    ("arcsin asin", "float", c.asin), ("arccos acos", "float", c.acos), ("arctan atan", "float", c.atan),
    ("arcsinh asinh", "float", c.asinh), ("arccosh acosh", "float", c.acosh), ("arctanh atanh", "float", c.atanh),
    ("rint", "float", c.round),
    ("deg2rad radians", "float", _scaled(math.pi, 180.0)),
    ("rad2deg degrees", "float", _scaled(180.0, math.pi)),
    ("floor", "same", _copy_of_integers(c.floor)), ("ceil", "same", _copy_of_integers(c.ceil)),
    ("trunc", "same", _copy_of_integers(c.trunc)),
    ("negative", "no_bool", c.neg), ("positive", "no_bool", c.clone),
    ("absolute abs", "same", lambda x: c.clone(x) if x.dtype is dt.bool_ else c.abs(x)),
    ("fabs", "float", c.abs),
    ("sign", "no_bool", _sign), ("square", "number", lambda x: c.mul(x, x)), ("reciprocal", "number", _reciprocal),
    ("conjugate conj", "number", c.clone),
    ("logical_not", "same", c.logical_not), ("invert bitwise_not bitwise_invert", "integral", c.bitwise_not),
    ("signbit", "float", lambda x: c.lt(c.copysign(c.full((), 1.0, x.dtype, x.device), x), 0)),
)  # fmt: skip

TWO: tuple[tuple[str, str, Callable], ...] = (
    ("add", "same", c.add), ("multiply", "same", c.mul), ("subtract", "no_bool", c.sub),
    ("divide true_divide", "divided", c.div),
    ("floor_divide", "number", _guarded(c.floor_divide)), ("remainder mod", "number", _guarded(c.remainder)),
    ("fmod", "number", _guarded(c.fmod)),
    ("maximum", "same", c.maximum), ("minimum", "same", c.minimum),
    ("fmax", "same", _or_other(c.maximum)), ("fmin", "same", _or_other(c.minimum)),
    ("logical_and", "same", c.logical_and), ("logical_or", "same", c.logical_or),
    ("logical_xor", "same", c.logical_xor),
    ("bitwise_and", "integral", c.bitwise_and), ("bitwise_or", "integral", c.bitwise_or),
    ("bitwise_xor", "integral", c.bitwise_xor),
    ("left_shift bitwise_left_shift", "integer", c.bitwise_left_shift),
    ("right_shift bitwise_right_shift", "integer", c.bitwise_right_shift),
    ("arctan2 atan2", "float", c.atan2), ("copysign", "float", c.copysign),
    ("hypot", "float", pointwise_composed.hypot),
    ("logaddexp", "float", _logaddexp), ("heaviside", "float", _heaviside), ("nextafter", "float", special.nextafter),
)  # fmt: skip

for _name, _rule, _compute in ONE:
    _enter(_name, _rule, _compute, 1)
for _name, _rule, _compute in TWO:
    _enter(_name, _rule, _compute, 2)


# ---- comparisons ------------------------------------------------------------------------------------------------


def _comparison(name: str, op: Callable) -> None:
    def body(x1, x2):
        try:
            return op(*operands(x1, x2, numbers=True))
        except OverflowError:  # an int beyond the array's dtype compares all the same
            return op(*operands(x1, x2, dtype=dt.int64))

    body.__name__, body.__doc__ = name, f"np.{name}: bools."
    numpy_function(name, ufunc=True)(body)


for _name, _compute in (("equal", c.eq), ("not_equal", c.ne), ("less", c.lt), ("less_equal", c.le), ("greater", c.gt),
                        ("greater_equal", c.ge)):  # fmt: skip
    _comparison(_name, _compute)


# ---- those with rules of their own ------------------------------------------------------------------------------


@numpy_function("power", "pow", ufunc=True)
def power(x1, x2, *, dtype=None):
    """x1 ** x2. Integers to negative powers are an error in NumPy, so integer exponents must be known here."""
    wanted = computed_in("number", (x1, x2), dtype)
    if wanted.category < FLOATING and not (type(x2) is int and x2 >= 0):
        raise NotHere("integers raised to a power that is not a known number of at least 0")
    base, exponent = operands(x1, x2, dtype=wanted, numbers=isinstance(x1, Tensor))
    if type(x2) in (int, float) and x2 == 2:  # as NumPy, which has a shorter way for it
        return c.mul(base, base)
    if type(x2) in (int, float) and x2 == 0.5:
        return c.sqrt(base)
    return c.pow(base, exponent)


@numpy_function("float_power", ufunc=True)
def float_power(x1, x2):
    """x1 ** x2 in float64."""
    return c.pow(*operands(x1, x2, dtype=dt.float64))


@numpy_function("isnan", ufunc=True)
def isnan(x):
    """Which elements are NaN."""
    x = array(x)
    return c.isnan(x)


@numpy_function("isinf", ufunc=True)
def isinf(x):
    """Which elements are infinite."""
    return c.isinf(array(x))


@numpy_function("isfinite", ufunc=True)
def isfinite(x):
    """Which elements are neither infinite nor NaN."""
    x = array(x)
    return c.logical_not(c.logical_or(c.isnan(x), c.isinf(x)))


@numpy_function("isposinf")
def isposinf(x):
    """Which elements are +inf."""
    x = array(x)
    return c.logical_and(c.isinf(x), c.gt(x, 0))


@numpy_function("isneginf")
def isneginf(x):
    """Which elements are -inf."""
    x = array(x)
    return c.logical_and(c.isinf(x), c.lt(x, 0))


@numpy_function("divmod")
def divmod_(x1, x2):
    """(x1 // x2, x1 % x2)."""
    x, y = operands(x1, x2, dtype=computed_in("number", (x1, x2), None))
    return _guarded(c.floor_divide)(x, y), _guarded(c.remainder)(x, y)


@numpy_function("modf")
def modf(x):
    """(fractional part, integer part), both with the sign of x."""
    x = array(x, computed_in("float", (x,), None))
    whole = c.trunc(x)
    part = c.where(c.isinf(x), c.mul(c.sign(x), 0.0), c.sub(x, whole))
    return c.copysign(part, x), whole


@numpy_function("where", scalar=False)
def where(condition, x, y):
    """x where condition, else y."""
    x, y = operands(x, y)
    condition = array(condition)
    return c.where(condition if condition.dtype is dt.bool_ else c.ne(condition, 0), x, y)


@numpy_function("clip", method=True)
def clip(a, a_min=None, a_max=None, *, min=None, max=None):
    """Values below a_min become it, those above a_max become that."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    bounds = [b for b in (low, high) if b is not None]
    found = promotion.result_type(map(kind_of, (a, *bounds)))
    out, *edges = operands(a, *bounds, dtype=found, numbers=isinstance(a, Tensor))
    if low is not None:
        out = c.maximum(out, edges[0])
    if high is not None:
        out = c.minimum(out, edges[-1])
    return out if bounds else c.clone(out)


@numpy_function("round", "around", method=True)
def round_(a, decimals=0):
    """To `decimals` digits, halves to even."""
    a = array(a)
    if a.dtype is dt.bool_:
        if decimals:
            raise NotHere("round of bools with decimals")
        a = cast(a, dt.float16)
    if a.dtype.category < FLOATING:
        if decimals < 0:
            raise NotHere("round of integers with negative decimals")
        return c.clone(a)
    if decimals == 0:
        return c.round(a)
    scale = array(10.0 ** abs(decimals), a.dtype)
    there, back = (c.mul, c.div) if decimals > 0 else (c.div, c.mul)
    return back(c.round(there(a, scale)), scale)


@numpy_function("fix")
def fix(x):
    """Towards zero."""
    x = array(x)
    return _copy_of_integers(c.trunc)(x)


@numpy_function("sinc")
def sinc(x):
    """sin(pi x) / (pi x), 1 at 0."""
    x = array(x, computed_in("divided", (x,), None))
    y = c.mul(x, array(math.pi, x.dtype))
    small = c.where(c.eq(y, 0), 1.0e-20, y)
    return c.where(c.eq(x, 0), 1.0, c.div(c.sin(small), small))


@numpy_function("nan_to_num")
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """NaN and infinities replaced: by 0 and the largest numbers where nothing else is said."""
    x = array(x)
    if not copy:
        raise NotHere("nan_to_num with copy=False")
    if x.dtype.category < FLOATING:
        return c.clone(x)
    return comparison.nan_to_num(x, nan, posinf, neginf)


@numpy_function("isclose")
def isclose(a, b, rtol=1.0e-5, atol=1.0e-8, equal_nan=False):
    """|a - b| <= atol + rtol |b|."""
    x, y = operands(a, b)
    if y.dtype.category < FLOATING:
        x, y = cast(x, dt.float64), cast(y, dt.float64)
    finite = c.logical_not(c.logical_or(c.isnan(y), c.isinf(y)))
    near = c.le(c.abs(c.sub(x, y)), c.add(c.mul(c.abs(y), rtol), atol))
    out = c.logical_or(c.logical_and(near, finite), c.eq(x, y))
    return c.logical_or(out, c.logical_and(c.isnan(x), c.isnan(y))) if equal_nan else out


__all__ = ["BOOL", "ONE", "RULES", "TWO", "computed_in"]
