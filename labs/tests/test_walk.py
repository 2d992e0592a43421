"""The walks of reports/lab-walk.txt, replayed: each step still says what it said.

Input: labs/walk.py. The tiers' walks are replayed by tests/architecture/test_tiers.py, on the same two files.
"""

import pytest

from labs import walk

REPORT = walk.ROOT / "reports" / "lab-walk.txt"


@pytest.mark.parametrize("name", ["the first lab", "a partitioner of your own trains the digits"])
def test_a_walk_can_be_taken_again(name):
    """Machine times are left out: they are this machine's."""
    taken = walk.walk(name)
    written = REPORT.read_text(encoding="utf-8")
    for line in taken.lines:
        what = line.partition(" min  ")[2].splitlines()[0]
        assert what in written, f"{what!r} is not in {REPORT.name}: run make lab-walk"


def test_a_step_that_says_something_else_stops_the_walk(tmp_path):
    with pytest.raises(AssertionError, match="expected 'no such lab'"):
        walk.Walk(tmp_path).cutaway("lab list", "no such lab")
    assert not list(tmp_path.iterdir())


def test_the_report_has_every_walk():
    written = REPORT.read_text(encoding="utf-8")
    assert all(f"{name}: " in written for name in walk.WALKS)
