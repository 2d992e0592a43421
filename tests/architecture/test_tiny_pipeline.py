"""The one-screen parts make a compiler of their own: what the restricted language holds, they compile right.

Input: small programs through `cutaway.TINY_PIPELINE`. What it does not hold falls back to eager, with the break said.
"""

from __future__ import annotations

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway


def pointwise(x, w):
    return cutaway.sin(cutaway.cos(x)) * w + 1.0


def normalised(x, w):
    return F.softmax(x @ w, 1)


def loss(x, w):
    h = F.gelu(F.layer_norm(x @ w, (6,)))
    return (h * h).mean()


def helper(x):
    return x.exp() - 1


def inlined(x, w):
    return helper(x).sum() + helper(w).sum()


@pytest.mark.parametrize("function", [pointwise, normalised, loss, inlined])
def test_forward_and_gradients_equal_eager(function):
    cutaway.manual_seed(0)
    shape = (5, 6) if function is pointwise else (6, 6)
    x, w = cutaway.randn(*shape, requires_grad=True), cutaway.randn(*shape, requires_grad=True)
    want = function(x, w)
    want.sum().backward()
    gradients = [t.grad.numpy() for t in (x, w)]
    x.grad = w.grad = None
    compiled = cutaway.compile(function, fullgraph=True, pipeline=cutaway.TINY_PIPELINE)
    got = compiled(x, w)
    got.sum().backward()
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=2e-5, atol=1e-6)
    for tensor, gradient in zip((x, w), gradients, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, rtol=2e-4, atol=1e-5)
    compiled(x, w)
    assert len(compiled.entries) == 1


def test_what_it_does_not_hold_runs_eagerly_and_says_so():
    def f(x):
        while x.sum() < 10:
            x = x * 2
        return x

    compiled = cutaway.compile(f, pipeline=cutaway.TINY_PIPELINE)
    np.testing.assert_array_equal(compiled(cutaway.ones(3)).numpy(), f(cutaway.ones(3)).numpy())
    assert len(compiled.breaks) == 1
    with pytest.raises(cutaway.Unsupported):
        cutaway.compile(f, fullgraph=True, pipeline=cutaway.TINY_PIPELINE)(cutaway.ones(3))


def test_another_shape_recompiles():
    compiled = cutaway.compile(pointwise, pipeline=cutaway.TINY_PIPELINE)
    for n in (2, 3, 2):
        x, w = cutaway.randn(n), cutaway.randn(n)
        np.testing.assert_allclose(compiled(x, w).numpy(), pointwise(x, w).numpy(), rtol=1e-5, atol=1e-6)
    assert len(compiled.entries) == 2
