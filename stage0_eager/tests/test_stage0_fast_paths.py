"""Kernels that take another way where arrays are large or repeat themselves: the same results as the plain way.

Input: sizes on both sides of each condition; NumPy's own functions are the reference.
"""

from itertools import combinations

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.table.core import core

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "turn", [lambda a: a, lambda a: a.T, lambda a: a[::-1, ..., ::-1]], ids="plain T back".split()
)
@pytest.mark.parametrize("shape", [(70, 2, 3, 16), (4, 2000), (2, 64, 32, 2), (5000, 1)])
def test_reductions_of_few_elements(shape, turn):
    x = turn(RNG.standard_normal(shape))
    for count in range(1, x.ndim + 1):
        for axes in combinations(range(x.ndim), count):
            for dims, keep in ((axes, False), (tuple(a - x.ndim for a in axes), True)):
                for reduction in ("sum", "prod"):
                    out = getattr(core, reduction)(Tensor(x), dims, keep)
                    np.testing.assert_allclose(
                        out.numpy(), getattr(x, reduction)(axes, keepdims=keep), atol=1e-9
                    )
                    assert out.meta == getattr(core, reduction).meta(Tensor(x).meta, dims, keep)


def test_a_reduction_refuses_the_same_dimensions_at_any_size():
    for shape in ((2, 3), (2, 9000)):
        for dims, error in (((0, 0), RuntimeError), ((0, -2), RuntimeError), ((2,), IndexError)):
            with pytest.raises(error):
                core.sum(Tensor(np.ones(shape)), dims, False)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 40, 7), (6, 1, 300)])
def test_one_vector_of_places_for_all(shape):
    x = RNG.standard_normal(shape)
    for dim, size in enumerate(shape):
        vector = RNG.integers(-size, size, 4)
        wide = (*shape[:dim], 4, *shape[dim + 1 :])
        index = np.broadcast_to(vector.reshape([-1 if d == dim else 1 for d in range(x.ndim)]), wide)
        picked = core.gather(Tensor(x), dim, Tensor(index))
        np.testing.assert_array_equal(picked.numpy(), x.take(vector, dim))
        np.testing.assert_array_equal(
            core.gather(Tensor(x), dim, Tensor(index.copy())).numpy(), picked.numpy()
        )
        src, want = RNG.standard_normal(wide), x.copy()
        for at, i in enumerate(vector):
            np.moveaxis(want, dim, 0)[i] += np.moveaxis(src, dim, 0)[at]
        for given in (index, index.copy()):
            got = core.scatter_add(Tensor(x), dim, Tensor(given), Tensor(src))
            np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
        for bad in (size, -size - 1):
            with pytest.raises(IndexError, match="out of bounds"):
                core.gather(Tensor(x), dim, Tensor(np.broadcast_to(np.array(bad), wide)))


def test_scatter_add_adds_up_where_places_repeat():
    x, src = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 9))
    index = RNG.integers(-4, 4, (3, 9))
    want = x.copy()
    for i, j in np.ndindex(index.shape):
        want[i, index[i, j]] += src[i, j]
    for laid in (x, np.asfortranarray(x)):
        got = core.scatter_add(Tensor(laid), 1, Tensor(index), Tensor(src))
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
