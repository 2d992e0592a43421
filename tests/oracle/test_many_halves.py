"""More elements of float16 than the largest half: means, variances, norms and losses, eager and compiled, and gradients.

Input: 70,001 numbers between 0.5 and 3.5, and float64 as the oracle. Their sum, and their count, is infinity as a half:
before, each of these was NaN, 0 or infinity. (Other tests reduce few elements, so that none was found.)
"""

from __future__ import annotations

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway

COUNT = 70_001
NUMBERS = (np.random.default_rng(0).random(COUNT) * 3 + 0.5).astype(np.float16)
FUNCTIONS = {
    "mean": lambda x: x.mean(),
    "mean of columns": lambda x: x.reshape(-1, 1).mean(0),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(unbiased=False),
    "var_mean": lambda x: cutaway.var_mean(x)[1],
    "vector norm": lambda x: cutaway.linalg.vector_norm(x),
    "pairwise distance": lambda x: F.pairwise_distance(x[None], x[None] * 0),
    "normalize": lambda x: F.normalize(x, dim=0) * 256,
    "cosine similarity": lambda x: F.cosine_similarity(x, 4 - x, 0) * 256,
    "mse": lambda x: F.mse_loss(x, x * 0),
    "l1": lambda x: F.l1_loss(x, x * 0),
    "huber": lambda x: F.huber_loss(x, x * 0),
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(x, x * 0),
    "cross entropy": lambda x: F.cross_entropy(cutaway.stack([x, x * 0.5], 1), (x > 2).long()),
    "cross entropy, ignored": lambda x: F.cross_entropy(
        cutaway.stack([x, x * 0.5], 1), (x > 2).long(), ignore_index=1
    ),
    "cross entropy, weighted": lambda x: F.cross_entropy(
        cutaway.stack([x, x * 0.5], 1), (x > 2).long(), cutaway.tensor([0.5, 1.5], dtype=x.dtype)
    ),
    "soft margin": lambda x: F.soft_margin_loss(x, x.sign()),
    "average pooling": lambda x: F.adaptive_avg_pool1d(x[None, None], 1),
    "rms norm": lambda x: F.rms_norm(x, (COUNT,)),
    "logsumexp": lambda x: cutaway.logsumexp(x, 0),
}


def result_and_gradient(function, dtype):
    x = cutaway.from_numpy(NUMBERS).to(dtype).requires_grad_()
    out = function(x)
    (out.sum() * 64).backward()  # gradients of a mean would be smaller than the least half
    return out.detach().to(cutaway.float64).numpy(), x.grad.to(cutaway.float64).numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_reduction_of_many_halves_is_that_of_float64(name):
    function = FUNCTIONS[name]
    wanted = result_and_gradient(function, cutaway.float64)
    for run in (function, cutaway.compile(function, fullgraph=True)):
        for got, want in zip(result_and_gradient(run, cutaway.float16), wanted, strict=True):
            assert np.abs(got - want).max() <= 4e-3 * np.abs(want).max() + 2.0**-20, (got, want)
