"""Every row's halves are the float32 result rounded once, or no farther from the exact one than torch's.

Input: half_rounding.py, which walks the rows and has the table of exceptions. Before, a product rounded before its bias
was added, attention its scores, and bfloat16's mean its sum.
"""

import pytest

from tests.oracle.half_rounding import (
    EXCEPTIONS,
    has_gradients,
    measured,
    of_gradients,
    of_results,
    rows,
)


@pytest.mark.parametrize("name", rows())
def test_halves_round_once_or_where_torch_does(name):
    found = dict(measured(name, of_results))
    beside_torch = {case: errors.excess("torch") for case, errors in found.items()}
    assert not any(beside_torch.values()), beside_torch
    if name in EXCEPTIONS:
        assert any(errors.differ for errors in found.values()), "it rounds once: no exception is needed"
    else:
        beside_once = {case: errors.excess("once") for case, errors in found.items()}
        assert not any(beside_once.values()), beside_once


@pytest.mark.parametrize("name", [*filter(has_gradients, rows())])
def test_gradients_of_halves_are_no_farther_than_torchs(name):
    pytest.importorskip("torch")
    found = {case: errors.excess("torch") for case, errors in measured(name, of_gradients, 16)}
    assert not any(found.values()), found


def test_every_exception_is_a_row():
    assert {*EXCEPTIONS} <= {*rows()}
