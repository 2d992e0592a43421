"""Sums of float32: as exact across memory as along it, and with every size that does not divide into blocks.

Oracle: the same sum in float64.
"""

import numpy as np
import pytest

from stage0_eager.functions.creation import from_numpy
from stage0_eager.functions.reductions import sum as total

SHAPES = {
    "a column": ((20_011, 3), (0,)),
    "the first two": ((3, 4_001, 5), (0, 1)),
    "a middle one": ((2, 2_047, 3), (1,)),
    "both sides": ((700, 2, 41), (0, 1)),
    "blocks and none left": ((2_048, 4), (-2,)),
}


def error(x: np.ndarray, dims: tuple[int, ...]) -> float:
    return float(np.abs(total(from_numpy(x), dims).numpy() - x.sum(dims, dtype=np.float64)).max())


@pytest.mark.parametrize(("shape", "dims"), SHAPES.values(), ids=SHAPES)
def test_across_memory_as_exact_as_along_it(shape, dims):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) + np.float32(1)
    along = np.moveaxis(np.moveaxis(x, dims, range(-len(dims), 0)).copy(), range(-len(dims), 0), dims)
    rounding = np.finfo(np.float32).eps * float(np.abs(x.sum(dims)).max())
    assert error(x, dims) <= 3 * max(error(along, dims), rounding)


def test_keepdim_and_layouts():
    x = np.arange(7 * 1_000 * 2, dtype=np.float32).reshape(7, 1_000, 2)
    for given in (x, x[:, ::2], np.swapaxes(x, 0, 1), np.broadcast_to(x[:1], (5, 1_000, 2))):
        for dims in ((0,), (1,), (0, 1), (-3, -2)):
            found = total(from_numpy(given), dims, keepdim=True).numpy()
            right = given.sum(dims, dtype=np.float64, keepdims=True)
            np.testing.assert_allclose(found, right, rtol=1e-6)
