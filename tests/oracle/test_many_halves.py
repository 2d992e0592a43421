"""More elements of float16 than the largest half: means, variances, norms and losses, eager and compiled, and gradients.

Input: 70,001 numbers between 0.5 and 3.5, or 700 between 2,560 and 14,848, and float64 as the oracle. Their sum, and their count, is infinity as a half:
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
    "logsumexp of equals": lambda x: cutaway.logsumexp(x * 0 + 1, 0),
    "softmax": lambda x: F.softmax(x * 0.03125, 0) * 256 * x,
    "log_softmax": lambda x: F.log_softmax(x * 0.03125, 0)[:100],
    "layer norm": lambda x: F.layer_norm(x, (COUNT,)) * x,
    "layer norm, affine": lambda x: F.layer_norm(x, (COUNT,), x * 0 + 2, x * 0 + 0.5) * x,
    "group norm": lambda x: F.group_norm(x.reshape(1, 1, -1), 1) * x,
    "batch norm": lambda x: F.batch_norm(x.reshape(-1, 1), None, None, training=True)[:, 0] * x,
    "instance norm": lambda x: F.instance_norm(x.reshape(1, 1, -1)) * x,
    "a mean by hand": lambda x: (x / 16).sum() / COUNT * 16,
    "dot": lambda x: cutaway.dot(x / 64, x / 64),
    "matmul": lambda x: (x[None] / 64) @ (x[:, None] / 64),
    "addmm": lambda x: cutaway.addmm(x[:1, None], x[None], x[:, None], beta=0.5, alpha=1 / 1024),
}
# Elements so large that what is made of them in between is larger than any half.
LARGE = {
    "std": lambda x: x.std(),
    "std of columns": lambda x: x.reshape(100, 7).std(0),
    "std_mean": lambda x: cutaway.std_mean(x)[0],
    "layer norm": lambda x: F.layer_norm(x.reshape(100, 7), (7,)) * (x.reshape(100, 7) / 64),
    "group norm": lambda x: F.group_norm(x.reshape(10, 10, 7), 5) * (x.reshape(10, 10, 7) / 64),
    "batch norm": lambda x: (
        F.batch_norm(x.reshape(100, 7), None, None, training=True) * (x.reshape(100, 7) / 64)
    ),
    "rms norm": lambda x: F.rms_norm(x.reshape(100, 7), (7,)) * (x.reshape(100, 7) / 64),
    "instance norm": lambda x: F.instance_norm(x.reshape(10, 7, 10)) * (x.reshape(10, 7, 10) / 64),
    "lerp": lambda x: cutaway.lerp(x, -x, 0.25),
    "addcmul": lambda x: cutaway.addcmul(x, x, x, value=1e-5),
    "addcdiv": lambda x: cutaway.addcdiv(x, x, x / 64, value=0.5),
    "addmm": lambda x: cutaway.addmm(x[:7, None], x.reshape(7, 100), x[:100, None], alpha=2.0**-20),
    "addr": lambda x: cutaway.addr(x[:7], x[:7], x[:7], alpha=2.0**-14),
    "renorm": lambda x: cutaway.renorm(x.reshape(100, 7), 2, 0, 1000.0),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": lambda x: F.softplus(x / 1024),
    "round": lambda x: cutaway.round(x, decimals=2) + x,
    "softmax": lambda x: F.softmax(x.reshape(100, 7) / 4096, 1) * (x.reshape(100, 7) / 4096),
}


def result_and_gradient(function, dtype, numbers=NUMBERS):
    x = cutaway.from_numpy(numbers).to(dtype).requires_grad_()
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


@pytest.mark.parametrize("name", LARGE)
def test_what_a_half_holds_at_the_end_is_that_of_float64(name):
    function, numbers = LARGE[name], (NUMBERS[:700] * 4096 + 512).astype(np.float16)
    wanted = result_and_gradient(function, cutaway.float64, numbers)
    for run in (function, cutaway.compile(function, fullgraph=True)):
        for got, want in zip(result_and_gradient(run, cutaway.float16, numbers), wanted, strict=True):
            assert np.abs(got - want).max() <= 4e-3 * np.abs(want).max() + 2.0**-20, (got, want)
