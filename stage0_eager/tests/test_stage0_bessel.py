"""The Bessel and Airy functions in float64 against SciPy's, on the series, on the integrals, and where they meet.

Input: points from 1e-8 to 500, dense around the borders between the ways to compute them.
"""

import numpy as np
import pytest
from scipy import special

from stage0_eager import Tensor
from stage0_eager.functions import bessel

X = np.concatenate([np.geomspace(1e-8, 1, 100), np.linspace(1, 60, 700), [100.0, 500.0]])
PAIRS = {
    "bessel_j0": special.j0, "bessel_j1": special.j1, "bessel_y0": special.y0, "bessel_y1": special.y1,
    "modified_bessel_k0": special.k0, "modified_bessel_k1": special.k1, "scaled_modified_bessel_k0": special.k0e,
    "scaled_modified_bessel_k1": special.k1e, "airy_ai": lambda x: special.airy(x)[0],
}  # fmt: skip


def values(name, x):
    return np.array(getattr(bessel, name)(Tensor(x)).tolist())


@pytest.mark.parametrize("name", PAIRS)
def test_against_scipy(name):
    assert set(PAIRS) == set(bessel.__all__)
    np.testing.assert_allclose(values(name, X), PAIRS[name](X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name, atol", [("bessel_j0", 1e-14), ("bessel_j1", 1e-14), ("airy_ai", 1e-10)])
def test_of_negative_numbers(name, atol):
    np.testing.assert_allclose(values(name, -X), PAIRS[name](-X), rtol=1e-10, atol=atol)


@pytest.mark.parametrize("name", [name for name in PAIRS if "_y" in name or "_k" in name])
def test_at_0_and_below(name):
    at = values(name, np.array([0.0, -1.0, np.nan, np.inf]))
    assert abs(at[0]) == np.inf and np.isnan(at[1]) and np.isnan(at[2]) and at[3] == 0
