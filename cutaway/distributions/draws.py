"""Draws that need a loop of unknown length: gamma, Poisson, binomial. Each is one operator, which no stage looks into.

Input: the parameters, and a seed that is drawn like any other random number, so that compiled code gives the same
draws. NumPy's samplers make them, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cutaway
from cutaway import Tensor
from stage0_eager.library.custom_op import custom_op

special: Any = cutaway.special

STEP = 1e-4  # of the derivative by the gamma's parameter, as a part of it


def _generator(seed: Tensor) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(int(seed.item())))


def _back(draws: np.ndarray, like: Tensor) -> Tensor:
    return cutaway.tensor(draws, dtype=like.dtype, device=like.device)


def _new_seed() -> Tensor:
    return cutaway.randint(0, 2**62, (1,))


@custom_op("cutaway_distributions::standard_gamma", mutates_args=())
def standard_gamma_of(alpha: Tensor, seed: Tensor) -> Tensor:
    """One draw for each alpha. Never 0."""
    draws = _generator(seed).standard_gamma(alpha.cpu().numpy().astype(np.float64))
    return _back(np.maximum(draws, float(cutaway.finfo(alpha.dtype).tiny)), alpha)


@custom_op("cutaway_distributions::poisson", mutates_args=())
def poisson_of(rate: Tensor, seed: Tensor) -> Tensor:
    """One draw for each rate."""
    return _back(_generator(seed).poisson(rate.cpu().numpy().astype(np.float64)), rate)


@custom_op("cutaway_distributions::binomial", mutates_args=())
def binomial_of(count: Tensor, prob: Tensor, seed: Tensor) -> Tensor:
    """One draw for each count and probability."""
    counts = count.cpu().numpy().astype(np.int64)
    return _back(_generator(seed).binomial(counts, prob.cpu().numpy().astype(np.float64)), prob)


standard_gamma_of.register_fake(lambda alpha, seed: cutaway.empty_like(alpha))
poisson_of.register_fake(lambda rate, seed: cutaway.empty_like(rate))
binomial_of.register_fake(lambda count, prob, seed: cutaway.empty_like(prob))


def _setup(ctx, inputs, output) -> None:
    ctx.save_for_backward(inputs[0], output)


def _gamma_backward(ctx, g):
    """A draw z solves F(z; alpha) = u, so dz/dalpha = -(dF/dalpha) / density (implicit reparameterisation, Figurnov,
    Mohamed and Mnih, 2018). dF/dalpha is a central difference, in float64."""
    alpha, z = (t.to(cutaway.float64) for t in ctx.saved_tensors)
    step = alpha * STEP
    slope = (special.gammainc(alpha + step, z) - special.gammainc(alpha - step, z)) / (2 * step)
    log_density = (alpha - 1) * cutaway.log(z) - z - cutaway.lgamma(alpha)
    return (-slope * cutaway.exp(-log_density)).to(g.dtype) * g, None


standard_gamma_of.register_autograd(_gamma_backward, setup_context=_setup)


def standard_gamma(alpha: Tensor) -> Tensor:
    """Draws of Gamma(alpha, 1), on the tape."""
    return standard_gamma_of(alpha.contiguous(), _new_seed())


def poisson(rate: Tensor) -> Tensor:
    return poisson_of(rate.contiguous(), _new_seed())


def binomial(count: Tensor, prob: Tensor) -> Tensor:
    return binomial_of(count.contiguous(), prob.contiguous(), _new_seed())
