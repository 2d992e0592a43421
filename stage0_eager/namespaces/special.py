"""torch.special's names: the public special functions, gathered.

Input: the operator table; most functions have the same name there.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.registry import TABLE

_NAMES = (
    "digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr "
    "log_softmax logit logsumexp ndtr ndtri polygamma psi round sinc softmax xlog1py xlogy zeta"
)


def _gathered() -> dict[str, Any]:
    names = {name: TABLE[f"cutaway.{name}"] for name in _NAMES.split()}
    return names | {"multigammaln": TABLE["cutaway.mvlgamma"]}


globals().update(_gathered())

__all__ = list(_gathered())
