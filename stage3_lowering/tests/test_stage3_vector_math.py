"""Vector mathematics: at most 4 ulp, C's results for special values, and the same bits in a lane and in a tail.

Input: ulp_table.py, a slice of what its command line measures. The first loops of other lengths meet every
version of a function: 16, 8 and 4 lanes, and one.
"""

import math
import platform
import re
import shutil
import subprocess

import numpy as np
import pytest

from stage3_lowering.lowering.cpp_math import BINARY, UNARY, math_text
from stage3_lowering.lowering.cpp_own_math import ERF, EXP, ONE_LESS_EXP
from stage3_lowering.tests.cpp_runner import CLANG, run_cpp
from stage3_lowering.tests.fit_polynomials import WANTED, fit
from stage3_lowering.tests.graphs import CPP, trace
from stage3_lowering.tests.ulp_table import BOUND, errors, values_of, vector_function

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_ulp(name, dtype):
    worst, wrong = errors(name, dtype, 20_000 if dtype is np.float32 else 200)
    assert worst <= BOUND and not wrong


@pytest.mark.skipif(
    CLANG, reason="clang's lanes call libmvec, the end of a loop the C library: the last bit differs"
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_a_value_does_not_depend_on_its_place(name, dtype):
    """Fails where a tail is the C library's scalar function: 1 to 9 of 64 values then differ in the last bit."""
    arrays = [values_of(name, dtype, 64, seed)[:64] for seed in range(1 + (name in BINARY))]
    run = vector_function(name, dtype)
    whole = run(*arrays)
    ends = [(0, length) for length in range(41)]
    for start, stop in [*ends, (1, 6), (2, 15), (5, 36), (3, 62), (63, 64)]:
        part = run(*(a[start:stop].copy() for a in arrays))
        assert part.tobytes() == whole[start:stop].tobytes()


def test_float_exp_where_it_overflows_and_ends_below_normal():
    """Our own: results below normal are right to the last bit that they have, beyond is infinity or 0, NaN is NaN."""
    run = vector_function("exp", np.float32)
    x = np.concatenate(
        [np.linspace(-104.5, -86.5, 30_001), np.linspace(88.0, 89.5, 5_001), [150.5, 3e38, -150.5, -3e38]]
    )
    x = np.concatenate([x.astype(np.float32), np.float32([np.inf, -np.inf])])
    with np.errstate(over="ignore"):
        exact, wanted = np.exp(x.astype(np.float64)), np.exp(x.astype(np.float64)).astype(np.float32)
    found = run(x)
    finite = np.isfinite(wanted) & np.isfinite(found)
    unit = np.spacing(wanted[finite]).astype(np.float64)
    assert (np.abs(found[finite] - exact[finite]) <= 2 * unit).all()
    assert (np.isfinite(wanted) == np.isfinite(found)).mean() > 0.999 and found[-6] == found[-5] == np.inf
    assert (found[[-4, -3, -1]] == 0).all() and found[-2] == np.inf and (found[wanted > 0] > 0).mean() > 0.99
    nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF] * 5, np.uint32).view(np.float32)
    assert np.isnan(run(nans)).all()


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
@pytest.mark.parametrize("length", [1, 16, 40])
def test_own_functions_of_special_values(name, length):
    """In lanes and at a loop's end: NaN of any bits stays NaN, zeros and infinities give what C's functions give."""
    run = vector_function(name, np.float32)
    nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FC001FF], np.uint32).view(np.float32)
    for nan in nans:
        assert np.isnan(run(np.full(length, nan))).all()
    for x in (0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38, -3e38):
        x = np.float32(x)
        found = run(np.full(length, x))
        with np.errstate(over="ignore"):
            wanted = np.exp(x) if name == "exp" else getattr(math, name)(x)
            near = np.isclose(found, np.float32(wanted), rtol=1e-6, atol=2e-45)
        assert (near & (np.signbit(found) == np.signbit(wanted))).all(), x


@pytest.mark.skipif(CLANG or platform.machine() != "x86_64", reason="reads GCC's assembly of x86-64")
@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_own_functions_are_inlined(name, tmp_path):
    """A loop of one calls nothing, and limits its operand by one instruction: no comparison and selection."""
    text = f"""#include <stdint.h>
namespace cutaway {{ {math_text(f"{name}(", ["float"])} }}
extern "C" void loop(const float* x, float* out) {{
    #pragma omp simd
    for (int i = 0; i < 1024; ++i) out[i] = cutaway::{name}(x[i]);
}}
"""
    (tmp_path / "unit.cpp").write_text(text)
    flags = (
        "-O3 -march=x86-64-v3 -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off -S -o -".split()
    )
    found = subprocess.run(
        ["g++", *flags, str(tmp_path / "unit.cpp")], capture_output=True, text=True, check=True
    ).stdout
    assert "call" not in found and "vminps" in found and "vcmp" not in found


@pytest.mark.parametrize("name", WANTED)
def test_own_polynomials_are_those_that_are_fitted(name):
    """But for the last digits, which depend on the machine that fits them."""
    written = [float.fromhex(found) for found in re.findall(r"0x1[.\w]*p[-+]?\d+", EXP + ONE_LESS_EXP + ERF)]
    for wanted in map(abs, fit(WANTED[name])):
        assert any(math.isclose(wanted, one, rel_tol=1e-3) for one in (1.0, *written)), wanted


@pytest.mark.skipif(shutil.which("clang++") is None, reason="needs clang++")
def test_clang_takes_the_same_text(tmp_path):
    """clang has a switch for libmvec instead of the declarations, which it would not understand."""
    calls = "".join(f"out[{k}] = cutaway::{name}(x[i]);" for k, name in enumerate(UNARY))
    text = f"""#include <stdint.h>
namespace cutaway {{ {math_text(calls)} }}
extern "C" void loop(const float* x, float* out, int64_t n) {{
    for (int64_t i = 0; i < n; ++i) out[i] = cutaway::sin(x[i]);
}}
void all(const float* x, float* out, int64_t i) {{ {calls} }}
"""
    (tmp_path / "unit.cpp").write_text(text)
    flags = "-O3 -march=x86-64-v3 -fno-math-errno -ffp-contract=off -fveclib=libmvec -S -o -".split()
    done = subprocess.run(["clang++", *flags, str(tmp_path / "unit.cpp")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_ZGVdN8v_sinf" in done.stdout


@pytest.mark.parametrize("dtypes", [DTYPES[:1], DTYPES[1:], DTYPES])
def test_a_unit_has_the_functions_of_its_own_types(seam, dtypes):
    """A function of the other type costs the compiler time. It is deleted, so that no call can take it by mistake."""
    arrays = [values_of("sin", dtype, 64, seed=0) for dtype in dtypes]
    graph = trace(lambda c, *inputs: tuple(c.sin(c.sigmoid(x)) for x in inputs), *arrays)
    program = seam("emit")(seam("fuse")(seam("lower")(graph)), CPP)
    text = program.units[0].text
    for dtype, of in zip(DTYPES, ("float", "double"), strict=True):
        for name in ("sin", "exp"):
            assert (f"{of} {name}({of} x) = delete;" in text) is (dtype not in dtypes)
    for array, out in zip(arrays, run_cpp(program, arrays), strict=True):
        with np.errstate(over="ignore"):
            wanted = np.sin(1 / (1 + np.exp(-array.astype(np.float64))))
        assert np.allclose(out, wanted, rtol=1e-5, equal_nan=True)
