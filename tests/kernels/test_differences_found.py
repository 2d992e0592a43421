"""What `make gpu-compiled` takes for a difference: not the rounding of what cancels, but a wrong element beside it.

Input: results as they were found on a GPU, by size, and the same with one element that is wrong by 1 % of its terms.
"""

import numpy as np
import pytest

from benchmarks.gpu.compiled import difference

TERMS = 5.0  # the gradient that is 0 is made of such


def results(dtype, error=0.0):
    """A result, and a gradient that is 0 in exact arithmetic, one element of it wrong by `error`."""
    gradient = np.zeros((100, 64))
    gradient[7, 9] = error
    return [np.full((100, 64), 2.8).astype(dtype), gradient.astype(dtype)]


def judged(dtype, error):
    exact = [np.full((100, 64), 2.8), np.full((100, 64), 6.7e-16)]
    return difference(results(dtype, error), results(dtype, 1e-7), exact, dtype)


def test_a_gradient_that_cancels_may_have_the_rounding_of_its_terms():
    """Program 30081, float16: 1e-5 was found to differ from 0."""
    assert not judged("float16", 1e-5)
    assert not judged("float32", 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_wrong_element_is_found(dtype):
    assert judged(dtype, 0.01 * TERMS)


def test_float32_is_as_strict_as_before():
    assert judged("float32", 1e-5)


def test_a_small_gradient_that_does_not_cancel_is_judged_by_its_own_size():
    exact = [np.full(10, 2.8), np.full(10, 1e-3)]
    right = [a.astype(np.float16) for a in exact]
    wrong = [right[0], np.where(np.arange(10) == 3, right[1] * np.float16(1.05), right[1])]
    assert not difference(right, right, exact, "float16")
    assert difference(wrong, right, exact, "float16")
