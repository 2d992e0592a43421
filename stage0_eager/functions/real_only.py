"""The public operators that torch does not define on complex numbers, but whose bodies would give a value for them.

Input: the operator table, once all rows are there. Most operators need no entry: they reach a core operator that
refuses (complex_metas.py). Those here would cast the imaginary part away, or average and draw where torch does not.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from stage0_eager.table.evaluation import eager_call
from stage0_eager.table.registry import TABLE
from stage_contracts.complex_metas import first_complex, refused

REAL_ONLY = """
    deg2rad rad2deg deg2rad_ rad2deg_ logit logit_ isposinf isneginf nansum max min abs_ absolute_ arange_between
    lgamma gammaln digamma psi erfinv erfcx ndtri ndtr log_ndtr i0 i0e i1 i1e gammainc gammaincc igamma igammac zeta
    polygamma mvlgamma lgamma_ digamma_ erfinv_ i0_ igamma_ igammac_
    gelu glu layer_norm group_norm normalize_batch normalize_by_moments local_response_norm embedding_bag
    dropout alpha_dropout feature_alpha_dropout interpolate upsample_nearest
    avg_pool1d avg_pool2d avg_pool3d max_unpool1d max_unpool2d max_unpool3d
    randint_of_shape bernoulli bernoulli_ log_normal_ exponential_ cauchy_ geometric_ random_ uniform_ normal_
    linalg_householder_product cosine_similarity cdist pdist
""".split()


def _refusing(op: Any) -> None:
    body = op.body

    @wraps(body)
    def real_only(*args: Any, **kwargs: Any) -> Any:
        found = first_complex((*args, *kwargs.values()))
        if found is not None:
            raise refused(op.name, found)
        return body(*args, **kwargs)

    op.body = real_only
    op.eager = op.run = eager_call(op)


def refuse_complex() -> None:
    """Make the rows of REAL_ONLY refuse complex operands."""
    for name in REAL_ONLY:
        if f"cutaway.{name}" in TABLE:
            _refusing(TABLE[f"cutaway.{name}"])
