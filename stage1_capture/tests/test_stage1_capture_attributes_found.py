"""What random attribute programs found: each class of fault as a small program, run before and after a change.

Input: the table below, by hand from the seeds it names (`stage1_capture.tests.fuzz_attributes --programs 1 --seed N`).
Each row fails on the tree before its fix.
"""

import numpy as np
import pytest

from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor

ARRAY = np.arange(4.0)


def made():
    """Classes and an object that nobody else has changed."""

    class Other:
        pass

    class Another(Other):
        pass

    class Second(Other):
        pass

    return {"Other": Other, "Another": Another, "Second": Second, "o": Second()}


def is_callable(x, w):
    name = "__call__"
    return hasattr(ARRAY, name), hasattr(ARRAY[0], name), hasattr(ARRAY, "sum")


def is_one(x, w):
    return isinstance(w["o"], w["Another"])


def is_one_made_inside(x, w):
    return isinstance(w["Second"](), w["Another"])


def is_derived(x, w):
    return issubclass(w["Second"], w["Another"])


def stores_and_pops(x, w):
    w["o"].bar = 1
    return w["o"].__dict__.pop("bar")


def stores_and_deletes(x, w):
    w["o"].bar = 1
    del w["o"].bar


def other_base(w):
    w["Second"].__bases__ = (w["Another"],)


def attribute_comes(w):
    w["o"].bar = 2


def attribute_goes(w):
    vars(w["o"]).pop("bar", None)


def nothing(w):
    pass


# program, what happens before the first call, and between the two; the seeds that found it
FOUND = {
    "a method of type's, of an array (7001031, 7002965)": (is_callable, nothing, nothing),
    "another base (7001327)": (is_one, nothing, other_base),
    "another base, of a class that the program calls (7001327)": (is_one_made_inside, nothing, other_base),
    "another base, by issubclass (7001327)": (is_derived, nothing, other_base),
    "stored and popped, there before and then not (7002646)": (stores_and_pops, attribute_comes, attribute_goes),
    "stored and popped, not there before and then there": (stores_and_pops, nothing, attribute_comes),
    "stored and deleted, there before and then not": (stores_and_deletes, attribute_comes, attribute_goes),
    "stored and deleted, not there before and then there": (stores_and_deletes, nothing, attribute_comes),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found_is_noticed(case):
    program, before, between = FOUND[case]

    def run(x, w):
        return (x * 2).shape, program(x, w)

    seen = []
    for function in (run, Compiled(run)):
        w, x = made(), tensor(2)
        before(w)
        first = function(x, w)
        left = dict(vars(w["o"]))
        attribute_goes(w)
        before(w)
        between(w)
        seen.append((first, left, function(x, w), vars(w["o"])))
    assert seen[0] == seen[1]
