"""Distributions over real numbers with a location and a scale: normal, Laplace, Cauchy, Gumbel, Student's t, uniform.

Input: numbers or tensors, which are broadcast.
"""

from __future__ import annotations

import math
from typing import Any

import cutaway
from cutaway import Tensor
from cutaway.distributions import constraints, draws
from cutaway.distributions.distribution import (
    EULER,
    LOG_2PI,
    Distribution,
    ExponentialFamily,
    broadcast_all,
    noise,
    open_uniform,
)


class _LocationScale(Distribution):
    """loc + scale times a standard distribution."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        self._checked(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + noise(self, sample_shape, self.loc, cutaway.randn) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -(self._standard(value) ** 2) / 2 - self.scale.log() - LOG_2PI / 2

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + cutaway.erf(self._standard(value) / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * cutaway.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * LOG_2PI + cutaway.log(self.scale)


class Laplace(_LocationScale):
    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = 2 * open_uniform(self, sample_shape, self.loc) - 1
        return self.loc - self.scale * u.sign() * cutaway.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        return -cutaway.log(2 * self.scale) - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * cutaway.expm1(-z.abs())

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * cutaway.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + cutaway.log(2 * self.scale)


class Cauchy(_LocationScale):
    @property
    def mean(self) -> Tensor:
        return cutaway.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return cutaway.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._standard(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return cutaway.atan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return cutaway.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z - cutaway.exp(-z) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return cutaway.exp(-cutaway.exp(-self._standard(value)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * cutaway.log(-cutaway.log(value))

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class StudentT(Distribution):
    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return cutaway.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        known = self.scale.pow(2) * self.df / (self.df - 2)
        return cutaway.where(
            self.df > 2, known, cutaway.where(self.df > 1, math.inf, cutaway.full_like(known, math.nan))
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x = noise(self, sample_shape, self.loc, cutaway.randn)
        z = 2 * draws.standard_gamma((self.df / 2).expand(self._extended_shape(sample_shape)))
        return self.loc + self.scale * x * cutaway.rsqrt(z / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        y = (value - self.loc) / self.scale
        total = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        total = total + cutaway.lgamma(0.5 * self.df) - cutaway.lgamma(0.5 * (self.df + 1))
        return -0.5 * (self.df + 1) * cutaway.log1p(y**2 / self.df) - total

    def entropy(self) -> Tensor:
        half = self.df / 2
        log_beta = cutaway.lgamma(half) + math.lgamma(0.5) - cutaway.lgamma(half + 0.5)
        slope = cutaway.digamma(half + 0.5) - cutaway.digamma(half)
        return self.scale.log() + 0.5 * (self.df + 1) * slope + 0.5 * self.df.log() + log_beta


class Uniform(Distribution):
    """Between low and high; high itself has the density 0."""

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return cutaway.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.low + noise(self, sample_shape, self.low, cutaway.rand) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = ((self.low <= value) & (value < self.high)).to(self.low.dtype)
        return cutaway.log(inside) - cutaway.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return cutaway.log(self.high - self.low)
