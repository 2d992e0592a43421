"""Bessel functions J0, J1, Y0, Y1, K0, K1 and the Airy function Ai: power series, and sums over few points.

Input: float tensors. K is the integral of exp(-x cosh t); J and Y at larger x are Hankel's integral along its steepest
descent (Watson, "Theory of Bessel functions", 6.12 and 7.2); the trapezoidal rule converges exponentially for such
integrands (Trefethen and Weideman 2014). Near 0 stand power series. Plain Python over tensors: capture follows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stage0_eager.defaults import get_default_dtype
from stage0_eager.functions.gather_scatter import where
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt

GAMMA = 0.5772156649015329


def _in_float64(function: Callable[[Tensor], Tensor], name: str, says: str) -> Callable[[Tensor], Tensor]:
    """function, computed in float64 and rounded once to input's dtype."""

    def rounded(input: Tensor) -> Tensor:
        result = input.dtype if input.is_floating_point() else get_default_dtype()
        return function(input.to(dt.float64)).to(result)

    rounded.__name__, rounded.__doc__ = name, says
    return rounded


# ---- power series --------------------------------------------------------------------------------------------------


def _series(x: Tensor, order: int, sign: int) -> tuple[Tensor, Tensor]:
    """(the sum of (x/2)**order * (sign * x*x/4)**k / (k! (k + order)!), the same with each term times psi(k + 1) +
    psi(k + order + 1)): J, or I with sign 1, and what Y and K have beside the logarithm. To x = 4 or so."""
    square, term = x * x * (sign / 4), (x / 2) ** order
    first, second = -GAMMA, order - GAMMA  # psi of 1, and of order + 1
    total, weighted = term, term * (first + second)
    for k in range(1, 30):
        term = term * square / (k * (k + order))
        first, second = first + 1 / k, second + 1 / (k + order)
        total, weighted = total + term, weighted + term * (first + second)
    return total, weighted


# ---- K -------------------------------------------------------------------------------------------------------------


def _scaled_k_far(x: Tensor, order: float) -> Tensor:
    """exp(x) * K_order(x) for x above 0.5: the integral of exp(-x * (cosh t - 1)) * cosh(order * t), with
    w = sqrt(2x) * sinh(t / 2), so that the first factor is exp(-w**2)."""
    step, total = 0.1, x * 0
    for i in range(65):
        w = i * step
        t = (w / (2 * x).sqrt()).asinh() * 2
        weight = 2 * step * math.exp(-w * w) * (0.5 if i == 0 else 1.0)
        total = total + weight * (t * order).cosh() / (2 * x + w * w).sqrt()
    return total


def _scaled_k(x: Tensor, order: int) -> Tensor:
    """exp(x) * K_order(x). Near 0: the series with the logarithm, Abramowitz and Stegun, 9.6.11."""
    near = where((x > 0) & (x < 2), x, 1.0)
    total, weighted = _series(near, order, 1)
    found = (weighted / 2 - (near / 2).log() * total) * (-1) ** order
    found = (found + 1 / near if order else found) * near.exp()
    found = where(x < 2, found, _scaled_k_far(x.clamp(min=2.0), order))
    return where(x > 0, where(x.eq(math.inf), 0.0, found), where(x.eq(0), math.inf, math.nan))


# ---- J and Y -------------------------------------------------------------------------------------------------------


