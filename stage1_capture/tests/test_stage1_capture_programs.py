"""The corpus: each small program does compiled what it does in eager, with the graphs and breaks that are expected.

Input: the seam `capture` and programs/. counts.json has the expected counts; corpus.py writes it.
"""

import pytest

from stage1_capture.tests.corpus import PROGRAMS, cases, expected_counts, run


@pytest.mark.parametrize(("name", "variant"), cases(), ids=lambda word: word)
@pytest.mark.conformance("capture", tier="full")
def test_a_program_does_what_it_does(seam, name, variant):
    assert run(name, variant, seam("capture")) == expected_counts(name, variant)


def test_there_are_enough_programs():
    """Programs that differ, each counted once; those of breaks_in_*.py break where something is pending."""
    pending = [name for name in PROGRAMS if name.startswith("breaks_in_")]
    assert len(PROGRAMS) >= 1000 and 3 * len(pending) >= len(PROGRAMS)
    assert all(expected_counts(name, "broken")[1] for name in pending)
