"""log, exp, sine and cosine of float64 in +, -, x, / and shifts: the same bits in every library and on every device.

Input: float64 tensors. Random draws are made of these: a library's own log and cos differ in the last bit from one
library, and from one vector width, to the next. Every step is a core operator that IEEE 754 rounds in one way only; no
backend contracts them to fma. No tables and no branches, so that they vectorise. log and exp are within 1 ulp,
the others within 2.3 (tested).

The coefficients are minimax polynomials (Remez's exchange, in 60 digits, rounded to float64), lowest power first.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt

LN2_HIGH, LN2_LOW = (
    0.6931471805582987,
    1.6465949582897082e-12,
)  # the first has 38 bits: times an exponent it is exact
ONE_BY_LN2 = 1.4426950408889634
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

# (log((1 + s) / (1 - s)) / s - 2) / s**2 as a polynomial in s**2, for |s| <= 0.1716
LOG = (
    0.666666666666667, 0.39999999999898506, 0.2857142862637237, 0.22222211077131945, 0.18182892908511972,
    0.15331607252648338, 0.14617745369120122,
)  # fmt: skip
# (e**r - 1 - r) / r**2 as a polynomial in r, for |r| <= log(2) / 2
EXP = (
    0.5, 0.1666666666666667, 0.041666666666666685, 0.008333333333326134, 0.0013888888888874402,
    0.00019841269874822348, 2.4801587347336815e-05, 2.755725539844268e-06, 2.7557252910267314e-07,
    2.5105217637423046e-08, 2.09215915460621e-09,
)  # fmt: skip
# sin(2 pi s) / s - TURN as a polynomial in s**2, for |s| <= 1/4; TURN is 2 pi to 20 bits: times a draw it is exact
TURN = 6.283180236816406
SINE = (
    5.070363180226923e-06, -41.34170224039976, 81.60524927607506, -76.70585975306072, 42.05869394482877,
    -15.0946425727052, 3.819952434954374, -0.7181189232766054, 0.104183102693151, -0.011683124914473932,
)  # fmt: skip


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """By Horner's scheme."""
    out = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        out = c.add(c.mul(x, out), coefficient)
    return out


def log(x: Any) -> Any:
    """The natural logarithm of positive normal numbers."""
    # x = 2**e * m with m in [sqrt(1/2), sqrt(2)); f = m - 1 is exact; log m = log((1 + s) / (1 - s)), s = f / (2 + f)
    bits = c.bitcast(x, dt.int64)
    e = c.bitwise_right_shift(c.sub(bits, SQRT_HALF_BITS), 52)
    f = c.sub(c.bitcast(c.sub(bits, c.bitwise_left_shift(e, 52)), dt.float64), 1.0)
    e = c.cast(e, dt.float64)
    s = c.div(f, c.add(f, 2.0))
    z = c.mul(s, s)
    half_square = c.mul(c.mul(f, f), 0.5)
    tail = c.mul(s, c.add(half_square, c.mul(z, _polynomial(z, LOG))))
    low = c.sub(half_square, c.add(tail, c.mul(e, LN2_LOW)))  # log m = f - (half_square - tail)
    return c.sub(c.mul(e, LN2_HIGH), c.sub(low, f))


def exp(x: Any) -> Any:
    """e ** x of any number; NaN, overflow and underflow as in IEEE 754."""
    x = c.maximum(c.minimum(x, 710.0), -746.0)  # beyond these the result is infinite, or 0
    # e**x = 2**k * e**r with |r| <= log(2) / 2; 2**k in two factors, as one alone may not be a normal number
    k = c.floor(c.add(c.mul(x, ONE_BY_LN2), 0.5))
    r = c.sub(c.sub(x, c.mul(k, LN2_HIGH)), c.mul(k, LN2_LOW))
    out = c.add(c.add(c.mul(c.mul(r, r), _polynomial(r, EXP)), r), 1.0)
    k = c.cast(k, dt.int64)
    half = c.bitwise_right_shift(k, 1)
    return c.mul(c.mul(out, _power_of_two(half)), _power_of_two(c.sub(k, half)))


def _power_of_two(k: Any) -> Any:
    return c.bitcast(c.bitwise_left_shift(c.add(k, 1023), 52), dt.float64)


def sine_of_turns(s: Any) -> Any:
    """sin(2 pi s) for |s| <= 1/4, s with at most 33 bits."""
    return c.add(c.mul(s, TURN), c.mul(s, _polynomial(c.mul(s, s), SINE)))


def cosine_of_turns(v: Any) -> Any:
    """cos(2 pi v) for v in [0, 1), v a multiple of 2**-32: by symmetry, a sine whose argument is exact."""
    return sine_of_turns(c.sub(c.abs(c.sub(v, 0.5)), 0.25))


def tangent_of_half_turns(t: Any) -> Any:
    """tan(pi t) for t in (-1/2, 1/2), t an odd multiple of 2**-33."""
    s = c.mul(t, 0.5)
    return c.div(sine_of_turns(s), sine_of_turns(c.sub(0.25, c.abs(s))))
