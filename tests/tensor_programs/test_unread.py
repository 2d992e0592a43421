"""An index outside: the error and what was written before it are compared, and going on only where nobody can tell.

Input: small programs, and stand-ins for compiled code that do one thing wrong. All rows of `WRONG` passed before
unread.py: such an error ended the comparison.
"""

from unittest import mock

import pytest

import cutaway
from tests.tensor_programs import compare
from tests.tensor_programs.found import found

OUTSIDE = IndexError("index 7 is out of bounds for dimension 1 with size 4")
READ = found(("x = fresh(3, 4)",), "x += 1", "v = x[[0], [7]]", results=("v",))
UNREAD = found(("x = fresh(3, 4)",), "x += 1", "v = x[[0], [7]]", results=("x * 2",))


def goes_on(x):
    x += 1
    return [cutaway.ones(1)]


def raises_before_it_writes(x):
    raise OUTSIDE


def another_error(x):
    x += 1
    raise IndexError("another")


def skips_the_write(x):
    return [(x + 1) * 2]


def as_if_unread(x):
    x += 1
    return [x * 2]


WRONG = {
    "an error that does not come": (READ, goes_on),
    "an error before the writes": (READ, raises_before_it_writes),
    "another error": (READ, another_error),
    "a write that does not come, where nobody reads": (UNREAD, skips_the_write),
    "another error, where nobody reads": (UNREAD, another_error),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_differs(case):
    program, stand_in = WRONG[case]
    with (
        mock.patch.object(compare.cutaway, "compile", lambda f, **options: stand_in),
        pytest.raises(compare.Differs),
    ):
        compare.check(program)


def test_compiled_code_may_go_on_where_nobody_reads():
    with mock.patch.object(compare.cutaway, "compile", lambda f, **options: as_if_unread):
        compare.check(UNREAD)


@pytest.mark.parametrize("program", [READ, UNREAD])
def test_compiled_code_is_right(program):
    compare.check(program)
