"""The public operators that torch does not define on complex numbers, but whose bodies would give a value for them.

Input: the operator table, once all rows are there. Most operators need no entry: they reach a core operator that
refuses (complex_metas.py). Those here would cast the imaginary part away, or average and draw where torch does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from stage0_eager.table.evaluation import eager_call
from stage0_eager.table.registry import TABLE
from stage_contracts.complex_metas import first_complex, refused

REAL_ONLY = """
    deg2rad rad2deg deg2rad_ rad2deg_ logit logit_ isposinf isneginf nansum max min abs_ absolute_ arange_between
    lgamma gammaln digamma psi erfinv erfcx ndtri ndtr log_ndtr i0 i0e i1 i1e gammainc gammaincc igamma igammac zeta
    polygamma mvlgamma lgamma_ digamma_ erfinv_ i0_ igamma_ igammac_
    gelu glu layer_norm group_norm normalize_batch normalize_by_moments normalize_by_own_moments local_response_norm
    embedding_bag
    dropout alpha_dropout feature_alpha_dropout interpolate upsample_nearest
    avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_unpool1d max_unpool2d max_unpool3d
    randint_of_shape bernoulli bernoulli_ log_normal_ exponential_ cauchy_ geometric_ random_ uniform_ normal_
    linalg_householder_product cosine_similarity cdist pdist
""".split()


# Complex Python numbers beside real tensors: torch converts these arguments to the tensor's dtype, and so refuses.
REAL_NUMBERS = """
    leaky_relu elu celu threshold threshold_ lerp fill_diagonal_ addmm addmv addr baddbmm addbmm addcmul addcdiv
""".split()
# Arguments that torch declares as floats, whatever the tensor.
FLOATS_ONLY = """
    nan_to_num nan_to_num_ rms_norm pairwise_distance pad linspace logspace trapezoid cumulative_trapezoid trapz
""".split()


def _real(name: str, values: tuple) -> None:
    found = first_complex(values)
    if found is not None:
        raise refused(name, found)


def _no_complex_number(name: str, values: tuple) -> None:
    number = next((v for v in values if type(v) is complex), None)
    if number is not None and first_complex(v for v in values if type(v) is not complex) is None:
        raise RuntimeError(f"{name}(): value cannot be converted to a real type without overflow: {number}")


def _floats(name: str, values: tuple) -> None:
    if any(type(v) is complex for v in values):
        raise TypeError(f"{name}(): a number must be float, not complex")


CHECKS = ((REAL_ONLY, _real), (REAL_NUMBERS, _no_complex_number), (FLOATS_ONLY, _floats))


def _checked(op: Any, check: Callable[[str, tuple], None]) -> None:
    """Make a row ask `check` about its arguments first."""
    assert op.eager is op.run, f"{op.name} has a faster function, which would not ask"
    op.body = _asking(op.body, check)
    op.eager = op.run = eager_call(op)


@cache
def _asking(body: Callable, check: Callable[[str, tuple], None]) -> Callable:
    """Cached, so that an alias keeps the body of the row that it stands for."""

    @wraps(body)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(body.__name__, (*args, *kwargs.values()))
        return body(*args, **kwargs)

    return checked


def refuse_complex() -> None:
    """Make the rows of the tables above refuse complex operands, or complex numbers."""
    for names, check in CHECKS:
        for name in names:
            if f"cutaway.{name}" in TABLE:
                _checked(TABLE[f"cutaway.{name}"], check)
