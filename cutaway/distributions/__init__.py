"""torch.distributions: log_prob, entropy, samples, transforms, constraints and Kullback-Leibler divergences.

Input: parameters as numbers or tensors. Everything is plain Python over tensors, which compiled code follows; draws
that need a loop of unknown length are one operator each (draws.py).
"""

from cutaway.distributions import constraints, kl, transforms
from cutaway.distributions.constraint_registry import biject_to, transform_to
from cutaway.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from cutaway.distributions.distribution import Distribution, ExponentialFamily
from cutaway.distributions.kl import kl_divergence, register_kl
from cutaway.distributions.made_of_others import (
    Independent,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    MixtureSameFamily,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from cutaway.distributions.multivariate import MultivariateNormal
from cutaway.distributions.positive import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    HalfCauchy,
    HalfNormal,
)
from cutaway.distributions.real import Cauchy, Gumbel, Laplace, Normal, StudentT, Uniform
from cutaway.distributions.transforms import *  # noqa: F403
from cutaway.distributions.transforms import __all__ as _TRANSFORMS

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution", "Exponential",
    "ExponentialFamily", "FisherSnedecor", "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "InverseGamma", "Kumaraswamy", "Laplace", "LogNormal", "LogisticNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "Weibull", "biject_to", "constraints", "kl", "kl_divergence", "register_kl", "transform_to",
    "transforms", *_TRANSFORMS,
]  # fmt: skip
