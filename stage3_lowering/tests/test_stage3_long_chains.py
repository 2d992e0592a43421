"""Elementary functions that wait for one another, in loops of their own: the same bits as in one loop.

Input: chains of two to nine functions over sizes around a tile's, with shared, broadcast, half, transposed and boolean
values; kernels that stay one loop.
"""

import numpy as np
import pytest

from stage3_lowering.lowering import schedule_kernels
from stage3_lowering.lowering.long_chains import MOST_STAGES, SHORTEST, TILES
from stage3_lowering.tests.cpp_runner import CLANG, run_cpp
from stage3_lowering.tests.graphs import CPP, check, trace
from stage_contracts import dtype as dt

RNG = np.random.default_rng(14)


def emitted(seam, function, arrays):
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP)
    return seam("emit")(program, CPP)


def loops(program):
    return program.units[-1].text.count("#pragma omp simd")


def chain(c, x):
    return c.sub(c.mul(c.tanh(c.add(c.exp(c.neg(c.mul(x, x))), 0.5)), 2.0), x)


def deep(c, x):
    """Nine functions, one after the other; the first of them is read again at the end."""
    first = y = c.sin(x)
    for _ in range(4):
        y = c.cos(c.exp(c.mul(y, 0.5)))
    return c.add(y, first)


def widened(c, x):
    return c.cast(c.tanh(c.exp(c.cast(x, dt.float32))), dt.bfloat16)


def rounded_between(c, x):
    return c.tanh(c.cast(c.exp(x), dt.bfloat16))


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


ROWS, COLUMN = floats(5, 300), floats(5, 1)
KINDS = {  # name: (function, arrays, how many loops)
    "two": (chain, [floats(1000)], 2),
    "float64": (chain, [floats(1000, dtype=np.float64)], 2),
    "nine": (deep, [floats(700)], 3),
    "a row's own value": (lambda c, x, y: c.tanh(c.add(c.exp(x), c.mul(y, 2.0))), [ROWS, COLUMN], 2),
    "a value of both loops": (lambda c, x: c.mul(c.log1p(e := c.exp(x)), e), [ROWS], 2),
    "two results": (lambda c, x: (e := c.exp(x), c.sin(e)), [ROWS], 2),
    "a mask between": (lambda c, x: c.where(c.gt(c.exp(x), 1.0), c.sin(c.exp(x)), x), [ROWS], 2),
    "a mask kept": (lambda c, x: c.where(c.gt(c.exp(x), 1.0), c.sin(c.mul(x, x)), c.cos(c.sin(x))), [ROWS], 2),
    "halves, float32 between": (lambda c, x: widened(c, c.cast(x, dt.bfloat16)), [ROWS], 2),
    "halves between": (lambda c, x: c.cast(rounded_between(c, x), dt.float32), [ROWS], 2),
    "every second element": (chain, [floats(1400)[::2]], 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_are_those_of_one_loop(seam, kind, monkeypatch):
    function, arrays, count = KINDS[kind]
    split = emitted(seam, function, arrays)
    assert loops(split) == count <= MOST_STAGES
    monkeypatch.setattr(schedule_kernels, "tile_of", lambda *given: 0)
    whole = emitted(seam, function, arrays)
    assert loops(whole) == 1
    for one, other in zip(run_cpp(split, arrays), run_cpp(whole, arrays), strict=True):
        assert CLANG or one.tobytes() == other.tobytes()  # clang: see test_stage3_vector_math.py
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("schedule", "emit")
@pytest.mark.parametrize("size", [SHORTEST - 1, SHORTEST, 1000, TILES[0] * 3 + 1])
def test_every_way_gives_numpys_values(seam, size):
    x = np.concatenate([floats(size - 4), np.float32([np.inf, -np.inf, np.nan, -0.0])])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.tanh(np.exp(-x * x) + np.float32(0.5))
    check(seam, lambda c, x: c.tanh(c.add(c.exp(c.neg(c.mul(x, x))), 0.5)), [x], [wanted], ulps=8)


def test_what_stays_one_loop(seam):
    turned = floats(300, 300)
    one = {
        "short": (chain, [floats(SHORTEST - 1)]),
        "beside one another": (lambda c, x: c.add(c.exp(x), c.sin(x)), [ROWS]),
        "of a row alone": (lambda c, x, y: c.mul(x, c.tanh(c.exp(y))), [ROWS, COLUMN]),
        "in tiles of a transposition": (lambda c, x, y: c.tanh(c.exp(c.add(c.permute(x, (1, 0)), y))),
                                        [turned, turned]),
    }  # fmt: skip
    for name, (function, arrays) in one.items():
        assert "_tile[" not in emitted(seam, function, arrays).units[-1].text, name
