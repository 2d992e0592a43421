"""torch.distributions and its files, by which published code imports: cutaway.distributions under torch's paths.

Input: the public names of cutaway.distributions.
"""

from __future__ import annotations

import re
from typing import Any

from cutaway import distributions
from cutaway.distributions import constraint_registry, constraints, distribution, kl, transforms
from cutaway.torch_api.absent import absent

_ALL: dict[str, Any] = {name: getattr(distributions, name) for name in distributions.__all__}
_CLASSES = {
    name: value
    for name, value in _ALL.items()
    if isinstance(value, type) and issubclass(value, distribution.Distribution)
}


def _file(name: str) -> str:
    """torch's file of a class: OneHotCategorical is in one_hot_categorical."""
    return {"StudentT": "studentT", "FisherSnedecor": "fishersnedecor", "Chi2": "chi2"}.get(
        name, re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
    )


NOT_HERE = (  # importable; each raises when it is used
    "CatTransform ContinuousBernoulli CorrCholeskyTransform GeneralizedPareto LKJCholesky LowRankMultivariateNormal "
    "PositiveDefiniteTransform VonMises Wishart"
).split()

PATHS: dict[str, dict[str, Any]] = {
    "torch.distributions": {**_ALL, **{name: absent(f"torch.distributions.{name}") for name in NOT_HERE}},
    "torch.distributions.constraints": {k: v for k, v in vars(constraints).items() if k[0] != "_"},
    "torch.distributions.constraint_registry": {
        name: getattr(constraint_registry, name)
        for name in ("ConstraintRegistry", "biject_to", "transform_to")
    },
    "torch.distributions.kl": {"kl_divergence": kl.kl_divergence, "register_kl": kl.register_kl},
    "torch.distributions.transforms": {name: getattr(transforms, name) for name in transforms.__all__},
    "torch.distributions.utils": {
        name: getattr(distribution, name) for name in ("broadcast_all", "logits_to_probs", "probs_to_logits")
    },
    **{f"torch.distributions.{_file(name)}": {name: value} for name, value in _CLASSES.items()},
}
PATHS["torch.distributions.utils"]["_sum_rightmost"] = distribution.sum_rightmost
