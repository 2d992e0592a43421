"""exact_math.py beside mpmath in 60 digits: the error of each function in ulp of float64, on random and on edge values.

Input: the arguments that draws give (multiples of 2**-32 and 2**-33, with their ends) and random ones.
"""

import mpmath
import numpy as np
import pytest

from stage0_eager.random import exact_math
from stage0_eager.tensor import Tensor

RNG = np.random.default_rng(0)
COUNT = 1500
UNIT = np.concatenate(
    [RNG.integers(0, 2**32, COUNT), [0, 1, 2, 3, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 3 * 2**30, 2**32 - 1]]
)
OPEN = (UNIT + 0.5) * 2.0**-32
NEAR_ONE = 1 + np.arange(-50, 51) * 2.0**-53
HALF = np.sqrt(0.5) * (1 + np.arange(-20, 21) * 2.0**-53)  # where the exponent changes
LOGS = np.concatenate(
    [OPEN, NEAR_ONE, HALF, 2 * HALF, 1 - OPEN, 2.0 ** RNG.uniform(-1021, 1023, COUNT), [2.0**-1022, 1.7e308]]
)
EXPS = np.concatenate(
    [RNG.normal(size=COUNT), RNG.uniform(-707, 709.7, COUNT), [0.0, -0.0, 1e-300, 1e-17, -1e-9, 0.5, 709.78]]
)

# name: (ours, the truth in mpmath, arguments, the largest error in ulp that was seen, rounded up)
ROWS = {
    "log": (exact_math.log, mpmath.log, LOGS, 0.9),
    "exp": (exact_math.exp, mpmath.exp, EXPS, 1.0),
    "cosine_of_turns": (exact_math.cosine_of_turns, lambda v: mpmath.cospi(2 * v), UNIT * 2.0**-32, 1.7),
    "sine_of_turns": (exact_math.sine_of_turns, lambda s: mpmath.sinpi(2 * s), (OPEN - 0.5) / 2, 1.7),
    "tangent_of_half_turns": (
        exact_math.tangent_of_half_turns, lambda t: mpmath.sinpi(t) / mpmath.cospi(t), OPEN - 0.5, 2.3,
    ),
}  # fmt: skip


def error_in_ulp(found: np.ndarray, truth, arguments: np.ndarray) -> float:
    with mpmath.workdps(60):
        exact = [truth(mpmath.mpf(float(x))) for x in arguments]
        spacing = np.spacing(np.abs([float(e) for e in exact]))
        errors = [
            abs(mpmath.mpf(float(f)) - e) / mpmath.mpf(float(s))
            for f, e, s in zip(found, exact, spacing, strict=True)
        ]
        return float(max(errors))


@pytest.mark.parametrize("name", ROWS)
def test_the_error_is_what_the_table_says(name):
    ours, truth, arguments, bound = ROWS[name]
    found = error_in_ulp(ours(Tensor(np.asarray(arguments, np.float64))).numpy(), truth, arguments)
    assert bound - 0.4 < found < bound, f"{name}: {found:.3f} ulp"


def test_exp_beyond_the_range_is_what_ieee_754_gives():
    x = np.array([np.inf, -np.inf, np.nan, 1e308, -1e308, 709.79, -745.2, -744.0])
    found = exact_math.exp(Tensor(x)).numpy()
    np.testing.assert_array_equal(found, [np.inf, 0, np.nan, np.inf, 0, np.inf, 0, 1e-323])
