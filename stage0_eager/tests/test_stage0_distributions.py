"""Draws: their moments, their distribution function, their errors, and that a seed gives them again.

Input: in-place fills held against the distribution functions of scipy.stats (Kolmogorov and Smirnov's distance).
"""

import numpy as np
import pytest
import scipy.stats as stats

from stage0_eager.functions import random_sampling as D
from stage0_eager.functions.creation import tensor, zeros
from stage0_eager.random import generator as random
from stage_contracts import dtype as dt

N = 4000
CONTINUOUS = {
    "uniform": (lambda x: x.uniform_(-1, 3), stats.uniform(-1, 4)),
    "uniform by default": (lambda x: x.uniform_(), stats.uniform()),
    "normal": (lambda x: x.normal_(2, 0.5), stats.norm(2, 0.5)),
    "log_normal": (lambda x: x.log_normal_(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "exponential": (lambda x: x.exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy": (lambda x: x.cauchy_(1, 2), stats.cauchy(1, 2)),
    "normal of tensors": (lambda x: D.normal(x + 1, x + 2), stats.norm(1, 2)),
    "normal of a size": (lambda x: D.normal(3, 2, (N,)), stats.norm(3, 2)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64])
def test_distribution(name, dtype):
    fill, law = CONTINUOUS[name]
    random.manual_seed(7)
    x = zeros(N, dtype=dtype)
    out = fill(x)
    assert stats.kstest(out.numpy(), law.cdf).statistic < 1.95 / np.sqrt(N)
    random.manual_seed(7)
    assert fill(zeros(N, dtype=dtype)).tolist() == out.tolist()
    assert fill(zeros(N, dtype=dtype)).tolist() != out.tolist()


def test_discrete_draws():
    random.manual_seed(3)
    x = zeros(N)
    assert x.bernoulli_(0.3) is x and abs(x.mean().item() - 0.3) < 0.03 and set(x.tolist()) == {0, 1}
    assert zeros(2).bernoulli_(tensor([0.0, 1.0])).tolist() == [0, 1]
    assert abs(x.geometric_(0.25).mean().item() - 4) < 0.3 and x.min().item() == 1
    assert set(x.random_(2, 5).tolist()) == {2, 3, 4} and set(x.random_(2).tolist()) == {0, 1}
    like = D.randint_like(x, 3)
    assert like.dtype is x.dtype and set(like.tolist()) == {0, 1, 2}
    assert random.bernoulli(x, 0.5).dtype is x.dtype
    half = zeros(100).to("float16").uniform_()
    assert half.dtype.name == "float16" and 0.3 < half.mean().item() < 0.7


def test_multinomial():
    random.manual_seed(5)
    weights = np.array([[1.0, 0, 3, 4], [0, 0, 5, 0]])
    many = D.multinomial(tensor(weights), N, True).numpy()
    assert many.shape == (2, N) and many.dtype == np.int64 and set(many[1]) == {2}
    share = np.bincount(many[0], minlength=4) / N
    np.testing.assert_allclose(share, weights[0] / 8, atol=0.03)
    firsts = [D.multinomial(tensor(weights[0]), 3).tolist() for _ in range(600)]
    assert all(sorted(draw) == [0, 2, 3] for draw in firsts)
    share = np.bincount([draw[0] for draw in firsts], minlength=4) / 600
    np.testing.assert_allclose(share, weights[0] / 8, atol=0.08)


ERRORS = {
    "uniform": (lambda: zeros(1).uniform_(2, 1), RuntimeError, "range"),
    "normal": (lambda: zeros(1).normal_(0, -1), RuntimeError, "std >= 0.0"),
    "exponential": (lambda: zeros(1).exponential_(0), RuntimeError, "lambda > 0.0"),
    "bernoulli": (lambda: zeros(1).bernoulli_(2), RuntimeError, r"in \[0, 1\]"),
    "geometric": (lambda: zeros(1).geometric_(1), RuntimeError, r"in \(0, 1\)"),
    "random": (lambda: zeros(1).random_(2, 2), RuntimeError, "less than"),
    "normal without a size": (lambda: D.normal(0, 1), TypeError, "size"),
    "multinomial": (lambda: D.multinomial(tensor([1.0, 2.0]), 3), RuntimeError, "without replacement"),
    "multinomial of a cube": (lambda: D.multinomial(zeros(1, 1, 1), 1), RuntimeError, "1 or 2 dim"),
    "multinomial of none": (lambda: D.multinomial(zeros(2), 0), RuntimeError, "n_sample <= 0"),
    "a leaf": (lambda: zeros(1).requires_grad_().uniform_(), RuntimeError, "leaf Variable"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    action, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        action()
