"""Every row of the oracle on complex operands, beside torch: the same values, or refused on both sides.

Input: complex_cases.py. Here each row has its first sample; `python -m tests.oracle.test_complex` walks all samples,
dtypes and layouts, and prints the sums.
"""

import sys
import warnings

import pytest

from tests.oracle import samples  # noqa: F401
from tests.oracle.complex_cases import (
    NAMES_NOT_HERE,
    beside_numpy,
    check,
    derivatives,
    numbers,
    numpy_edges,
    rows,
)
from tests.oracle.spec import ROWS
from tests.oracle.torch_side import torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is the oracle (extra `oracle`)")


@needs_torch
@pytest.mark.parametrize("name", rows())
def test_a_row_on_complex_numbers_is_torchs_or_refused(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, failures = check(name, full=False)
        failures += derivatives(name, full=False)
    assert not failures, "\n".join(failures)
    assert counts


@needs_torch
def test_a_complex_number_beside_real_tensors_is_torchs_or_refused():
    """When this was written, 28 rows gave a complex or a truncated result where torch refuses (`add(alpha=2j)`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [f"{name} {text}" for name in ROWS for text in numbers(name, full=False)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", numpy_edges(), ids=lambda case: f"{case.row.name} {case.dtype}")
def test_edge_values_of_sums_and_powers_are_numpys(case):
    assert beside_numpy(case) == "same"


def test_what_is_not_here_is_a_row():
    assert NAMES_NOT_HERE - {"linalg_householder_product"} <= set(rows()) | {"dropout"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sums: dict[str, int] = {}
    wrong = 0
    for each in rows():
        counts, failures = check(each, full=True)
        for kind, count in counts.items():
            sums[kind] = sums.get(kind, 0) + count
        for text in [*failures, *derivatives(each, full=True), *numbers(each, full=True)]:
            wrong += 1
            print(f"{each}: {text}")
    print(f"{len(rows())} rows; " + ", ".join(f"{count} {kind}" for kind, count in sorted(sums.items())))
    sys.exit(wrong > 0)
