"""`pytest --slice K/N`: each test keeps at least one case, the slices are the whole, and WHOLE is never cut.

Input: the hook of the repository's conftest.py, called with items that are names alone.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest


@dataclass(frozen=True)
class Item:
    nodeid: str


ROOT = Path(__file__).parents[2]
NAMES = [
    *(f"stage/test_a.py::test_many[{k}]" for k in range(10)),
    *(f"stage/test_a.py::test_two[{k}]" for k in "xy"),
    "stage/test_b.py::test_one",
    *(f"tests/architecture/test_c.py::test_rule[{k}]" for k in range(5)),
]


@pytest.fixture
def sliced(request):
    hook = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py")).pytest_collection_modifyitems

    def run(said):
        left_out, items = [], [Item(name) for name in NAMES]
        told = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
        hook(SimpleNamespace(getoption=lambda name: said, hook=told), items)
        kept = [item.nodeid for item in items]
        assert Counter(kept) + Counter(item.nodeid for item in left_out) == Counter(NAMES)
        return kept

    return run


def test_slices_together_are_the_whole_and_each_has_every_test(sliced):
    assert sliced(None) == sliced("1/1") == NAMES
    parts = [sliced(f"{k}/4") for k in (1, 2, 3, 4)]
    assert {*sum(parts, [])} == {*NAMES}
    for part in parts:
        tests = Counter(name.partition("[")[0] for name in part)
        assert tests["stage/test_a.py::test_many"] in (2, 3)
        assert tests["stage/test_a.py::test_two"] == tests["stage/test_b.py::test_one"] == 1
        assert tests["tests/architecture/test_c.py::test_rule"] == 5


def test_four_quarters_have_each_case_once(sliced):
    """What .ci/run and .ci/test-versions take."""
    many = [name for said in ("1/4", "2/4", "3/4", "4/4") for name in sliced(said) if "test_many" in name]
    assert sorted(many) == sorted(name for name in NAMES if "test_many" in name)


@pytest.mark.parametrize("said", ["0/4", "5/4", "1/0", "half", "1/4/2", "-1/4"])
def test_what_is_no_slice_is_refused(sliced, said):
    with pytest.raises(pytest.UsageError, match="--slice: saw .*, expected K/N with 1 <= K <= N"):
        sliced(said)
