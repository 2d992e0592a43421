"""A compile has room for its frames: no call in a loop maps memory, however deep it is."""

import sys

import pytest

import cutaway
from cutaway.room_for_frames import call_with_room

resource = pytest.importorskip("resource")
linux = pytest.mark.skipif(sys.platform != "linux", reason="page faults are counted as Linux counts them")


def _leaf(a=1, b=2, c=3, d=4, e=5):
    return a, b, c, d, e, a, b, c, d, e


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _at(depth: int) -> int:
    """Page faults of 100 calls, this deep."""
    if depth:
        return _at(depth - 1)
    before = _faults()
    for _ in range(100):
        _leaf()
    return _faults() - before


def _at_all_depths() -> int:
    return sum(map(_at, range(600)))


@linux
def test_a_loop_at_the_end_of_a_chunk_maps_no_memory() -> None:
    assert _at_all_depths() >= 100  # Python as it is: this test looks at what it says
    assert call_with_room(_at_all_depths, ()) < 20


@linux
def test_a_compile_has_the_room() -> None:
    found = []

    def backend(graph, inputs):
        found.append(_at_all_depths())
        return graph.forward

    cutaway.compile(lambda x: x + 1, backend=backend)(cutaway.ones(3))
    assert found[0] < 20


def test_it_gives_the_result_and_raises_what_is_raised() -> None:
    assert call_with_room(max, (3, 5)) == 5
    with pytest.raises(ZeroDivisionError):
        call_with_room(lambda: 1 / 0, ())
