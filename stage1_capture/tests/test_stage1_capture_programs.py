"""The corpus: each small program does compiled what it does in eager, with the graphs and breaks that are expected.

Input: the seam `capture` and programs/. counts.json has the expected counts; corpus.py writes it.
"""

import sys
from collections import Counter

import pytest

from stage1_capture.tests.breaks_anywhere import broken_everywhere, names
from stage1_capture.tests.corpus import PROGRAMS, cases, expected_counts, run


@pytest.mark.parametrize(("name", "variant"), cases(), ids=lambda word: word)
@pytest.mark.conformance("capture", tier="full")
def test_a_program_does_what_it_does(seam, name, variant):
    assert run(name, variant, seam("capture")) == expected_counts(name, variant)


@pytest.mark.parametrize(
    "name",
    [
        *names(every=48),
        "breaks_in_handlers.raise_in_else",  # 3.11: `y` was forgotten as it was stored
        "breaks_in_managers.with_header",
        "breaks_in_expressions.nested_comprehension",
    ],
)
def test_a_break_behind_any_instruction_changes_nothing(name):
    """Of one program in six, 11 lost a variable stored at the break in 3.11; 3.13 crashed."""
    problem, seen = broken_everywhere(name)
    assert problem is None and seen


def test_instructions_that_are_two_break_in_their_last_half():
    """3.13 alone has such; LOAD_FAST_LOAD_FAST lost its first value."""
    seen = Counter()
    for name in ("breaks_in_loops.loop_over_a_dict", "containers.list_of_tensors"):
        seen += broken_everywhere(name)[1]
    paired = {"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"}
    assert paired & {*seen} == (paired if sys.version_info >= (3, 13) else set())


def test_there_are_enough_programs():
    """Programs that differ, each counted once; those of breaks_in_*.py break where something is pending."""
    pending = [name for name in PROGRAMS if name.startswith("breaks_in_")]
    assert len(PROGRAMS) >= 1000 and 3 * len(pending) >= len(PROGRAMS)
    followed = {"breaks_in_attributes.argument_with_a_getattribute"}  # by now
    assert all(expected_counts(name, "broken")[1] or name in followed for name in pending)
