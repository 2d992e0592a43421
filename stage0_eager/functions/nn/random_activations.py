"""Activations that draw numbers: rrelu, and gumbel_softmax, a sample of a class that has a gradient.

Input: tensors; the draws come from the default generator.
"""

from __future__ import annotations

from stage0_eager.functions.reductions import softmax
from stage0_eager.random import exact_math
from stage0_eager.random.generator import exponential, rounded, uniform
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim


@operator
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """x above 0, below it x times a slope drawn from [lower, upper] per element; their mean when not training."""
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    slope = (
        c.add(c.mul(uniform(input.shape, input.dtype, input.device), upper - lower), lower)
        if training
        else (lower + upper) / 2
    )
    return c.where(c.gt(input, 0), input, c.mul(input, slope))


@operator
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """softmax((logits + Gumbel noise) / tau); with `hard` its argmax one-hot, with the gradient of the soft one.

    Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax" (2017).
    """
    noise = rounded(c.neg(exact_math.log(exponential(logits.shape, logits.device))), logits.dtype)
    soft = softmax(c.div(c.add(logits, noise), tau), dim)
    if not hard:
        return soft
    dim = wrap_dim(dim, logits.ndim)
    classes = c.iota(logits.shape[dim], 0, 1, dt.int64, logits.device)
    classes = c.reshape(classes, tuple(-1 if i == dim else 1 for i in range(logits.ndim)))
    chosen = c.cast(c.eq(c.argmax(soft, dim, True), classes), soft.dtype)
    return c.add(c.sub(chosen, c.detach(soft)), soft)
