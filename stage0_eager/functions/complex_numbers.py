"""torch's functions of complex numbers: their parts, conjugate and angle, and making them from two real tensors.

Input: tensors, complex or real. A real tensor is its own conjugate and its own real part, so these return it as it is.
"""

from __future__ import annotations

import math

from stage0_eager.functions.promotion import needs_floating, same_dtype
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt


@method
@operator
def conj(input):
    """The imaginary parts negated; a real input itself. (It is computed at once: torch's is lazy.)"""
    return c.conj(input) if input.dtype.is_complex else input


@method
@operator
def conj_physical(input):
    """The imaginary parts negated; a real input itself."""
    return c.conj(input) if input.dtype.is_complex else input


@method
@operator
def resolve_conj(input):
    """input itself: nothing here is conjugated lazily."""
    return input


@method
@operator
def resolve_neg(input):
    """input itself: nothing here is negated lazily."""
    return input


@operator
def view_as_real(input):
    """The two parts of complex numbers in a new last dimension of size 2, as a view."""
    return c.view_as_real(input)


@operator
def view_as_complex(input):
    """The complex numbers whose parts are the last dimension, of size 2 and stride 1; as a view."""
    return c.view_as_complex(input)


def _part(input, index):
    parts = c.view_as_real(input)
    return c.reshape(c.slice(parts, input.ndim, index, index + 1, 1), input.shape)


@operator
def real(input):
    """The real part, as a view; a real input itself."""
    return _part(input, 0) if input.dtype.is_complex else input


@operator
def imag(input):
    """The imaginary part, as a view. Raises RuntimeError for a real input."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(input, 1)


def _attribute(name, function):
    def part(self: Tensor) -> Tensor:
        return function(self)

    part.__name__, part.__doc__ = name, function.__doc__
    setattr(Tensor, name, property(part))


_attribute("real", real)
_attribute("imag", imag)


@operator
def complex(real, imag):
    """real + i * imag, of two tensors of the same floating dtype."""
    for part in (real, imag):
        if part.dtype not in (dt.float32, dt.float64):
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{real.dtype.name} and {imag.dtype.name}"
            )
    if real.dtype is not imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {real.dtype.name} but got scalar type {imag.dtype.name} for second "
            "argument"
        )
    shape = c.add(c.detach(real), c.detach(imag)).shape  # as they broadcast
    parts = [c.reshape(c.expand(part, shape), (*shape, 1)) for part in (real, imag)]
    return c.view_as_complex(c.cat(parts, len(shape)))


@operator
def polar(abs, angle):
    """abs * exp(i * angle), of two real tensors."""
    same_dtype("polar", abs, angle)
    needs_floating("polar", abs)
    return complex(c.mul(abs, c.cos(angle)), c.mul(abs, c.sin(angle)))


@method
@operator
def angle(input):
    """The angle in (-pi, pi]. Of a real number 0 for what is not negative, pi for what is; NaN stays NaN."""
    if input.dtype.is_complex:
        return c.atan2(_part(input, 1), _part(input, 0))
    if not input.is_floating_point():
        return c.where(c.lt(input, 0), math.pi, 0.0)
    out = c.where(c.lt(input, 0), c.full((), math.pi, input.dtype, input.device), 0.0)
    return c.where(c.isnan(input), input, out)


@method
@operator
def sgn(input):
    """x / |x|, and 0 for 0; of a real number its sign."""
    if not input.dtype.is_complex:
        return c.sign(input)
    size = c.abs(input)
    zero = c.eq(size, 0)
    return c.where(zero, 0.0, c.div(input, c.where(zero, 1.0, size)))
