"""Compiled loops are vectorised by GCC, as their build's flags have it; and float32's divisions in lanes are exact.

Input: programs whose loops once ran one element at a time, 5 to 50 times as long: compilers make no lanes of what loads
a bool, of two comparisons that are a branch, of a C call.
"""

import platform
import subprocess
from bisect import bisect

import numpy as np
import pytest

import cutaway
from stage3_lowering.tests.cpp_runner import CLANG
from stage4_runtime.runtime.compiler import LEFT_OUT, find_compiler
from stage4_runtime.runtime.vector_math import vector_math_flags
from stage_contracts import config

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


def given():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.integers(-30, 30, (2, 1 << 14))
    x, y = (rng.standard_normal((2, 1 << 14)) * sizes).astype(np.float32)
    return cutaway.from_numpy(x), cutaway.from_numpy(y), cutaway.from_numpy(x > 0)


@pytest.mark.skipif(CLANG or platform.machine() != "x86_64", reason="asks GCC on x86-64 what it did")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_loop_is_vectorised(name, tmp_path):
    compiled = cutaway.compile(PROGRAMS[name])
    compiled(*given())
    (unit,) = compiled.artifacts[-1].forward.emitted["cpp"].units
    kernel = unit.text.partition("// ---- run")[0]  # the function that runs all has loops of its own
    (tmp_path / "unit.cpp").write_text(kernel)
    flags = config.current().runtime.cxx_flags.replace("-march=native", "-march=x86-64-v4").split()
    flags += [
        *LEFT_OUT,
        *vector_math_flags(kernel),
        "-std=c++17",
        "-c",
        "-fopt-info-vec-optimized",
        "-o",
        "/dev/null",
    ]
    said = subprocess.run(
        [*find_compiler().command, *flags, str(tmp_path / "unit.cpp")],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    lines = kernel.splitlines()
    loops = [k + 2 for k, line in enumerate(lines) if "omp" in line and "simd" in line]  # behind the pragma
    done = [int(line.split(":")[1]) for line in said.splitlines() if "loop vectorized" in line]
    found = {
        loops[bisect(loops, line) - 1] for line in done if line >= loops[0]
    }  # GCC names a line in the loop
    assert loops and found == {*loops}, said


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_divisions_are_exact(name):
    """Beside zeros, infinities, NaN, and quotients that fit no integer, each in a vector with others."""
    special = np.array([0.0, -0.0, 1, -0.3, 1e-45, 3e38, np.inf, -np.inf, np.nan, 2**24, 2**30], np.float32)
    x, y, mask = (t.numpy() for t in given())
    x = np.concatenate([np.repeat(special, len(special)), x])
    y = np.concatenate([np.tile(special, len(special)), y])
    wanted = PROGRAMS[name](*map(cutaway.from_numpy, (x, y, mask))).numpy()
    found = cutaway.compile(PROGRAMS[name])(*map(cutaway.from_numpy, (x, y, mask))).numpy()
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])
