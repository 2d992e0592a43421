"""A slice of the planted faults: the bisector names each in as few runs as it promises.

Input: rows of planted_faults.py; `make planted-faults` runs all of them.
"""

import pytest

from tests.debug.planted_faults import FAULTS, bisected, most_runs, names

SLICE = [f for f in FAULTS if f.model == "gpt2" and "pass" in f.kind and f.place in ("casts", "views")]


@pytest.mark.parametrize("fault", SLICE, ids=str)
def test_the_bisector_names_it(fault):
    finding = bisected(fault)
    assert names(finding, fault), finding
    assert finding.runs <= most_runs()
