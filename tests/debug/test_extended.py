"""Where a guard or a symbol was made is printed with the user's lines and the compiler's, inlined calls included.

Input: ASKED, a table: a program's guards by each spelling, and the line of the program that made it.
"""

import inspect

import pytest

import cutaway
from cutaway.debug.extended import why_guard
from stage_contracts import config
from stage_contracts.events import EVENT_LOG
from tests.debug.test_requests import run


def inner(x):
    return x.shape[0] == 10  # the guard


def program(x, scale, names):
    if inner(x):  # the call
        x = x + 1
    if x.shape[0] > 5 and len(names) == 1:
        x = x * scale
    return x.reshape(2, -1)  # the reshape


def line_of(words):
    source, first = inspect.getsourcelines(inner)
    last, start = inspect.getsourcelines(program)
    lines = [*enumerate(source, first), *enumerate(last, start)]
    return next(number for number, text in lines if words in text)


# what is asked -> (a spelling that is printed, words of each line of the user's stack, a place in the compiler)
ASKED = {
    "Eq(s0, 10)": ("Eq(s0, 10)", ["if inner(x)", "x.shape[0] == 10"], "in open_compare"),
    "x.shape[0] == 10": ("Eq(s0, 10)", ["if inner(x)", "x.shape[0] == 10"], "in open_compare"),
    "Eq( s0,10 )": ("Eq(s0, 10)", ["if inner(x)", "x.shape[0] == 10"], "in open_compare"),
    "check_open_tensor(x, *": ("check_open_tensor(x", ["if inner(x)"], "in _wrap_tensor"),
    "*scale*": ("scale == 3", ["x * scale"], "in guard"),
    "len(names) == 1": ("len(names) == 1", ["len(names) == 1"], "in guard"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_guard_is_told_with_both_stacks(asked):
    text, lines, place = ASKED[asked]
    told = why_guard(cutaway.compile(program, dynamic=True), asked)(cutaway.ones(10), 3.5 - 0.5, ["a"])
    assert "guard added: " in told and (text in told or "scale" in told), told
    numbers = [line_of(words) for words in lines]
    at = [told.find(f"line {number}\n") for number in numbers]
    assert at == sorted(at) and -1 not in at, told
    assert place in told and told.index("your stack:") < told.index("the compiler's stack:")


def test_a_symbol_is_told_and_what_is_not_there_lists_what_is():
    fn = cutaway.compile(program, dynamic=True)
    told = why_guard(fn, "", symbol="s0")(cutaway.ones(10), 3.0, [])
    assert "symbol made: s0  or  s0 = 10" in told and "in dimension" in told
    missing = why_guard(fn, "Eq(s0, 11)")(cutaway.ones(10), 3.0, [])
    assert missing.startswith("no guard 'Eq(s0, 11)' was added; there are:\n") and "Eq(s0, 10)" in missing


def test_nothing_is_recorded_unless_it_is_asked_for():
    mark = EVENT_LOG.mark()
    cutaway.compile(program, backend="eager", dynamic=True)(cutaway.ones(10), 3.0, [])
    assert not EVENT_LOG.since(mark, "trace")
    with config.patch(guard_added="nothing"):
        cutaway.compile(program, backend="eager", dynamic=True)(cutaway.ones(10), 3.0, [])
    assert EVENT_LOG.since(mark, "trace")


def test_torchs_variables():
    text = "import cutaway\nf = lambda x: x + (x.shape[0] == 10)\n"
    text += "cutaway.compile(f, backend='eager', dynamic=True)(cutaway.ones(10))"
    result = run(
        text,
        TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED="Eq(s0, 10)",
        TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL="s0",
        TORCHDYNAMO_EXTENDED_DEBUG_CPP="1",
    )
    assert result.returncode == 0, result.stderr
    assert "guard added: Eq(s0, 10)" in result.stderr and "symbol made: s0" in result.stderr
    assert "TORCHDYNAMO_EXTENDED_DEBUG_CPP is not honoured here" in result.stderr
