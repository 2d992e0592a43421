"""Distributions over counts and categories: Bernoulli, binomial, geometric, Poisson, categorical, multinomial.

Input: probabilities (`probs`) or their logarithms (`logits`), of which exactly one is given. For categories they are
along the last dimension, and need not sum to 1.
"""

from __future__ import annotations

from typing import Any

import cutaway
from cutaway import Tensor
from cutaway.distributions import constraints, draws
from cutaway.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    logits_to_probs,
    open_uniform,
    probs_to_logits,
)

F = cutaway.nn.functional


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _OfProbs(Distribution):
    """A distribution with one probability, given as probs or as logits."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        _one_of(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        *rest, given = broadcast_all(*others, given)
        self.__dict__[name] = given
        return tuple(rest)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> tuple:
        return self._param.shape

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__
        if name == "logits" and "probs" in given:
            return probs_to_logits(given["probs"], is_binary=True)
        if name == "probs" and "logits" in given:
            return logits_to_probs(given["logits"], is_binary=True)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class Bernoulli(_OfProbs, ExponentialFamily):
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return cutaway.where(self.probs == 0.5, float("nan"), mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cutaway.no_grad():
            return cutaway.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values(cutaway.arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(_OfProbs):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        checks = self._validate_args and probs is not None and not cutaway.compiler.is_compiling()
        if checks and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return cutaway.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cutaway.no_grad():
            return (open_uniform(self, sample_shape, self.probs).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        certain = cutaway.eq(probs, 1) & cutaway.eq(value, 0)
        failed = value * cutaway.where(certain, 0.0, -probs).log1p()
        return failed + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(_OfProbs):
    arg_constraints = {"total_count": constraints.nonnegative_integer, **_OfProbs.arg_constraints}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cutaway.no_grad():
            return draws.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n, logits = self.total_count, self.logits
        ways = cutaway.lgamma(n + 1) - cutaway.lgamma(value + 1) - cutaway.lgamma(n - value + 1)
        above = logits.clamp(min=0)
        normal = n * above + n * cutaway.log1p(cutaway.exp(-logits.abs()))
        return value * logits + ways - normal

    def entropy(self) -> Tensor:
        most = int(self.total_count.max())
        if not bool(cutaway.eq(self.total_count, most).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(cutaway.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = int(self.total_count.max())
        if not bool(cutaway.eq(self.total_count, most).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._values(
            cutaway.arange(1 + most, dtype=self._param.dtype, device=self._param.device), expand
        )


class NegativeBinomial(_OfProbs):
    """The number of successes (each of probability probs) before total_count failures."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), **_OfProbs.arg_constraints}
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * cutaway.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / cutaway.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cutaway.no_grad():
            return draws.poisson(draws.standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        power = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = cutaway.lgamma(n + value) - cutaway.lgamma(1.0 + value) - cutaway.lgamma(n)
        return power + cutaway.where(cutaway.eq(n + value, 0.0), 0.0, ways)


class Poisson(ExponentialFamily):
    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cutaway.no_grad():
            return draws.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return cutaway.xlogy(value, rate) - rate - cutaway.lgamma(value + 1)


class _OfCategories(Distribution):
    """A distribution with probabilities along the last dimension, normalised."""

    arg_constraints = {
        "probs": constraints.simplex, "logits": constraints.real_vector,
    }  # fmt: skip

    def _take(self, probs: Any, logits: Any) -> None:
        _one_of(probs, logits)
        given = probs if logits is None else logits
        if given.ndim < 1:
            raise ValueError(
                f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional."
            )
        if logits is None:
            self.__dict__["probs"] = probs / probs.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = logits - logits.logsumexp(dim=-1, keepdim=True)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> tuple:
        return self._param.shape

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__
        if name == "logits" and "probs" in given:
            return probs_to_logits(given["probs"])
        if name == "probs" and "logits" in given:
            return logits_to_probs(given["logits"])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    def _indices(self, sample_shape: Any) -> Tensor:
        """Draws of categories: where the sum of the probabilities so far passes a uniform number."""
        with cutaway.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            count = 1
            for size in sample_shape:
                count *= size
            drawn = cutaway.multinomial(rows, count, True).transpose(0, 1)
            return drawn.reshape((*sample_shape, *self._param.shape[:-1]))

    def _entropy(self) -> Tensor:
        logits = self.logits.clamp(min=cutaway.finfo(self._param.dtype).min)
        return -(logits * self.probs).sum(-1)


class Categorical(_OfCategories):
    """One of the numbers 0, ..., K - 1."""

    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return cutaway.full(self._batch_shape, float("nan"), dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._indices(tuple(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        index = value.to(cutaway.int64).unsqueeze(-1)
        index, logits = cutaway.broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values(cutaway.arange(self._num_events, device=self._param.device), expand)


class OneHotCategorical(_OfCategories):
    """A vector with one 1, the others 0."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(dim=-1), self._num_events).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return F.one_hot(self._indices(tuple(sample_shape)), self._num_events).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return Categorical(logits=self.logits, validate_args=False).log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._num_events
        values = cutaway.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Its samples pass gradients on to the probabilities as if they were those (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategories):
    """How often each category is drawn in total_count draws."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._indices((self.total_count, *sample_shape))
        return F.one_hot(drawn, self._num_events).sum(0).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        logits = cutaway.where(cutaway.eq(value, 0) & cutaway.isneginf(logits), 0.0, logits)
        ways = cutaway.lgamma(value.sum(-1) + 1) - cutaway.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = cutaway.tensor(float(self.total_count), dtype=self._param.dtype)
        counts = Binomial(self.total_count, probs=self.probs)
        support = counts.enumerate_support(expand=False)[1:]
        weighted = (counts.log_prob(support).exp() * cutaway.lgamma(support + 1)).sum((0, -1))
        return self.total_count * self._entropy() - cutaway.lgamma(n + 1) + weighted


class RelaxedBernoulli(_OfProbs):
    """A number between 0 and 1 that gets close to a Bernoulli draw as temperature falls (the concrete distribution,
    Maddison, Mnih and Teh, 2017)."""

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = open_uniform(self, sample_shape, self._param)
        return cutaway.sigmoid((u.log() - (-u).log1p() + self.logits) / self.temperature)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        log_odds = probs_to_logits(value, is_binary=True)
        diff = self.logits - log_odds * self.temperature
        of_logit = cutaway.as_tensor(self.temperature).log() + diff - 2 * diff.exp().log1p()
        return of_logit + F.softplus(-log_odds) + F.softplus(log_odds)


class RelaxedOneHotCategorical(_OfCategories):
    """Shares that get close to a one-hot draw as temperature falls."""

    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = open_uniform(self, sample_shape, self._param)
        return cutaway.softmax((self.logits - cutaway.log(-cutaway.log(u))) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        k, temperature = self._num_events, cutaway.as_tensor(self.temperature).to(self._param.dtype)
        logits, value = broadcast_all(self.logits, value)
        score = logits - value.log() * temperature
        score = (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1)
        scale = cutaway.lgamma(cutaway.tensor(float(k))) + (k - 1) * temperature.log()
        return score + scale - value.log().sum(-1)


__all__ = [name for name, value in list(vars().items()) if isinstance(value, type) and name[0] != "_"]
