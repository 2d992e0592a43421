"""Pairs of operators through stage 2: a small sample of what `make pairs` walks.

Input: the oracle's rows.
"""

import random

import pytest

import tests.oracle.samples  # noqa: F401  (fills spec.ROWS)
from tests.oracle.compiled import Refused, links, pair_is_eager


@pytest.mark.parametrize("seed", range(4))
def test_pairs_of_operators_are_eager(seed):
    chain, rng, ran = links(), random.Random(seed), 0
    for _ in range(15):
        try:
            pair_is_eager(rng.choice(chain), rng.choice(chain))
            ran += 1
        except Refused:
            pass
    assert ran >= 10
