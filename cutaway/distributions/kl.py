"""kl_divergence(p, q): the mean under p of log p - log q, in closed form for the pairs of classes in the table.

Input: two distributions. `register_kl` adds a pair; the pair of the nearest base classes answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cutaway
from cutaway import Tensor
from cutaway.distributions import discrete as d
from cutaway.distributions import made_of_others as m
from cutaway.distributions import positive as p_
from cutaway.distributions import real as r
from cutaway.distributions.distribution import EULER, sum_rightmost
from cutaway.distributions.multivariate import MultivariateNormal, _log_diagonal

linalg: Any = cutaway.linalg

_PAIRS: dict[type, dict[type, Callable[[Any, Any], Tensor]]] = {}  # by the class of p, then by that of q


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator: the function answers kl_divergence for distributions of these classes."""

    def register(function: Callable) -> Callable:
        _PAIRS.setdefault(type_p, {})[type_q] = function
        return function

    return register


def kl_divergence(p: Any, q: Any) -> Tensor:
    """KL(p || q), of the shape of the batch. Raises NotImplementedError for a pair without a formula."""
    for kind_p in type(p).__mro__:
        if kind_p in _PAIRS:
            for kind_q in type(q).__mro__:
                if kind_q in _PAIRS[kind_p]:
                    return _PAIRS[kind_p][kind_q](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(r.Normal, r.Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(r.Laplace, r.Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * cutaway.exp(-apart / p.scale) - 1


@register_kl(r.Cauchy, r.Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(r.Gumbel, r.Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    p_loc, q_loc = p.loc / q.scale, q.loc / q.scale
    powers = cutaway.exp(q_loc - p_loc + cutaway.lgamma(ratio + 1))
    return -ratio.log() - q_loc + p_loc + ratio * EULER + powers - (1 + EULER)


@register_kl(r.Uniform, r.Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return cutaway.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(p_.Exponential, p_.Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(p_.Gamma, p_.Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    scaled = b * (p.rate / q.rate).log() + cutaway.lgamma(b) - cutaway.lgamma(a)
    return scaled + (a - b) * cutaway.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(p_.Beta, p_.Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(_of_beta(p), _of_beta(q))


def _of_beta(beta: Any) -> p_.Dirichlet:
    return p_.Dirichlet(cutaway.stack([beta.concentration1, beta.concentration0], -1), validate_args=False)


@register_kl(p_.Dirichlet, p_.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    constant = cutaway.lgamma(total) - cutaway.lgamma(b.sum(-1))
    each = cutaway.lgamma(a) - cutaway.lgamma(b)
    slope = cutaway.digamma(a) - cutaway.digamma(total).unsqueeze(-1)
    return constant - each.sum(-1) + ((a - b) * slope).sum(-1)


@register_kl(p_.HalfNormal, p_.HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(d.Bernoulli, d.Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    softplus = cutaway.nn.functional.softplus
    succeeded = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    failed = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    certain = cutaway.where(q.probs == 0, p.probs > 0, cutaway.where(q.probs == 1, p.probs < 1, False))
    return cutaway.where(certain, math.inf, succeeded + failed)


@register_kl(d.Binomial, d.Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    # KL(Binomial(n, p) || Binomial(n, q)) = n KL(Bernoulli(p) || Bernoulli(q))
    if not bool((p.total_count <= q.total_count).all()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return cutaway.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(d.Geometric, d.Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - cutaway.log1p(-q.probs) / p.probs - q.logits


@register_kl(d.Poisson, d.Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(d.Categorical, d.Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    found = p.probs * (p.logits - q.logits)
    found = cutaway.where(q.probs == 0, math.inf, found)
    return cutaway.where(p.probs == 0, 0.0, found).sum(-1)


@register_kl(d.OneHotCategorical, d.OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p, q)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with                          different event shapes "
            "cannot be computed"
        )
    batch = cutaway.broadcast_shapes(p.batch_shape, q.batch_shape)
    size = p.event_shape[0]
    lower = q._unbroadcasted_scale_tril.expand((*batch, size, size))
    own = p._unbroadcasted_scale_tril.expand((*batch, size, size))
    spread = linalg.solve_triangular(lower, own, upper=False).pow(2).sum((-2, -1))
    moved = (q.loc - p.loc).expand((*batch, size)).unsqueeze(-1)
    apart = linalg.solve_triangular(lower, moved, upper=False).pow(2).sum((-2, -1))
    return _log_diagonal(lower) - _log_diagonal(own) + 0.5 * (spread + apart - size)


@register_kl(m.Independent, m.Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(m.TransformedDistribution, m.TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(r.Uniform, r.Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    entropy = (math.sqrt(math.pi * 2) * q.scale / width).log()
    within = width.pow(2) / 12
    return entropy + 0.5 * (within + ((p.high + p.low - 2 * q.loc) / 2).pow(2)) / q.scale.pow(2)


@register_kl(p_.Exponential, p_.Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    b = q.concentration
    return -b * ratio.log() + ratio + cutaway.lgamma(b) + b * EULER - (1 + EULER)
