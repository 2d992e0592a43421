"""For every suite: a test in which the compiler itself fails is a failed test, though the user's call ran eagerly,
all guards of a new entry are checked, and in the suites of METAS_CHECKED each graph checks what its nodes say of
themselves.

Input: the event log's events of kind "internal_error". A test that provokes one has the mark `internal_errors`. A
Python that a test starts ends with an error after such an event (CUTAWAY_INTERNAL_ERRORS). `--slice 1/4` runs one case
in four of each test, and at least one: a quick look, and what CI has time for (WHOLE is never cut).
"""

import gc
import os
import re
from collections import defaultdict
from contextlib import suppress
from zlib import crc32

import pytest

from cutaway import compile_frame
from stage_contracts import graph_verify, report
from stage_contracts.events import EVENT_LOG, fail_at_exit

SEEN = []
# What a slice does not cut: rules of the code, of the pages, and the answers to each lab, right and wrong.
WHOLE = re.compile(r"tests/architecture/|tests/docs/(?!.*_recipe_)|labs/tests/test_labs.py")
METAS_CHECKED = (
    "stage2_autograd",
    "stage_contracts",
    "tests/autograd/test_function_inside",
    "tests/autograd/test_gradients_inside",
)


def _keep(event):
    if event.kind == "internal_error":
        SEEN.append(event)


def pytest_configure(config):
    config.addinivalue_line("markers", "internal_errors: the test provokes a fault of the compiler itself")
    EVENT_LOG.subscribe(_keep)
    compile_frame.ALWAYS_CHECK_ALL = True
    os.environ["CUTAWAY_INTERNAL_ERRORS"] = "exit"
    with suppress(ValueError):  # in a worker it was set before
        EVENT_LOG.unsubscribe(fail_at_exit)


def pytest_addoption(parser):
    parser.addoption(
        "--slice", metavar="K/N", help="of each test, every N-th case from the K-th on, and at least one"
    )


def pytest_collection_modifyitems(config, items):
    """Which cases are in a slice depends on their names and numbers alone: the same on each machine."""
    if not (said := config.getoption("--slice")):
        return
    if not (found := re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", said)) or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"--slice: saw {said!r}, expected K/N with 1 <= K <= N, such as 1/4")
    first, step = int(found[1]) - 1, int(found[2])
    cases, kept = defaultdict(list), {item for item in items if WHOLE.match(item.nodeid)}
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for name, of_one in cases.items():
        kept |= {*of_one[(first + crc32(name.encode())) % min(step, len(of_one)) :: step]}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_unconfigure(config):
    EVENT_LOG.unsubscribe(_keep)


def pytest_collection_finish():
    """What seventeen thousand collected tests are made of stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """What a fixture of a wider scope provoked is told by the first test that uses it."""
    graph_verify.ALWAYS_CHECK_METAS = item.nodeid.startswith(METAS_CHECKED)
    report._SAID.clear()  # a test that expects a message hears it, whichever test provoked it before
    try:
        result = yield
    finally:
        seen = SEEN[:]
        SEEN.clear()
    if seen and item.get_closest_marker("internal_errors") is None:
        pytest.fail("\n\n".join(str(event.details["report"]) for event in seen), pytrace=False)
    return result
