"""Draws from distributions, as new tensors and into existing ones: transforms of uniform draws.

Input: parameters as numbers or tensors. Each draw takes one counter of the generator per uniform draw, so that
compiled code gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stage0_eager.defaults import device_or_default, dtype_or_default
from stage0_eager.functions.creation import randint, shape_of
from stage0_eager.functions.index_checks import check_probabilities, within
from stage0_eager.functions.inplace import write
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.functions.shape import in_layout_of
from stage0_eager.random import exact_math
from stage0_eager.random.generator import (
    exponential,
    open_unit,
    randint_of_shape,
    rounded,
    uniform,
)
from stage0_eager.random.generator import normal as normal_draw
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import broadcast_shapes


@operator
def normal_of(mean, std, *, generator=None):
    """Normal draws with the mean and standard deviation of each element; at least one is a tensor."""
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if isinstance(std, Tensor) and not within(std, 0, math.inf, nan=True):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    shape = broadcast_shapes(*(x.shape for x in tensors))
    first = tensors[0]
    return rounded(c.add(c.mul(normal_draw(shape, first.device, generator), std), mean), first.dtype)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """normal(mean, std) with a tensor among them, or normal(mean, std, size) of numbers."""
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        if size is not None:
            raise TypeError("normal() takes a size only when mean and std are numbers")
        return normal_of(mean, std, generator=generator)
    if size is None:
        raise TypeError("normal() of two numbers needs a size")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    shape = shape_of((size,))
    out = c.full(shape, 0.0, dtype_or_default(dtype), device_or_default(device))
    return normal_(out, mean, std, generator=generator)


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None) -> Tensor:
    """randint_like(x, high) or randint_like(x, low, high): in x's shape and dtype."""
    low, high = (0, low) if high is None else (low, high)
    out = randint(low, high, input.shape, dtype=dtype or input.dtype, device=input.device)
    return out if input.is_contiguous() else in_layout_of(out, input)


@method
@operator
def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Places drawn with the probabilities that the last dimension of `input` (1-d or 2-d) gives, up to scale.

    With replacement: by the inverse of the running sum. Without: the places of the largest of p / exponential
    draws, one after another (Efraimidis and Spirakis, 2006).
    """
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.is_floating_point():
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype.name}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    categories, last = input.shape[-1], input.ndim - 1
    _check_distribution(input)
    weights = c.detach(c.cast(input, dt.float64))
    if replacement:
        bounds = c.cumsum(weights, last)
        total = c.slice(bounds, last, categories - 1, categories, 1)
        draw = uniform((*input.shape[:-1], num_samples), dt.float64, input.device, generator)
        place = c.reshape(c.mul(draw, total), (*input.shape[:-1], num_samples, 1))
        below = c.le(c.reshape(bounds, (*input.shape[:-1], 1, categories)), place)
        return c.sum(below, (last + 1,), False)
    if num_samples > categories:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    score = c.div(weights, exponential(input.shape, input.device, generator))
    ids = c.iota(categories, 0, 1, dt.int64, input.device)
    taken = []
    for _ in range(num_samples):
        best = c.argmax(score, last, True)
        taken.append(best)
        score = c.where(c.eq(ids, best), -math.inf, score)
    return c.cat(taken, last)


def _check_distribution(input: Any) -> None:
    """Raises RuntimeError for weights that are none, where the numbers are seen."""
    numbers = input._data
    if type(numbers) is not np.ndarray:
        return
    if not ((numbers >= 0) & (numbers < math.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (numbers > 0).any(-1).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _written(input: Any, draw: Any) -> Any:
    return write(input, rounded(draw, input.dtype))


def _unit(input: Any, generator: Any) -> Any:
    """Uniform on [0, 1) in input's shape, at least float32."""
    wide = dt.float64 if input.dtype is dt.float64 else dt.float32
    return uniform(input.shape, wide, input.device, generator)


@method
@operator
def uniform_(input, low=0.0, high=1.0, *, generator=None):
    """Fill with uniform draws from [low, high)."""
    needs_floating("uniform_", input)
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    return _written(input, c.add(c.mul(_unit(input, generator), high - low), low))


@method
@operator
def normal_(input, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal draws."""
    needs_floating("normal_", input)
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    return _written(input, c.add(c.mul(normal_draw(input.shape, input.device, generator), std), mean))


@method
@operator
def log_normal_(input, mean=1.0, std=2.0, *, generator=None):
    """Fill with the exponentials of normal draws."""
    needs_floating("log_normal_", input)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    draw = normal_draw(input.shape, input.device, generator)
    return _written(input, exact_math.exp(c.add(c.mul(draw, std), mean)))


@method
@operator
def exponential_(input, lambd=1.0, *, generator=None):
    """Fill with exponential draws of rate lambd."""
    needs_floating("exponential_", input)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _written(input, c.div(exponential(input.shape, input.device, generator), lambd))


@method
@operator
def cauchy_(input, median=0.0, sigma=1.0, *, generator=None):
    """Fill with draws from Cauchy's distribution."""
    needs_floating("cauchy_", input)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    turn = c.sub(open_unit(input.shape, input.device, generator), 0.5)
    return _written(input, c.add(c.mul(exact_math.tangent_of_half_turns(turn), sigma), median))


@method
@operator
def geometric_(input, p, *, generator=None):
    """Fill with how many trials of probability p the first success takes: 1, 2, ..."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    waiting = c.div(exponential(input.shape, input.device, generator), _rate(p, input.device))
    return _written(input, c.add(c.floor(waiting), 1))


def _rate(p: float, device: Any) -> Any:
    """-log(1 - p): log(w) * p / (1 - w) of w = 1 - p rounded makes up for what 1 - p lost."""
    w = 1.0 - p
    if w == 1.0:
        return p
    return c.div(c.mul(exact_math.log(c.full((), w, dt.float64, device)), p), w - 1.0)


@method
@operator
def bernoulli_(input, p=0.5, *, generator=None):
    """Fill with 1 with probability p (a number or a tensor), else 0."""
    if isinstance(p, Tensor):
        check_probabilities("bernoulli_", p)
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _written(input, c.lt(_unit(input, generator), p))


# One past the largest whole number up to which every one is a value of this dtype.
_WHOLE = {"float64": 2**53 + 1, "float32": 2**24 + 1, "float16": 2**11 + 1, "bfloat16": 2**8 + 1}


@method
@operator
def random_(input, low=None, high=None, *, generator=None):
    """random_(high) or random_(low, high): fill with integers in [low, high).

    Without numbers: with those from 0 that the dtype holds, a float's being the ones it holds exactly; up to 32 bits.
    """
    if low is None:
        whole = _WHOLE.get(input.dtype.name)
        low, high = 0, whole or (int(input.dtype.limits[1]) if input.dtype.limits else 1) + 1
    low, high = (0, low) if high is None else (low, high)
    return _written(input, randint_of_shape(low, high, input.shape, device=input.device, generator=generator))


IN_PLACE = (uniform_, normal_, log_normal_, exponential_, cauchy_, geometric_, bernoulli_, random_)
for _op in IN_PLACE:
    _op.mutates = ("input",)
