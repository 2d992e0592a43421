"""Compiled loops are vectorised by GCC, as their build's flags have it; and divisions in lanes are exact.

Input: programs whose loops once ran one element at a time, 5 to 50 times as long: compilers make no lanes of what loads
a bool, of two comparisons that are a branch, of a C call. Then the oracle's calls (operator_loops.py).
"""

import platform

import numpy as np
import pytest

import cutaway
from stage3_lowering.tests.cpp_runner import CLANG
from tests.kernels.lanes import loops_of
from tests.kernels.operator_loops import DTYPES, EXCEPTIONS, REASONS, cases, walk
from tests.oracle.spec import ROWS

PROGRAMS = {
    "where": lambda x, y, m: cutaway.where(m, x, y),
    "masked_fill": lambda x, y, m: x.masked_fill(m, 0.0),
    "softplus": lambda x, y, m: cutaway.nn.functional.softplus(x),
    "long": lambda x, y, m: x.long(),
    "scaled long": lambda x, y, m: (x * 2).long(),
    "fmod": lambda x, y, m: cutaway.fmod(x, y),
    "remainder": lambda x, y, m: x % y,
    "floor_divide": lambda x, y, m: x // y,
    "cube": lambda x, y, m: x**3,
}
ON_GCC = pytest.mark.skipif(CLANG or platform.machine() != "x86_64", reason="asks GCC on x86-64 what it did")
# Rows whose loops had no lanes, with the dtype: bools that change from step to step, are numbers, are selected; bfloat16s
# in pairs, selected in a nest; rows in groups with a long body; divisions.
MENDED = {
    "any": "float32", "cast": "bool", "where": "bool", "maximum": "bfloat16", "cosine_similarity": "float32",
    "fmod": "float64",
}  # fmt: skip
EVERY = 149  # calls of the oracle's table; `make loops` asks of all


def given():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.integers(-30, 30, (2, 1 << 14))
    x, y = (rng.standard_normal((2, 1 << 14)) * sizes).astype(np.float32)
    return cutaway.from_numpy(x), cutaway.from_numpy(y), cutaway.from_numpy(x > 0)


@ON_GCC
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_loop_is_vectorised(name, tmp_path):
    compiled = cutaway.compile(PROGRAMS[name])
    compiled(*given())
    (unit,) = compiled.artifacts[-1].forward.emitted["cpp"].units
    loops = loops_of(unit.text, tmp_path)
    assert loops and all(loops.values()), loops


@ON_GCC
def test_each_operator_is_vectorised_or_says_why_not():
    counts, failures = walk([*cases([*ROWS], [*DTYPES])][::EVERY])
    assert not failures, "\n".join(failures)
    assert counts["lanes"] > 20 and {*counts} <= {"lanes", *REASONS.keys(), *EXCEPTIONS.values()}


@ON_GCC
@pytest.mark.parametrize("name", MENDED)
def test_what_had_no_lanes_has(name):
    counts, failures = walk([*cases([name], [MENDED[name]])])
    assert not failures and counts["lanes"], failures


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_divisions_are_exact(name, dtype):
    """Beside zeros, infinities, NaN, and quotients that fit no integer, each in a vector with others."""
    limits = np.finfo(dtype)
    special = [
        0.0,
        -0.0,
        1,
        -0.3,
        limits.smallest_subnormal,
        limits.max,
        np.inf,
        -np.inf,
        np.nan,
        2**24,
        2**30,
    ]
    special = np.array([*special, 2**53, 1 - limits.epsneg], dtype)
    x, y, mask = (t.numpy() for t in given())
    x, y = x.astype(dtype), y.astype(dtype)
    rng = np.random.default_rng(1)
    quotients = 2.0 ** (limits.nmant + 1) + rng.integers(-4, 4, len(y))  # what is a whole number of the dtype
    near = (rng.integers(-(2**20), 2**20, len(y)) * y).astype(dtype)  # a whole number of y, or a little less
    x = np.concatenate(
        [np.repeat(special, len(special)), x, (quotients * y).astype(dtype), near, near * dtype(1.5)]
    )
    y = np.concatenate([np.tile(special, len(special)), y, y, y, y])
    with np.errstate(all="ignore"):
        wanted = PROGRAMS[name](*map(cutaway.from_numpy, (x, y, mask))).numpy()
    found = cutaway.compile(PROGRAMS[name])(*map(cutaway.from_numpy, (x, y, mask))).numpy()
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])
