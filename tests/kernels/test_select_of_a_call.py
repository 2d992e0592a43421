"""A select of a vector function's result is SIMD: elu, softplus and what is written with `where`.

Input: the C++ of compiled functions, as assembly. GCC moved the call into a branch, where there are no lanes: before
the flags `NO_BRANCHES` these loops called the scalar function for each element, twenty times slower.
"""

import platform
import re
import shutil
import subprocess

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from stage4_runtime.runtime.vector_math import has_vector_version, vector_math_flags
from stage_contracts import config

FUNCTIONS = {
    "where": (lambda x: cutaway.where(x > 0, cutaway.exp(-x), x), np.float32),
    "elu": (F.elu, np.float32),
    "softplus": (F.softplus, np.float32),
    "polynomial": (lambda x: cutaway.where(x > 0, cutaway.sin(x * x) * cutaway.exp(-x), x), np.float64),
}


@pytest.mark.skipif(
    not has_vector_version("expf") or platform.machine() != "x86_64", reason="no libmvec here"
)
@pytest.mark.skipif(not shutil.which("g++"), reason="the flags are for GCC")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_loop_calls_the_vector_version(name, tmp_path):
    function, dtype = FUNCTIONS[name]
    compiled = cutaway.compile(function)
    compiled(cutaway.from_numpy(np.ones(100_000, dtype)))
    (unit,) = compiled.artifacts[-1].emit("forward", "cpp").units
    (tmp_path / "unit.cpp").write_text(unit.text)
    flags = config.RuntimeConfig().cxx_flags.replace("native", "x86-64-v3").split()
    command = ["g++", "-std=c++17", *flags, *vector_math_flags(unit.text), "-S", "-o", "-", "unit.cpp"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    # float32's exponential is written out: its polynomial in lanes
    assert re.search(r"call\s+_ZGVdN[48]v_cutaway_|vfmadd\d+ps\s.*%ymm", text)
