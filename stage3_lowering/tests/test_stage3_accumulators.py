"""Reductions along rows of known length, 32 elements side by side: right values, and the same bits on every machine.

Input: graphs over rows of a length that 32 divides, compiled without SIMD code, with that of every machine, and with
all that this machine has.
"""

import numpy as np
import pytest

from stage3_lowering.tests import programs
from stage3_lowering.tests.cpp_runner import CLANG, run_cpp
from stage3_lowering.tests.graphs import CPP, assert_close, trace
from stage3_lowering.tests.test_stage3_row_lanes import LEVELS, SPECIAL, answers, kernel_of, reductions

# One step of a block and two; a block with a rest; blocks of 128 and of 256, with a rest and without.
LENGTHS = [64, 96, 128, 160, 256, 288, 992, 1024, 1056, 4096]


def program_of(seam, function, *arrays):
    graph = trace(function, *arrays)
    return seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP), CPP)


def total(c, x):
    return c.sum(c.mul(x, x), (1,), False)


@pytest.mark.conformance("lower", "fuse", "schedule", "emit", tier="full")
@pytest.mark.parametrize("flags", LEVELS)
@pytest.mark.parametrize("length", LENGTHS)
def test_each_reduction(seam, flags, length):
    """Small numbers, so that NumPy's answer is exact; NaN, infinities and zeros of both signs in some rows."""
    rng = np.random.default_rng(length)
    arrays = rng.choice(np.float32([1, -1]), (2, 4, length))
    arrays[0, 1, length // 2], arrays[1, 2, -1] = SPECIAL[length // 32 % 7], SPECIAL[length // 32 % 5]
    program = program_of(seam, reductions, *arrays)
    for found, wanted in zip(run_cpp(program, list(arrays), flags=flags), answers(*arrays), strict=True):
        assert_close(found, wanted.astype(np.float32), 4, str(length), signed_zeros=False)


@pytest.mark.skipif(CLANG, reason="clang's lanes and its loop's end differ in exp")
@pytest.mark.parametrize("length", [64, 288, 4096])
def test_a_sum_has_the_same_bits_on_every_machine(seam, length):
    """Fails where the compiler chooses the lanes: 4, 8 or 16 sums, each of other elements."""
    x = np.random.default_rng(length).standard_normal((64, length), np.float32)
    program = program_of(seam, total, x)
    assert "cutaway::Accumulators<float>" in kernel_of(program)
    bits = {run_cpp(program, [x], flags=flags)[0].tobytes() for flags in LEVELS}
    assert len(bits) == 1


@pytest.mark.parametrize("length", [60, 100, 40])
def test_other_lengths_have_none(seam, length):
    x = np.ones((8, length), np.float32)
    program = program_of(seam, programs.softmax, x)
    assert "cutaway::Accumulators" not in kernel_of(program)
    np.testing.assert_allclose(run_cpp(program, [x])[0], 1 / length, rtol=1e-6)
