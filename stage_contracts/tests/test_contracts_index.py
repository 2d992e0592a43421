"""Index expressions: print and read back; and every simplification keeps the value, by evaluation.

Input: random expressions of +, *, // and % over non-negative symbols, as lowering builds them.
"""

import hypothesis.strategies as st
import pytest
import sympy
from hypothesis import given, settings

from stage_contracts.index_expr import FloorDiv, Mod, parse_index, print_index, symbol

SYMBOLS = [symbol(n) for n in ("i0", "i1", "r0", "tmp3")]
FEW = settings(max_examples=200, derandomize=True, deadline=None)


@st.composite
def expressions(draw, depth=4):
    """(sympy expression, the same as a Python function of the values of SYMBOLS)."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if draw(st.booleans()):
            k = draw(st.integers(0, 3))
            return SYMBOLS[k], lambda v: v[k]
        n = draw(st.integers(0, 12))
        return sympy.Integer(n), lambda v: n
    (a, f), op = draw(expressions(depth=depth - 1)), draw(st.sampled_from(["+", "*", "scale", "//", "%"]))
    if op in ("+", "*"):
        b, g = draw(expressions(depth=depth - 1))
        return (a + b, lambda v: f(v) + g(v)) if op == "+" else (a * b, lambda v: f(v) * g(v))
    n = draw(st.integers(1, 12))
    if op == "scale":
        return a * n, lambda v: f(v) * n
    return (FloorDiv(a, n), lambda v: f(v) // n) if op == "//" else (Mod(a, n), lambda v: f(v) % n)


VALUES = st.tuples(*[st.integers(0, 40)] * 4)


def value_of(expr, values):
    return int(sympy.sympify(expr).subs(dict(zip(SYMBOLS, values, strict=True))))


@given(expressions(), VALUES)
@FEW
def test_simplification_keeps_the_value(pair, values):
    expr, function = pair
    assert value_of(expr, values) == function(values)


@given(expressions(), VALUES)
@FEW
def test_the_text_is_python_and_reads_back(pair, values):
    expr, function = pair
    text = print_index(expr)
    assert eval(text, {}, {str(s): v for s, v in zip(SYMBOLS, values, strict=True)}) == function(values)
    again = parse_index(text)
    assert print_index(again) == text
    assert value_of(again, values) == function(values)


def test_what_is_divided_out():
    i, r = symbol("i0"), symbol("r0")
    assert FloorDiv(6 * i, 3) == 2 * i and Mod(6 * i, 3) == 0
    assert FloorDiv(6 * i + r, 3) == 2 * i + FloorDiv(r, 3) and Mod(6 * i + r, 3) == Mod(r, 3)
    assert FloorDiv(i, 1) == i and Mod(i, 1) == 0
    assert FloorDiv(7, 2) == 3 and Mod(7, 2) == 1
    n = symbol("n")
    assert print_index(FloorDiv(i, n)) == "(i0 // n)" and print_index(Mod(i, n)) == "(i0 % n)"
    assert FloorDiv(i, 4).is_integer and Mod(i, 4).is_nonnegative


def test_symbols_are_one_per_name_and_non_negative():
    assert symbol("i0") is symbol("i0") and symbol("i0").is_nonnegative and symbol("i0").is_integer
    assert parse_index("i0*3 + tmp3") == 3 * symbol("i0") + symbol("tmp3")
    assert parse_index("-i0 + 2") == 2 - symbol("i0") and parse_index("i0**2") == symbol("i0") ** 2


@pytest.mark.parametrize("text", ["f(i0)", "i0.x", "i0 and i1", "1.5", "i0 / 2", "'a'", "i0 < 3"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not an index expression"):
        parse_index(text)
