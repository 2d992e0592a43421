"""Contractions in C++: random products of every shape and layout, beside NumPy in float64.

`python -m tests.kernels.test_contractions_compiled --programs N --seed S` draws more. Axes: one to four dimensions, sizes from 0
to 40 with ones, batches that broadcast, operands whole, transposed, sliced and shifted, float32 and float64, open sizes;
products that a team of threads shares, in teams of one to nine.
"""

import argparse
import random

import numpy as np
import pytest

import cutaway
from stage_contracts.segments import Segment, segments
from tests.kernels.teams import team

SIZES = (1, 1, 2, 3, 5, 16, 17, 40)


def operand(draw, shape, dtype):
    """A tensor of that shape over other memory: each a way to lie that BLAS takes, or does not."""
    generator = np.random.default_rng(draw.randrange(1 << 30))
    way = draw.choice(["whole", "transposed", "sliced", "stepped", "shifted"])
    if way == "transposed":
        return generator.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype).swapaxes(-1, -2)
    if way == "sliced":
        return generator.standard_normal((*shape[:-1], shape[-1] + 3)).astype(dtype)[..., 1:-2]
    if way == "stepped":
        return generator.standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    if way == "shifted":
        return generator.standard_normal((*shape[:-2], shape[-2] + 1, shape[-1])).astype(dtype)[..., 1:, :]
    return generator.standard_normal(shape).astype(dtype)


def check(seed):
    """One product in a compiled function, before and after loops; True where C++ called BLAS."""
    draw = random.Random(seed)
    m, k, n = (draw.choice(SIZES) for _ in range(3))
    if draw.random() < 0.05:
        m, k, n = (draw.choice((0, size)) for size in (m, k, n))
    elif draw.random() < 0.4:
        m, k, n = (draw.choice((size, draw.randint(50, 300))) for size in (m, k, n))
    batch = tuple(draw.choice((1, 2, 3)) for _ in range(draw.choice((0, 0, 1, 2))))
    left = batch if draw.random() < 0.6 else tuple(draw.choice((1, size)) for size in batch)
    right = batch if draw.random() < 0.6 else batch[draw.randint(0, len(batch)) :]
    dtype = draw.choice((np.float32, np.float64))
    a, b = operand(draw, (*left, m, k), dtype), operand(draw, (*right, k, n), dtype)

    def f(x, y):
        return (x @ y) * 2 + 1, y.mT @ x.mT

    compiled = cutaway.compile(f, fullgraph=True, dynamic=draw.random() < 0.3 or None)
    with team(draw.choice((1, 2, 3, 9))):
        got, turned = (t.numpy() for t in compiled(cutaway.from_numpy(a), cutaway.from_numpy(b)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    what = f"seed {seed}: {a.shape} {b.shape}"
    np.testing.assert_allclose(got, want * 2 + 1, rtol=1e-4, atol=1e-4, err_msg=what)
    np.testing.assert_allclose(turned, want.swapaxes(-1, -2), rtol=1e-4, atol=1e-4, err_msg=what)
    program = compiled.artifacts[-1].forward.emitted["cpp"]
    return any(isinstance(s, Segment) and len(s.steps) > 2 for s in segments(program))


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_products(first):
    assert sum(check(seed) for seed in range(first, first + 10)) >= 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    in_cpp = sum(check(seed) for seed in range(options.seed, options.seed + options.programs))
    print(f"{options.programs} products right, {in_cpp} with BLAS from C++")
