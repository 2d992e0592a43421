"""Random programs: whatever the grammar writes, compiled does what eager does, also the second time.

Input: the seam `capture` and grammar.py. A seed is a program; `make fuzz-capture` runs 20,000 of them on each version
of Python. To look at one: `print(write_program(seed))`.
"""

import pytest

from stage1_capture.tests.fuzz import check
from stage1_capture.tests.grammar import write_program

PROGRAMS_PER_TEST = 20


@pytest.mark.parametrize("start", range(0, 4 * PROGRAMS_PER_TEST, PROGRAMS_PER_TEST))
@pytest.mark.conformance("capture", tier="full")
def test_random_programs_do_what_they_do(seam, start):
    graphs = 0
    for seed in range(start, start + PROGRAMS_PER_TEST):
        problem, compiled = check(seed, seam("capture"))
        assert problem is None, f"seed {seed}: {problem}\n{write_program(seed)}"
        graphs += compiled.counts.graphs > 0
    assert graphs > PROGRAMS_PER_TEST * 0.8, f"only {graphs} of {PROGRAMS_PER_TEST} programs had a graph"
