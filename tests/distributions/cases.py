"""Distributions with parameters, and values to ask about: for comparing with torch, and for compiling.

Input: `torch` is either one. CASES: (name, the distribution of a torch, values of its support).
"""

ROWS = [[0.5, 1.5, 2.5], [1.0, 2.0, 0.25]]
PROBS = [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]
COVARIANCE = [[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.5]]
TRIANGLE = [[1.5, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 0.8]]
REAL, UNIT, COUNT = [-1.5, 0.25, 3.0], [0.1, 0.5, 0.9], [0.0, 2.0, 4.0]
SHARES, HOT = [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]


def _(name, *parameters, values, **named):
    return name, parameters, named, values


# A list is a tensor; ("Name", ...) inside is a distribution or a transform.
CASES = [
    _("Normal", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=REAL),
    _("Normal", 0.5, 2.0, values=REAL),
    _("Laplace", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=REAL),
    _("Cauchy", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=REAL),
    _("Gumbel", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=REAL),
    _("StudentT", [0.5, 1.5, 5.0], [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=REAL),
    _("Uniform", [-2.0, 0.0, 1.0], [-1.0, 4.0, 3.5], values=[-1.5, 0.5, 3.0]),
    _("Exponential", [0.5, 1.0, 3.0], values=[0.1, 1.0, 4.0]),
    _("Gamma", [0.5, 1.0, 3.0], [2.0, 1.0, 0.5], values=[0.1, 1.0, 4.0]),
    _("Chi2", [0.5, 2.0, 5.0], values=[0.1, 1.0, 4.0]),
    _("Beta", [0.5, 2.0, 5.0], [1.5, 3.0, 0.7], values=UNIT),
    _("Dirichlet", ROWS, values=SHARES),
    _("FisherSnedecor", [1.0, 3.0, 5.0], [2.5, 6.0, 9.0], values=[0.1, 1.0, 4.0]),
    _("HalfNormal", [0.5, 1.0, 3.0], values=[0.1, 1.0, 4.0]),
    _("HalfCauchy", [0.5, 1.0, 3.0], values=[0.1, 1.0, 4.0]),
    _("LogNormal", [0.0, 1.0, -2.0], [1.0, 2.0, 0.5], values=[0.1, 1.0, 4.0]),
    _("LogisticNormal", [0.0, 1.0], [1.0, 2.0], values=SHARES),
    _("Pareto", [0.5, 1.0, 2.0], [1.5, 3.0, 2.5], values=[0.75, 1.5, 4.0]),
    _("Weibull", [0.5, 1.0, 2.0], [1.5, 3.0, 2.5], values=[0.75, 1.5, 4.0]),
    _("InverseGamma", [0.5, 1.5, 3.0], [2.0, 1.0, 0.5], values=[0.1, 1.0, 4.0]),
    _("Kumaraswamy", [0.5, 2.0, 5.0], [1.5, 3.0, 0.7], values=UNIT),
    _("Bernoulli", UNIT, values=[0.0, 1.0, 1.0]),
    _("Bernoulli", logits=REAL, values=[0.0, 1.0, 1.0]),
    _("Geometric", UNIT, values=COUNT),
    _("Binomial", 5, UNIT, values=COUNT),
    _("Binomial", [4.0, 5.0, 6.0], logits=REAL, values=COUNT),
    _("NegativeBinomial", [2.0, 3.5, 1.0], UNIT, values=COUNT),
    _("Poisson", [0.5, 2.0, 5.0], values=COUNT),
    _("Categorical", PROBS, values=[2, 1]),
    _("Categorical", logits=ROWS, values=[0, 2]),
    _("OneHotCategorical", PROBS, values=HOT),
    _("Multinomial", 4, PROBS, values=[1.0, 1.0, 2.0]),
    _("RelaxedBernoulli", [0.7], UNIT, values=UNIT),
    _("RelaxedOneHotCategorical", [0.7], PROBS, values=SHARES),
    _("MultivariateNormal", [0.0, 1.0, 2.0], COVARIANCE, values=REAL),
    _("MultivariateNormal", [0.0, 1.0, 2.0], precision_matrix=COVARIANCE, values=REAL),
    _("MultivariateNormal", ROWS, scale_tril=TRIANGLE, values=REAL),
    _("Independent", ("Normal", ROWS, 2.0), 1, values=REAL),
    _("MixtureSameFamily", ("Categorical", SHARES), ("Normal", REAL, [1.0, 0.5, 2.0]), values=[-1.0, 0.5]),
    _("TransformedDistribution", ("Normal", REAL, 2.0), ("TanhTransform",), values=[-0.5, 0.25, 0.75]),
    _(
        "TransformedDistribution", ("Uniform", 0.0, 1.0),
        [("SigmoidTransform", "inv"), ("AffineTransform", 2.0, 3.0)], values=REAL,
    ),
]  # fmt: skip
NAMES = [f"{case[0]}-{i}" for i, case in enumerate(CASES)]


def made(torch, what):
    """A parameter of a case in this torch."""
    if isinstance(what, tuple):
        if what[1:] == ("inv",):
            return getattr(torch.distributions, what[0])().inv
        return getattr(torch.distributions, what[0])(*(made(torch, part) for part in what[1:]))
    if isinstance(what, list) and isinstance(what[0], tuple):
        return [made(torch, part) for part in what]
    return torch.tensor(what) if isinstance(what, list) else what


def distribution(torch, case):
    name, parameters, named, values = case
    words = {key: made(torch, value) for key, value in named.items()}
    return getattr(torch.distributions, name)(*(made(torch, p) for p in parameters), **words), torch.tensor(
        values
    )


# pairs of one family, and two of different ones
PAIRS = [
    (_("Normal", REAL, [1.0, 2.0, 0.5], values=0), _("Normal", 0.5, 2.0, values=0)),
    (_("Laplace", REAL, [1.0, 2.0, 0.5], values=0), _("Laplace", 0.5, 2.0, values=0)),
    (_("Cauchy", REAL, [1.0, 2.0, 0.5], values=0), _("Cauchy", 0.5, 2.0, values=0)),
    (_("Gumbel", REAL, [1.0, 2.0, 0.5], values=0), _("Gumbel", 0.5, 2.0, values=0)),
    (_("Uniform", [0.0, 0.5], [1.0, 1.5], values=0), _("Uniform", [-1.0, 1.0], 2.0, values=0)),
    (_("Exponential", [0.5, 2.0], values=0), _("Exponential", [1.5, 0.3], values=0)),
    (_("Gamma", [0.5, 2.0], [1.0, 3.0], values=0), _("Gamma", [1.5, 0.3], [2.0, 0.5], values=0)),
    (_("Beta", [0.5, 2.0], [1.0, 3.0], values=0), _("Beta", [1.5, 0.3], [2.0, 0.5], values=0)),
    (_("Dirichlet", ROWS, values=0), _("Dirichlet", [1.0, 2.0, 3.0], values=0)),
    (_("HalfNormal", [0.5, 2.0], values=0), _("HalfNormal", [1.5, 0.3], values=0)),
    (_("LogNormal", [0.5, 2.0], [1.0, 3.0], values=0), _("LogNormal", [1.5, 0.3], [2.0, 0.5], values=0)),
    (_("Bernoulli", [0.2, 0.0, 0.7], values=0), _("Bernoulli", [0.5, 0.25, 1.0], values=0)),
    (_("Binomial", 4, [0.2, 0.7], values=0), _("Binomial", 4, [0.5, 0.25], values=0)),
    (_("Geometric", [0.2, 0.7], values=0), _("Geometric", [0.5, 0.25], values=0)),
    (_("Poisson", [0.2, 0.7], values=0), _("Poisson", [0.5, 0.25], values=0)),
    (_("Categorical", PROBS, values=0), _("Categorical", logits=ROWS, values=0)),
    (_("OneHotCategorical", PROBS, values=0), _("OneHotCategorical", logits=ROWS, values=0)),
    (
        _("MultivariateNormal", REAL, COVARIANCE, values=0),
        _("MultivariateNormal", ROWS, scale_tril=TRIANGLE, values=0),
    ),
    (
        _("Independent", ("Normal", ROWS, 2.0), 1, values=0),
        _("Independent", ("Normal", ROWS, 1.0), 1, values=0),
    ),
    (_("Uniform", [0.0, 0.5], [1.0, 1.5], values=0), _("Normal", 0.5, 2.0, values=0)),
    (_("Exponential", [0.5, 2.0], values=0), _("Gamma", [1.5, 0.3], [2.0, 0.5], values=0)),
]
