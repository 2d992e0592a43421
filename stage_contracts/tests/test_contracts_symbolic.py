"""Symbolic sizes: arithmetic as Python's, assumptions recorded with the line that forced them, errors without a hint.

Input: dimensions with and without hints.
"""

import operator

import hypothesis.strategies as st
import pytest
import sympy
from hypothesis import given, settings

from stage_contracts.origin import Origin
from stage_contracts.size_values import value_at
from stage_contracts.symbolic import Assumption, DataDependentError, ShapeEnv, SymBool, SymFloat, SymInt
from stage_contracts.unbacked import learn


def env_with(**hints):
    env = ShapeEnv()
    return env, *(env.dimension(name, hint) for name, hint in hints.items())


def test_arithmetic_stays_symbolic_and_has_a_hint():
    env, n, k = env_with(n=6, k=4)
    for value, want in (
        (n + k, 10), (n - 1, 5), (10 - n, 4), (n * k, 24), (2 * n, 12), (n // 4, 1), (20 // n, 3), (n % 4, 2), (-n, -6),
        (n + k * 2 - 3, 11),
    ):  # fmt: skip
        assert type(value) is SymInt and value.hint == want
    assert type(n / 4) is SymFloat and (n / 4).hint == 1.5 and (3 / n).hint == 0.5
    assert n / n == 1.0 and type(n / n) is float and (n / (n * 2)) == 0.5
    assert n - n == 0 and type(n - n) is int and (n * k - k * n) == 0 and type((2 * n) // n) in (int, SymInt)
    assert str(n * 2 + k) == "k + 2*n" and env.assumptions == []


@given(
    st.integers(1, 50),
    st.integers(1, 50),
    st.lists(st.tuples(st.sampled_from("+-*"), st.integers(-5, 5) | st.just("k")), max_size=5),
)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_a_hint_is_what_python_would_compute(a, b, steps):
    _, n, k = env_with(n=a, k=b)
    symbolic, number = n, a
    for op, operand in steps:
        other, plain = (k, b) if operand == "k" else (operand, operand)
        symbolic, number = {
            "+": lambda s, p, o, q: (s + o, p + q), "-": lambda s, p, o, q: (s - o, p - q), "*": lambda s, p, o, q: (s * o, p * q),
        }[op](symbolic, number, other, plain)  # fmt: skip
    assert (symbolic if isinstance(symbolic, int) else symbolic.hint) == number


@given(
    st.integers(0, 9),
    st.integers(1, 9),
    st.lists(
        st.tuples(st.sampled_from("+ - * // % max min == <".split()), st.integers(-3, 4) | st.just("k")),
        max_size=4,
    ),
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_a_value_is_what_sympy_s_subs_says(a, b, steps):
    env, n, k = env_with(n=a, k=b)
    expr = n.expr
    for op, operand in steps:
        other = k.expr if operand == "k" else sympy.Integer(operand)
        if op in ("//", "%") and other == 0:
            continue
        expr = VALUES[op](expr, other)
        if not isinstance(expr, sympy.Expr):
            break
    if expr not in (sympy.true, sympy.false):
        assert value_at(expr, env.hints) == expr.subs(env.hints)


VALUES = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "max": sympy.Max, "min": sympy.Min, "==": sympy.Eq, "<": sympy.Lt,
}  # fmt: skip


def test_what_is_known_is_asked_anew_when_something_was_assumed():
    env, n, k = env_with(n=6, k=4)
    assert env.known((n == k + 2).expr) is None and env.known((n > 5).expr) is None
    assert bool(n == k + 2) and bool(n > 5)
    assert env.known((n == k + 2).expr) is True and env.known((n > 5).expr) is True


def test_a_question_is_answered_from_the_hint_and_recorded_with_its_line():
    env, n, k = env_with(n=6, k=4)
    env.origin = Origin("model.py", 12, "if n > k")
    assert bool(n > k) and not bool(n < 5) and bool(n == 6) and bool(n != k)
    assert [str(a) for a in env.assumptions] == [
        f"{text}  # model.py:12: if n > k" for text in ("n > k", "n >= 5", "Eq(n, 6)", "Ne(n, k)")
    ]
    assert bool(n > k)
    assert len(env.assumptions) == 4  # once each
    assert type(n > k) is SymBool and repr(n > k) == "n > k"


def test_what_is_known_anyway_is_not_recorded():
    env, n = env_with(n=6)
    assert bool(n == n) and bool(n >= 0) and not bool(n < 0) and bool(n + 1 > 0)
    assert env.assumptions == []


def test_int_fixes_a_size_to_its_hint():
    env, n = env_with(n=6)
    assert int(n) == 6 and list(range(n)) == [0, 1, 2, 3, 4, 5]
    assert [str(a.condition) for a in env.assumptions] == ["Eq(n, 6)"]
    assert [10, 20][n - 5] == 20 and float(n / 4) == 1.5
    assert bool(n) and not bool(n - 6)


def test_an_unbacked_size_computes_but_answers_nothing():
    env = ShapeEnv()
    u = env.dimension("u0", None)
    assert str(u * 2 + 1) == "2*u0 + 1"
    assert bool(u >= 0)  # every size is
    for ask in (lambda: bool(u > 3), lambda: int(u), lambda: (u + 1).hint):
        with pytest.raises(DataDependentError, match="depends on the data: u0 has no value at compile time"):
            ask()
    assert env.assumptions == []


def test_an_unbacked_size_is_two_or_more_and_equal_where_it_must_be():
    env = ShapeEnv()
    u, v, i = env.dimension("u0", None), env.dimension("u1", None), env.dimension("u2", None, low=-9)
    assert bool(u) and not bool(u == 1) and not bool(u == v) and env.deferred == []
    assert not bool(u != v) and bool(u == v) and [str(c) for c in env.deferred] == ["Eq(u0, u1)"]
    assert not bool(i < 0) and [str(c) for c in env.deferred[1:]] == ["u2 >= 0"]
    learn(env, (u + i <= 7).expr)
    assert bool(u + i < 8) and bool(5 - u - i >= -2)
    with pytest.raises(
        DataDependentError, match=r"torch._check\(u1 \+ u2 <= 6\)|torch._check\(u0 \+ u2 <= 6\)"
    ):
        bool(u + i <= 6)


def test_ranges_and_equality():
    env = ShapeEnv()
    n = env.dimension("n", 5, low=1, high=9)
    assert list(env.ranges.values()) == [(1, 9)]
    assert hash(n + 1) == hash(n + 1) and len({n, n}) == 1
    assert Assumption(1 < 2, None) == Assumption(True, None)
    signed = env.dimension("delta", -3, low=-10)
    assert not bool(signed > 0)


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=3),
    st.lists(
        st.tuples(st.sampled_from("eq lt le ne".split()), *(st.integers(0, 8) for _ in range(4))), max_size=8
    ),
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_what_was_remembered_is_what_an_environment_without_memory_finds(hints, questions):
    env, *sizes = env_with(**{f"s{i}": hint for i, hint in enumerate(hints)})
    made = [
        *sizes,
        sizes[0] * sizes[1],
        sizes[0] // 2,
        sizes[-1] * 2 - 1,
        sizes[0] + sizes[1],
        sizes[1] % 3,
        4,
    ]
    values = [a if isinstance(a, int) else a.hint for a in made]
    asked = []
    for relation, i, j, k, m in questions:
        a, b, c, d = (n % len(made) for n in (i, j, k, m))
        left, right = made[a] + made[b], made[c] + made[d]
        condition = getattr(operator, relation)(left, right)
        if isinstance(condition, bool):
            continue
        env.known(condition.expr)  # a None, which the next assumption may change
        assert bool(condition) == getattr(operator, relation)(values[a] + values[b], values[c] + values[d])
        asked.append(condition.expr)
    remembered = {condition: env.known(condition) for condition in asked}
    env.answers, env.simplified = {}, {}
    for condition in asked:
        assert isinstance(remembered[condition], bool)
        assert env.known(condition) in (remembered[condition], None)
    assert [n.hint for n in sizes] == hints


def test_a_size_that_takes_anothers_name_is_not_taken_for_it():
    env, n = env_with(n=6)
    assert (n * 2).hint == 12 and n > 3 and n != 7
    again = env.dimension("n", 2)
    assert (again * 2).hint == 4 and not again > 3


def test_what_was_just_found_equal_is_not_remembered_as_it_was_before():
    env, n = env_with(n=0)
    assert 4 * n == 0
    assert env.simplify((4 * n).expr if isinstance(4 * n, SymInt) else sympy.Integer(4 * n)) == 0
