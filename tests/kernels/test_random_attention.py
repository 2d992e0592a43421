"""Random attention of `make gpu-compiled`, compiled for a CPU: the generator and the comparison work without a GPU.

Input: benchmarks/gpu/attentions.py's seeds; results with a planted error.
"""

import numpy as np
import pytest

from benchmarks.gpu.compiled import RUN, UNITS, difference


@pytest.mark.parametrize("seed", range(8))
def test_compiled_is_eager(seed):
    assert RUN["attentions"](seed, "cpu") == ""


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_wrong_element_is_found(dtype):
    exact = [np.random.default_rng(0).standard_normal((64, 64)) * 5, np.full(64, 1e-3)]
    eager = [x.astype(dtype) for x in exact]
    assert difference(eager, eager, exact, dtype) == ""
    for k, by in ((0, 1.0), (1, 2e-4)):
        wrong = [x.copy() for x in eager]
        wrong[k].flat[7] += by
        assert "from float64" in difference(wrong, eager, exact, dtype)


def test_what_is_zero_but_for_rounding_is_held_against_the_other_results():
    """A gradient of float16 whose terms, of about 5, cancel (seed 30081): 1e-5 is their rounding, 1e-2 is not."""
    exact = [np.full((8, 8), 5.0), np.zeros(8)]
    eager = [x.astype(np.float16) for x in exact]
    for error, found in ((1e-5, False), (1e-2, True)):
        got = [eager[0], np.full(8, error, np.float16)]
        assert bool(difference(got, eager, exact, "float16")) is found
    assert UNITS["float16"] * 8 * 5 > 1e-2  # which would be right of a result of that size
