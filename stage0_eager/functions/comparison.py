"""NaN, infinities and bounds: predicates, replacements, comparisons within a tolerance.

Input: tensors and numbers. At a bound the gradient goes to the input, as in torch.
"""

from __future__ import annotations

import math

import ml_dtypes

from stage0_eager.functions import complex_numbers
from stage0_eager.functions.numbers import known
from stage0_eager.functions.pointwise import clamp
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt


@method
@operator
def isposinf(input):
    """x is plus infinity."""
    return c.eq(input, math.inf)


@method
@operator
def isneginf(input):
    """x is minus infinity."""
    return c.eq(input, -math.inf)


@method
@operator
def isreal(input):
    """Whether the imaginary part is 0: true for every element of a real tensor."""
    if input.dtype.is_complex:
        return c.eq(complex_numbers.imag(input), 0)
    return c.full(input.shape, True, dt.bool_, input.device)


@method
@operator
def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """NaN and the infinities replaced: by `nan` and by the largest and smallest finite value unless given."""
    if input.dtype.is_complex:  # part by part
        return c.view_as_complex(nan_to_num(c.view_as_real(input), nan, posinf, neginf))
    if not input.is_floating_point():
        return c.clone(input)
    limits = ml_dtypes.finfo(input.dtype.numpy)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = c.where(c.eq(input, math.inf), high, c.where(c.eq(input, -math.inf), low, input))
    return c.where(c.isnan(input), 0.0 if nan is None else nan, finite)


@method
@operator
def clamp_min(input, min):
    """Each element raised to at least `min`; NaN stays NaN."""
    return clamp(input, min)


@method
@operator
def clamp_max(input, max):
    """Each element lowered to at most `max`; NaN stays NaN."""
    return clamp(input, None, max)


@method
@operator
def fmax(input, other):
    """The larger; the other one where one is NaN. At a tie the gradient goes to input."""
    return c.where(c.logical_or(c.ge(input, other), c.isnan(other)), input, other)


@method
@operator
def fmin(input, other):
    """The smaller; the other one where one is NaN. At a tie the gradient goes to input."""
    return c.where(c.logical_or(c.le(input, other), c.isnan(other)), input, other)


@method
@operator
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """|input - other| <= atol + rtol * |other|, or equal; NaN equals NaN only with equal_nan."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.name} did not match {other.dtype.name}")
    if any(known(bound) and bound < 0 for bound in (rtol, atol)):
        raise RuntimeError(
            f"rtol and atol must be greater than or equal to zero, but got rtol={rtol} and atol={atol}"
        )
    close = c.eq(input, other)
    if equal_nan and input.dtype.is_differentiable:
        close = c.logical_or(close, c.logical_and(c.isnan(input), c.isnan(other)))
    if known(rtol) and known(atol) and rtol == 0 and atol == 0:
        return close
    if not input.dtype.is_differentiable:
        input, other = c.cast(input, dt.float64), c.cast(other, dt.float64)
    error = c.abs(c.sub(input, other))
    near = c.le(error, c.add(c.abs(c.mul(other, rtol)), atol))
    finite = c.logical_not(c.logical_or(c.isnan(error), c.isinf(error)))
    return c.logical_or(close, c.logical_and(finite, near))


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close: a Python bool."""
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(c.all(close, tuple(range(close.ndim)), False).item())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements agree: a Python bool."""
    if input.shape != other.shape:
        return False
    return bool(c.all(c.eq(input, other), tuple(range(input.ndim)), False).item())
