"""Distributions over positive numbers and over shares: exponential, gamma, beta, Dirichlet, half-normal, ...

Input: numbers or tensors, which are broadcast.
"""

from __future__ import annotations

import math
from typing import Any

import cutaway
from cutaway import Tensor
from cutaway.distributions import constraints, draws
from cutaway.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    noise,
    open_uniform,
)

special: Any = cutaway.special


class Exponential(ExponentialFamily):
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return cutaway.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -cutaway.log(open_uniform(self, sample_shape, self.rate)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 1 - cutaway.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -cutaway.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - cutaway.log(self.rate)


class Gamma(ExponentialFamily):
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return draws.standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        powers = cutaway.xlogy(self.concentration, self.rate) + cutaway.xlogy(self.concentration - 1, value)
        return powers - self.rate * value - cutaway.lgamma(self.concentration)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - cutaway.log(self.rate) + cutaway.lgamma(a) + (1.0 - a) * cutaway.digamma(a)


class Chi2(Gamma):
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args=validate_args)

    def _expanded(self, of: Any) -> None:
        self.concentration, self.rate = 0.5 * self.df, cutaway.full_like(self.df, 0.5)


class Beta(ExponentialFamily):
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return Dirichlet(cutaway.stack([self.concentration1, self.concentration0], -1)).mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        one = draws.standard_gamma(self.concentration1.expand(shape))
        zero = draws.standard_gamma(self.concentration0.expand(shape))
        return one / (one + zero)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = self.concentration1, self.concentration0
        powers = cutaway.xlogy(a - 1, value) + cutaway.xlogy(b - 1, 1 - value)
        return powers + cutaway.lgamma(a + b) - cutaway.lgamma(a) - cutaway.lgamma(b)

    def entropy(self) -> Tensor:
        return Dirichlet(
            cutaway.stack([self.concentration1, self.concentration0], -1), validate_args=False
        ).entropy()


class Dirichlet(ExponentialFamily):
    """Shares that sum to 1. The last dimension of `concentration` has one entry for each."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = cutaway.nn.functional.one_hot(mode.argmax(dim=-1), above.shape[-1]).to(mode.dtype)
        return cutaway.where((self.concentration < 1).all(dim=-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        parts = draws.standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a = self.concentration
        return cutaway.xlogy(a - 1.0, value).sum(-1) + cutaway.lgamma(a.sum(-1)) - cutaway.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        constant = cutaway.lgamma(a).sum(-1) - cutaway.lgamma(total)
        return constant - (k - total) * cutaway.digamma(total) - ((a - 1.0) * cutaway.digamma(a)).sum(-1)


class FisherSnedecor(Distribution):
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return cutaway.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return cutaway.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        known = 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))
        return cutaway.where(b > 4, known, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        over, under = (draws.standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        return over / under

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        constant = cutaway.lgamma(a + b) - cutaway.lgamma(a) - cutaway.lgamma(b)
        powers = a * ratio.log() + (a - 1) * cutaway.log(value)
        return constant + powers - (a + b) * cutaway.log1p(ratio * value)


class HalfNormal(Distribution):
    """The size of a normal number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return cutaway.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return (noise(self, sample_shape, self.scale, cutaway.randn) * self.scale).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        density = -((value / self.scale) ** 2) / 2 - self.scale.log() + 0.5 * math.log(2 / math.pi)
        return cutaway.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return cutaway.erf(value / (self.scale * math.sqrt(2)))

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * cutaway.erfinv(prob) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 * math.log(math.pi / 2) + 0.5 + self.scale.log()


class HalfCauchy(Distribution):
    """The size of a Cauchy number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return cutaway.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return cutaway.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return cutaway.full_like(self.scale, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(open_uniform(self, sample_shape, self.scale))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        density = math.log(2 / math.pi) - self.scale.log() - ((value / self.scale) ** 2).log1p()
        return cutaway.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 2 * cutaway.atan(value / self.scale) / math.pi

    def icdf(self, prob: Tensor) -> Tensor:
        return cutaway.tan(math.pi * prob / 2) * self.scale

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + self.scale.log()
