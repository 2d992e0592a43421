"""Special functions, by torch's names: gamma, beta's parts, error functions and their inverses, Bessel functions.

Input: tensors and numbers; integers are computed in float32. The external core operators do the work, or a formula
over them that loses no digits.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.functions.promotion import floating_pair, promoted
from stage0_eager.functions.results import MantissaExponent
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator, operator
from stage0_eager.table.registry import register
from stage0_eager.tensor import method
from stage_contracts import dtype as dt


def _floating(x):
    return x if x.is_floating_point() else c.cast(x, dt.DEFAULT_DTYPE.dtype)


def _unary(name: str, row: Any, meaning: str) -> Operator:
    def body(input):
        return row(_floating(input))

    body.__name__, body.__doc__ = name, meaning
    return register(Operator(name, "", body=body))


lgamma = method(_unary("lgamma", c.lgamma, "log |gamma(input)|."))
digamma = method(_unary("digamma", c.digamma, "The derivative of log gamma(input)."))
erfinv = method(_unary("erfinv", c.erfinv, "The inverse of erf; infinite at -1 and 1."))
erfcx = _unary("erfcx", c.erfcx, "exp(x ** 2) * erfc(x): erfc without its underflow.")
ndtri = _unary("ndtri", c.ndtri, "The x with ndtr(x) = input.")
i0 = method(_unary("i0", c.i0, "Modified Bessel function of the first kind, order 0."))
i0e = _unary("i0e", c.i0e, "exp(-|x|) * i0(x).")
i1 = _unary("i1", c.i1, "Modified Bessel function of the first kind, order 1.")
i1e = _unary("i1e", c.i1e, "exp(-|x|) * i1(x).")
# second names, as torch.special has them
gammaln = _unary("gammaln", c.lgamma, "As lgamma.")
psi = _unary("psi", c.digamma, "As digamma.")


@operator
def polygamma(n, input):
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return c.polygamma(_floating(input), n)


@method
@operator
def mvlgamma(input, p):
    """log of the multivariate gamma function of dimension p."""
    input = _floating(input)
    out = c.add(c.lgamma(input), p * (p - 1) / 4 * math.log(math.pi))
    for i in range(1, p):
        out = c.add(out, c.lgamma(c.sub(input, i / 2)))
    return out


@operator
def zeta(input, other):
    """The Hurwitz zeta function: sum of (other + k) ** -input."""
    return c.zeta(*promoted(input, other))


@operator
def gammainc(input, other):
    """Regularized lower incomplete gamma function."""
    return c.gammainc(*promoted(input, other))


@operator
def gammaincc(input, other):
    """Regularized upper incomplete gamma function."""
    return c.gammaincc(*promoted(input, other))


@method
@operator
def igamma(input, other):
    """As gammainc."""
    return c.gammainc(*promoted(input, other))


@method
@operator
def igammac(input, other):
    """As gammaincc."""
    return c.gammaincc(*promoted(input, other))


@operator
def ndtr(input):
    """The normal distribution function, accurate in both tails."""
    return c.mul(c.erfc(c.mul(_floating(input), -math.sqrt(0.5))), 0.5)


@operator
def log_ndtr(input):
    """log(ndtr(input)) without the underflow of ndtr."""
    x = _floating(input)
    low = c.lt(x, -1)
    inside = c.mul(c.where(low, x, -1.0), -math.sqrt(0.5))
    tail = c.sub(c.log(c.mul(c.erfcx(inside), 0.5)), c.mul(inside, inside))
    body = c.log1p(c.mul(c.erfc(c.mul(c.where(low, 0.0, x), math.sqrt(0.5))), -0.5))
    return c.where(low, tail, body)


@method
@operator
def nextafter(input, other):
    """The next number after input in the direction of other."""
    return c.nextafter(*floating_pair("nextafter", input, other))


@method
@operator
def gcd(input, other):
    """Greatest common divisor, not negative; integers only."""
    return c.gcd(*promoted(input, other, to_float=False))


@method
@operator
def lcm(input, other):
    """Least common multiple, not negative; 0 where either is 0."""
    input, other = promoted(input, other, to_float=False)
    divisor = c.gcd(input, other)
    return c.abs(c.mul(c.floor_divide(input, c.where(c.eq(divisor, 0), 1, divisor)), other))


@method
@operator
def frexp(input):
    """(mantissa, exponent): input = mantissa * 2 ** exponent with the mantissa in [0.5, 1), exponent int32."""
    if not input.is_floating_point():
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return MantissaExponent(*c.frexp(input))
