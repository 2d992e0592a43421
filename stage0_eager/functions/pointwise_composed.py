"""Elementary functions that are compositions: logarithms of sums, powers, angles, fractions and steps.

Input: tensors and numbers. No body adds a NaN to the value or the gradient that the function does not have: it replaces
a harmful operand before the call that would spoil it, not after.
"""

from __future__ import annotations

import math

from stage0_eager.derivatives.rules import fit
from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.promotion import floating_pair, needs_floating, promoted
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt


@method
@operator
def hypot(input, other):
    """sqrt(input ** 2 + other ** 2) without overflow; an infinity wins over NaN."""
    return _hypot(*floating_pair("hypot", input, other))


@in_float32
def _hypot(input, other):
    x, y = c.abs(input), c.abs(other)
    larger, smaller = c.maximum(x, y), c.minimum(x, y)
    ratio = c.div(smaller, c.where(c.eq(larger, 0), 1.0, larger))
    length = c.mul(larger, c.sqrt(c.add(c.mul(ratio, ratio), 1)))
    return c.where(c.logical_or(c.isinf(x), c.isinf(y)), math.inf, length)


hypot.derivative(
    input=lambda g, input, out, input_meta: fit(c.mul(g, c.div(input, out)), input_meta),
    other=lambda g, other, out, other_meta: fit(c.mul(g, c.div(other, out)), other_meta),
)


def _distance(input, other):
    """|input - other|, and 0 for two equal infinities."""
    return c.abs(c.where(c.eq(input, other), 0.0, c.sub(input, other)))


@method
@operator
def logaddexp(input, other):
    """log(exp(input) + exp(other)) without overflow."""
    return _logaddexp(*floating_pair("logaddexp", input, other))


@in_float32
def _logaddexp(input, other):
    return c.add(c.maximum(input, other), c.log1p(c.exp(c.neg(_distance(input, other)))))


@method
@operator
def logaddexp2(input, other):
    """log2(2 ** input + 2 ** other) without overflow."""
    return _logaddexp2(*floating_pair("logaddexp2", input, other))


@in_float32
def _logaddexp2(input, other):
    tail = c.log1p(c.exp2(c.neg(_distance(input, other))))
    return c.add(c.maximum(input, other), c.mul(tail, 1 / math.log(2.0)))


@method
@operator
def xlogy(input, other):
    """input * log(other); 0 where input is 0, whatever other is, except NaN."""
    input, other = promoted(input, other)
    unbounded = c.logical_or(c.le(other, 0), c.eq(other, math.inf))
    return c.mul(input, c.log(c.where(c.logical_and(c.eq(input, 0), unbounded), 1, other)))


@operator
def xlog1py(input, other):
    """input * log1p(other); 0 where input is 0, whatever other is, except NaN."""
    input, other = promoted(input, other)
    unbounded = c.logical_or(c.le(other, -1), c.eq(other, math.inf))
    return c.mul(input, c.log1p(c.where(c.logical_and(c.eq(input, 0), unbounded), 0, other)))


@operator
def entr(input):
    """-x * log(x): 0 at 0, minus infinity below."""
    positive = c.gt(input, 0)
    inside = c.neg(c.mul(input, c.log(c.where(positive, input, 1))))
    below = c.where(c.lt(input, 0), -math.inf, c.mul(input, 0))
    return c.where(c.logical_or(positive, c.isnan(input)), inside, below)


@method
@operator
def logit(input, eps=None):
    """log(x / (1 - x)), with x moved into [eps, 1 - eps] when eps is given."""
    if not input.is_floating_point():
        input = c.cast(input, dt.DEFAULT_DTYPE.dtype)
    if eps is not None:
        input = c.where(c.lt(input, eps), eps, c.where(c.gt(input, 1 - eps), 1 - eps, input))
    return c.log(c.div(input, c.sub(1, input)))


def _logit_input(g, input, eps):
    """NaN outside [0, 1]; with eps, 0 where the value was moved."""
    low, elsewhere = (0, math.nan) if eps is None else (eps, 0.0)
    outside = c.logical_or(c.lt(input, low), c.gt(input, 1 - low))
    return c.where(outside, elsewhere, c.div(g, c.mul(input, c.sub(1, input))))


logit.derivative(input=_logit_input)


@method
@operator
@in_float32
def sinc(input):
    """sin(pi x) / (pi x); 1 at 0."""
    zero = c.eq(input, 0)
    angle = c.mul(c.where(zero, 1, input), math.pi)
    return c.where(zero, 1.0, c.div(c.sin(angle), angle))


@method
@operator
def deg2rad(input):
    """Degrees to radians."""
    return c.mul(input, math.pi / 180)


@method
@operator
def rad2deg(input):
    """Radians to degrees."""
    return c.mul(input, 180 / math.pi)


@method
@operator
def frac(input):
    """The part after the point, with the sign of input."""
    needs_floating("frac", input)
    return c.sub(input, c.trunc(input))


@method
@operator
def signbit(input):
    """Whether the sign bit is set: also of -0.0."""
    return c.lt(c.copysign(1.0, input) if input.is_floating_point() else input, 0)


@method
@operator
def heaviside(input, values):
    """0 below zero, 1 above, `values` at zero."""
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return c.where(c.eq(input, 0), values, c.cast(c.gt(input, 0), input.dtype))


@method
@operator
def float_power(input, exponent):
    """input ** exponent in float64, or in complex128 where one is complex."""
    some_complex = any(
        x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in (input, exponent)
    )
    kind = dt.complex128 if some_complex else dt.float64
    wide = lambda x: c.cast(x, kind) if isinstance(x, Tensor) and x.dtype is not kind else x  # noqa: E731
    return c.pow(wide(input), wide(exponent))


@method
@operator
def ldexp(input, other):
    """input * 2 ** other, in two steps, so that only the result may overflow."""
    input, other = promoted(input, other)
    half = c.floor(c.div(other, 2))
    rest = c.where(c.isinf(half), 0, c.sub(other, half))  # an infinity has no rest
    return c.mul(c.mul(input, c.exp2(half)), c.exp2(rest))


@method
@operator
def positive(input):
    """input itself; bool has no sign."""
    if input.dtype is dt.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input
