"""Methods of CPython's own test suite give inside a captured function what they give in Python.

Input: cpython_suite.json, which says of each method of cpython_suite.py's sample whether it was captured whole on Python
3.11, or why not. Every fourth whole one runs here. Those listed as DIFFERS, and the "no graph" ones, whose capture ends
in an internal error, are known faults.
"""

import importlib.util
import json
import sys

import pytest

from tests.capture import cpython_suite

KNOWN = json.loads(cpython_suite.FILE.read_text())
SLICE = 4


def test_the_list_has_what_the_report_says():
    whole = sum(status == "whole" for status in KNOWN.values())
    differs = sorted(name for name, status in KNOWN.items() if status.startswith("DIFFERS"))
    assert len(KNOWN) > 250
    assert whole > 130
    assert len(differs) <= 15, differs


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the list was made with Python 3.11's methods")
@pytest.mark.skipif(importlib.util.find_spec("test.test_list") is None, reason="Lib/test is not installed")
def test_what_is_whole_gives_what_python_gives():
    whole = [case for case in cpython_suite.cases() if KNOWN.get(case[0]) == "whole"]
    for name, made, method in whole[::SLICE]:
        plain, found, status = cpython_suite.outcome(made, method)
        assert (found, status) == (plain, "whole"), name
    assert len(whole) > 130