def _hankel(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """(J, Y) of x at least 4: the real and the imaginary part of Hankel's first function.

    sqrt(2 / (pi x)) * exp(i * (x - order * pi/2 - pi/4)) / gamma(order + 1/2) times the integral over u from 0 on of
    2 * exp(-u**2) * u**(2 * order) * (1 + i * u**2 / (2x))**(order - 1/2).
    """
    step, real, imaginary = 0.1, x * 0, x * 0
    power = order - 0.5
    for i in range(65):
        u = i * step
        weight = 2 * step * math.exp(-u * u) * u ** (2 * order) * (0.5 if i == 0 else 1.0)
        slope = u * u / (2 * x)
        size, angle = (1 + slope * slope) ** (power / 2), slope.atan() * power
        real, imaginary = real + weight * size * angle.cos(), imaginary + weight * size * angle.sin()
    phase = x - (order / 2 + 0.25) * math.pi
    scale = (2 / (math.pi * x)).sqrt() / math.gamma(order + 0.5)
    c, s = phase.cos(), phase.sin()
    return scale * (real * c - imaginary * s), scale * (real * s + imaginary * c)


def _j(x: Tensor, order: int) -> Tensor:
    size = x.abs()
    near, far = size.clamp(max=4.0), size.clamp(min=4.0)
    found = where(size < 4, _series(near, order, -1)[0], _hankel(far, order)[0])
    found = where(size.eq(math.inf), 0.0, found)
    return found * x.sign() if order else found


def _y(x: Tensor, order: int) -> Tensor:
    """Near 0: the series with the logarithm, Abramowitz and Stegun, 9.1.11."""
    near, far = where((x > 0) & (x < 4), x, 1.0), x.clamp(min=4.0)
    total, weighted = _series(near, order, -1)
    low = (2 * (near / 2).log() * total - weighted - (2 / near if order else 0.0)) / math.pi
    found = where(x < 4, low, _hankel(far, order)[1])
    found = where(x.eq(math.inf), 0.0, found)
    return where(x > 0, found, where(x.eq(0), -math.inf, math.nan))


# ---- Ai ------------------------------------------------------------------------------------------------------------


def _airy(x: Tensor) -> Tensor:
    """Ai: K of order 1/3 above 1, the power series between, the expansion of 10.4.60 in Abramowitz and Stegun below."""
    near, above, below = x.clamp(-7.0, 1.0), x.clamp(min=1.0), (-x).clamp(min=7.0)
    middle = _airy_near_0(near)
    zeta = above**1.5 * (2 / 3)
    high = _scaled_k_far(zeta, 1 / 3) * (-zeta).exp() * (above / 3).sqrt() / math.pi
    zeta = below**1.5 * (2 / 3)
    even, odd, u = zeta * 0 + 1, zeta * 0, 1.0
    for k in range(1, 12):
        u *= (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1))
        part = u * (-1) ** (k // 2) / zeta**k
        even, odd = (even, odd + part) if k % 2 else (even + part, odd)
    phase = zeta + math.pi / 4
    low = (phase.sin() * even - phase.cos() * odd) / (math.sqrt(math.pi) * below**0.25)
    return where(x > 1, high, where(x < -7, low, middle)) + x * 0


def _airy_near_0(x: Tensor) -> Tensor:
    cube = x * x * x
    first, second = x * 0 + 1, x
    f, g = first, second
    for k in range(1, 40):
        first, second = first * cube / (3 * k * (3 * k - 1)), second * cube / (3 * k * (3 * k + 1))
        f, g = f + first, g + second
    return 0.3550280538878172 * f - 0.2588194037928068 * g


bessel_j0 = _in_float64(lambda x: _j(x, 0), "bessel_j0", "Bessel function of the first kind, order 0.")
bessel_j1 = _in_float64(lambda x: _j(x, 1), "bessel_j1", "Bessel function of the first kind, order 1.")
bessel_y0 = _in_float64(lambda x: _y(x, 0), "bessel_y0", "Bessel function of the second kind, order 0.")
bessel_y1 = _in_float64(lambda x: _y(x, 1), "bessel_y1", "Bessel function of the second kind, order 1.")
modified_bessel_k0 = _in_float64(
    lambda x: _scaled_k(x, 0) * (-x).exp(), "modified_bessel_k0", "K of order 0, which falls."
)
modified_bessel_k1 = _in_float64(
    lambda x: _scaled_k(x, 1) * (-x).exp(), "modified_bessel_k1", "K of order 1, which falls."
)
scaled_modified_bessel_k0 = _in_float64(
    lambda x: _scaled_k(x, 0), "scaled_modified_bessel_k0", "exp(x) * modified_bessel_k0(x)."
)
scaled_modified_bessel_k1 = _in_float64(
    lambda x: _scaled_k(x, 1), "scaled_modified_bessel_k1", "exp(x) * modified_bessel_k1(x)."
)
airy_ai = _in_float64(_airy, "airy_ai", "The Airy function Ai.")

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
]  # fmt: skip
