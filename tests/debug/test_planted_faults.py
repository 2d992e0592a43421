"""A slice of the planted faults: the bisector names each in as few runs as it promises, the minifier leaves few calls.

Input: rows of planted_faults.py; `make planted-faults` and `make minified-faults` run all of them.
"""

import pytest

from tests.debug.minified_faults import minified
from tests.debug.planted_faults import FAULTS, bisected, most_runs, names, right_line, verified

BISECTED = ("crash in pass casts in gpt2", "wrong in-place reuse  in gpt2", "wrong guard on sign in gpt2")
MINIFIED = ("wrong guard on sign in gpt2",)
ROWS = {str(fault): fault for fault in FAULTS}


def test_there_are_thirty_of_every_kind_in_three_models():
    assert len(ROWS) == 30
    assert len({(fault.kind, fault.model) for fault in FAULTS}) == 8 * 3


@pytest.mark.parametrize("fault", [ROWS[name] for name in BISECTED], ids=str)
def test_the_bisector_names_it(fault):
    finding = bisected(fault)
    assert names(finding, fault), finding
    assert finding.runs <= most_runs()


def test_a_pass_that_is_verified_shows_the_line_of_the_first_value_that_differs():
    fault = ROWS["wrong values from pass views in gpt2"]
    assert right_line(fault, verified(fault))


@pytest.mark.parametrize("fault", [ROWS[name] for name in MINIFIED], ids=str)
def test_the_minifier_leaves_a_call_or_two_that_fail_alone(fault):
    found = minified(fault)
    assert found.operators <= 2 < found.before, found
    assert found.alone
