"""Every row with one operand of another dtype: torch's dtype, no farther from the exact result, and the same compiled.

Input: mixed_dtypes.py; a slice of each row's cases, another for each row. Before, `add(x, mask, alpha=2)` added 1,
`addcmul` of a float64 and two float32 lost half of its digits, and `masked_fill` and `ldexp` gave another dtype.
"""

import zlib

import pytest

from tests.oracle.mixed_dtypes import (
    DTYPE_IS_OURS,
    GIVEN,
    REFUSED,
    STEP_BY_STEP,
    beside_eager,
    beside_torch,
    check,
    rows,
)
from tests.oracle.spec import ROWS
from tests.oracle.torch_side import torch

BESIDE_TORCH, COMPILED = 4, 61  # one case in so many


@pytest.mark.skipif(torch is None, reason="torch is the oracle (extra `oracle`)")
@pytest.mark.parametrize("name", rows())
def test_a_row_of_two_dtypes_is_torchs(name):
    _, failures = check(name, beside_torch, BESIDE_TORCH, zlib.crc32(name.encode()) % BESIDE_TORCH)
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", rows())
def test_a_row_of_two_dtypes_is_the_same_compiled(name):
    _, failures = check(name, beside_eager, COMPILED, zlib.crc32(name.encode()) % COMPILED)
    assert not failures, "\n".join(failures)


def test_every_exception_is_a_row():
    assert {
        name for names in (*DTYPE_IS_OURS, *GIVEN, *REFUSED, *STEP_BY_STEP) for name in names.split()
    } <= {*ROWS}
