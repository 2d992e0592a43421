"""A max pool's gradient as a GPU computes it, window by window for each element, beside that of the CPU: scatter_add.

Input: pools of every form that takes it; elements that are equal, infinite, or not numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutaway as ct
from stage0_eager.functions.nn import pooling
from stage0_eager.table.core import core as c

# (size, kernel, stride, padding, ceil_mode)
POOLS = [
    ((7, 9), (3, 3), (2, 2), (1, 1), False),
    ((8, 8), (3, 3), (2, 2), (1, 1), False),
    ((6, 5), (2, 2), (2, 2), (0, 0), False),
    ((7, 7), (2, 2), (2, 2), (0, 0), True),
    ((9, 6), (5, 3), (1, 2), (2, 1), False),
    ((10, 4), (2, 3), (3, 1), (1, 0), True),
    ((4, 4), (4, 4), (4, 4), (0, 0), False),
    ((5, 5), (1, 1), (2, 2), (0, 0), False),
    ((11, 3), (3, 2), (5, 1), (1, 1), False),
]


def drawn(draw, shape, kind):
    x = draw.integers(-2, 3, shape).astype(np.float32)  # many are equal
    if kind == "infinite":
        x[draw.random(shape) < 0.7] = -np.inf
    if kind == "not a number":
        x[draw.random(shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("kind", ["equal", "infinite", "not a number"])
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_as_by_scatter_add(pool, kind):
    size, kernel, stride, padding, ceil_mode = pool
    draw = np.random.default_rng(len(kind))
    x = ct.from_numpy(drawn(draw, (2, 3, *size), kind)).requires_grad_()
    y = ct.nn.functional.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil_mode)
    g = ct.from_numpy(draw.integers(-4, 5, y.shape).astype(np.float32))
    (wanted,) = ct.autograd.grad(y, x, g)
    places = pooling.max_places(x, y, kernel, stride, padding, (1, 1))
    windows = list(zip(y.shape[-2:], kernel, stride, padding, (1, 1), strict=True))
    got = pooling._gathered_gradient(g, x, places, windows)
    np.testing.assert_array_equal(got.detach().numpy(), wanted.numpy())


def test_halves_are_rounded_once():
    x = ct.zeros(1, 1, 3, 3, dtype=ct.bfloat16)
    x[0, 0, 1, 1] = 1.0
    y = ct.nn.functional.max_pool2d(x, 2, 1)
    g = ct.tensor([[[[256.0, 1.0], [1.0, 1.0]]]]).to(ct.bfloat16)  # 256 + 1 is 256 in bfloat16
    places = pooling.max_places(x, y, (2, 2), (1, 1), (0, 0), (1, 1))
    got = pooling._gathered_gradient(g, x, places, [(2, 2, 1, 0, 1)] * 2)
    assert float(got[0, 0, 1, 1]) == float(c.cast(ct.tensor(259.0), ct.bfloat16))
