"""Public elementwise functions, by torch's names: bodies over core operators.

Input: tensors and Python numbers. Where a core operator has the public signature already, the body is one call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from stage0_eager.derivatives.rules import fit
from stage0_eager.functions.in_float32 import in_float32, steps_in_float32
from stage0_eager.functions.numbers import known, scaled
from stage0_eager.functions.promotion import common_dtype, in_common, in_dtype, same_dtype
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator, operator
from stage0_eager.table.registry import register
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.half_numbers import HALVES


def _public(name: str) -> Operator:
    row = CORE_OPS[name]
    namespace: dict[str, Any] = {"core_operator": getattr(c, name)}
    exec(f"def {name}({row.params}): return core_operator({row.params})", namespace)
    body = namespace[name]
    body.__doc__ = f"Elementwise: {row.meaning}."
    return register(Operator(name, "", body=body))


# Public functions that are exactly their core operator.
exp = method(_public("exp"))
exp2 = method(_public("exp2"))
expm1 = method(_public("expm1"))
log = method(_public("log"))
log2 = method(_public("log2"))
log10 = method(_public("log10"))
log1p = method(_public("log1p"))
sqrt = method(_public("sqrt"))
rsqrt = method(_public("rsqrt"))
reciprocal = method(_public("reciprocal"))
sin = method(_public("sin"))
cos = method(_public("cos"))
tan = method(_public("tan"))
asin = method(_public("asin"))
acos = method(_public("acos"))
atan = method(_public("atan"))
sinh = method(_public("sinh"))
cosh = method(_public("cosh"))
tanh = method(_public("tanh"))
asinh = method(_public("asinh"))
acosh = method(_public("acosh"))
atanh = method(_public("atanh"))
erf = method(_public("erf"))
erfc = method(_public("erfc"))
sigmoid = method(_public("sigmoid"))
abs = method(_public("abs"))
floor = method(_public("floor"))
ceil = method(_public("ceil"))
trunc = method(_public("trunc"))
neg = method(_public("neg"))
sign = method(_public("sign"))
isnan = method(_public("isnan"))
isinf = method(_public("isinf"))
logical_not = method(_public("logical_not"))
bitwise_not = method(_public("bitwise_not"))
mul = method(_public("mul"))
maximum = method(_public("maximum"))
minimum = method(_public("minimum"))
floor_divide = method(_public("floor_divide"))
remainder = method(_public("remainder"))
fmod = method(_public("fmod"))
atan2 = method(_public("atan2"))
copysign = method(_public("copysign"))
eq = method(_public("eq"))
ne = method(_public("ne"))
lt = method(_public("lt"))
le = method(_public("le"))
gt = method(_public("gt"))
ge = method(_public("ge"))
logical_and = method(_public("logical_and"))
logical_or = method(_public("logical_or"))
logical_xor = method(_public("logical_xor"))
bitwise_and = method(_public("bitwise_and"))
bitwise_or = method(_public("bitwise_or"))
bitwise_xor = method(_public("bitwise_xor"))
bitwise_left_shift = method(_public("bitwise_left_shift"))
bitwise_right_shift = method(_public("bitwise_right_shift"))


def _check_alpha(alpha, input, other):
    if type(alpha) is float and not common_dtype(input, other).is_differentiable:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")


@method
@operator
def add(input, other, *, alpha=1):
    """input + alpha * other."""
    if known(alpha) and alpha == 1:
        return c.add(input, other)
    _check_alpha(alpha, input, other)
    _, other = in_common(input, other)  # a narrower dtype could not hold its product with a number
    product = scaled(other, _as_half(alpha, input, other))
    if _is_truth(input) and _is_truth(other):
        product = c.cast(product, dt.bool_) if isinstance(product, Tensor) else bool(product)
    return c.add(input, product)


@method
@operator
def sub(input, other, *, alpha=1):
    """input - alpha * other."""
    if known(alpha) and alpha == 1 or isinstance(other, Tensor) and _is_truth(other):  # which c.sub refuses
        return c.sub(input, other)
    _check_alpha(alpha, input, other)
    _, other = in_common(input, other)  # a narrower dtype could not hold its product with a number
    return c.sub(input, scaled(other, _as_half(alpha, input, other)))


def _is_truth(x):
    return x.dtype is dt.bool_ if isinstance(x, Tensor) else type(x) is bool


def _as_half(alpha, input, other):
    """alpha; beside halves as one of them, which torch makes of it on a CPU."""
    tensors = [x for x in (input, other) if isinstance(x, Tensor)]
    if all(x.dtype not in HALVES for x in tensors):
        return alpha
    half = dt.result_type((x.dtype, dt.DIMENSIONED if x.ndim else dt.ZERO_DIM) for x in tensors)
    if half not in HALVES:
        return alpha
    if type(alpha) is float and isinstance(other, Tensor) and other.dtype is half:
        return _rounded(alpha, half)  # a product with a number is rounded once, as one of two halves is
    return c.cast(alpha, half) if isinstance(alpha, Tensor) else c.full((), alpha, half, tensors[0].device)


@lru_cache(maxsize=64)
def _rounded(number, half):
    with np.errstate(over="ignore"):
        return float(half.numpy.type(number))


@method
@operator
def div(input, other, *, rounding_mode=None):
    """input / other; rounding_mode None (true division), 'floor' or 'trunc'."""
    if rounding_mode is None:
        return c.div(input, other)
    if rounding_mode == "floor":
        return c.floor_divide(input, other)
    if rounding_mode == "trunc":
        if any(
            isinstance(x, float) or (isinstance(x, Tensor) and x.is_floating_point()) for x in (input, other)
        ):
            return c.trunc(c.div(input, other))
        low = c.floor_divide(input, other)  # a float could not hold all whole numbers; up by one if inexact
        inexact = c.ne(c.mul(low, other), input)
        return c.where(c.logical_and(inexact, c.lt(low, 0)), c.add(low, 1), low)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor', got {rounding_mode!r}"
    )


@method
@operator
def pow(input, exponent):
    """input ** exponent."""
    if (
        isinstance(exponent, int)
        and exponent < 0
        and isinstance(input, Tensor)
        and not input.dtype.is_differentiable
    ):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return c.pow(input, exponent)


@method
@operator
def round(input, *, decimals=0):
    """Nearest integer, ties to even; to `decimals` places when given."""
    if decimals == 0:
        return c.round(input)
    return _round_places(input, 10.0**decimals)


@in_float32
def _round_places(input, scale):
    return c.div(c.round(c.mul(input, scale)), scale)


@method
@operator
def square(input):
    """input ** 2, of bools in int64 as there."""
    input = c.cast(input, dt.int64) if input.dtype is dt.bool_ else input
    return c.mul(input, input)


@method
@operator
def clamp(input, min=None, max=None):
    """Each element moved into [min, max]; NaN stays NaN."""
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
    for bound in (min, max):
        if type(bound) is int and isinstance(input, Tensor):
            dt.check_number(bound, input.dtype)
    if min is not None:
        input = c.maximum(input, min)
    return input if max is None else c.minimum(input, max)


def _outside(input, min, max):
    """Where clamp did not keep the input: below min, above max, or NaN. A bound itself is inside."""
    inside = c.eq(input, input) if min is None else c.ge(input, min)
    return c.logical_not(inside if max is None else c.logical_and(inside, c.le(input, max)))


def _clamp_min(g, input, min, max, min_meta):
    below = c.lt(input, min)
    return fit(c.where(below if max is None else c.logical_and(below, c.lt(min, max)), g, 0.0), min_meta)


def _clamp_max(g, input, min, max, max_meta):
    above = c.gt(input, max)
    return fit(c.where(above if min is None else c.logical_or(above, c.lt(max, min)), g, 0.0), max_meta)


clamp.derivative(
    input=lambda g, input, min, max, input_meta: fit(c.where(_outside(input, min, max), 0.0, g), input_meta),
    min=_clamp_min,
    max=_clamp_max,
)


@method
@operator
def isfinite(input):
    """Neither NaN nor an infinity."""
    return c.logical_not(c.logical_or(c.isnan(input), c.isinf(input)))


@method
@operator
def masked_fill(input, mask, value):
    """`value` where mask is true, else input."""
    if isinstance(value, Tensor):  # it never widens the tensor it goes into
        value = in_dtype(value, input.dtype)
    elif not input.dtype.is_floating_point or type(value) is complex:
        value = c.full((), value, input.dtype, input.device)
    return c.where(mask, value, input)


@method
@operator
def lerp(input, end, weight):
    """input + weight * (end - input)."""
    same_dtype("lerp", input, end, weight if isinstance(weight, Tensor) and weight.ndim else None)
    return steps_in_float32(_moved, input, end, weight)


def _moved(ops, input, end, weight):
    return ops.add(input, ops.mul(ops.sub(end, input), weight))


@method
@operator
def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 * tensor2, from left to right, as torch."""
    return steps_in_float32(_plus_product, *in_common(input, tensor1, tensor2), value)


def _plus_product(ops, input, tensor1, tensor2, value):
    return ops.add(input, _scaled(ops, ops.mul, tensor1, tensor2, value))


@method
@operator
def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 / tensor2, from left to right, as torch."""
    if not (tensor1.dtype.is_differentiable or tensor2.dtype.is_differentiable):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use true division and an addition"
        )
    return steps_in_float32(_plus_quotient, *in_common(input, tensor1, tensor2), value)


def _plus_quotient(ops, input, tensor1, tensor2, value):
    return ops.add(input, _scaled(ops, ops.div, tensor1, tensor2, value))


def _scaled(ops, of_both, tensor1, tensor2, value):
    """value * tensor1, then with tensor2, as torch."""
    return of_both(tensor1 if known(value) and value == 1 else ops.mul(tensor1, value), tensor2)


@operator
def rsub(input, other):
    """other - input: subtraction with a number on the left."""
    return c.sub(other, input)


@operator
def rdiv(input, other):
    """other / input."""
    return c.div(other, input)


@operator
def rpow(input, other):
    """other ** input."""
    return c.pow(other, input)


@operator
def rfloor_divide(input, other):
    """other // input."""
    return c.floor_divide(other, input)


@operator
def rremainder(input, other):
    """other % input."""
    return c.remainder(other, input)


@operator
def rleft_shift(input, other):
    """other << input."""
    return c.bitwise_left_shift(other, input)


@operator
def rright_shift(input, other):
    """other >> input."""
    return c.bitwise_right_shift(other, input)


@operator
def cast(input, dtype):
    """input with elements of another dtype; input itself when it has it already."""
    return input if input.dtype is dtype else c.cast(input, dtype)
