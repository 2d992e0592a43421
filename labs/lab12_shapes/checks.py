"""What lab 12 asks of dynamic shapes: guards that say exactly what a trace relies on, and few traces.

Input: the learner's ShapeEnv, Policy and compiled. Traces are compared with the function itself on a grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import sympy

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from . import functions

SIZE, DECIDE, VALUES = (
    "page.md#one-size",
    "page.md#a-branch-is-a-guard",
    "page.md#for-which-sizes-it-is-right",
)
OPENS, WHOLE = "page.md#which-sizes-are-open", "page.md#the-whole"


class Open:
    """A policy that opens every size."""

    def opens(self, source: str, value: int) -> bool:
        return True


def sizes_stand_for_themselves(answer: Answer) -> None:
    """0, 1 and sizes that are not open are ints; equal hints share a symbol; each is noted in `sources`."""
    env = answer.ShapeEnv()
    for source, value, is_open in (("x[0]", 7, False), ("x[1]", 1, True), ("x[2]", 0, True)):
        got = env.size(source, value, is_open)
        if type(got) is not int or got != value:
            why = "not open" if not is_open else "0 and 1 are special: they broadcast, and they are empty"
            raise Wrong(
                f"{source} = {value} is {got!r} of type {type(got).__name__}",
                f"the int {value}: {why}",
                read=SIZE,
            )
    a, b, c = (env.size(f"y[{i}]", n, True) for i, n in enumerate((7, 5, 7)))
    if type(a).__name__ != "Size":
        raise Wrong(f"an open size of 7 is {a!r} of type {type(a).__name__}", "a Size", read=SIZE)
    if a.expr == b.expr or a.expr != c.expr:
        raise Wrong(
            f"open sizes of 7, 5 and 7 are {a}, {b}, {c}", "the first and the last share a symbol", read=SIZE
        )
    if env.hints != {a.expr: 7, b.expr: 5}:
        raise Wrong(f"hints is {env.hints}", "7 and 5", read=SIZE)
    if env.guards:
        raise Wrong(f"making sizes recorded the guards {env.guards}", "none: only questions do", read=SIZE)
    want = {"x[0]": 7, "x[1]": 1, "x[2]": 0, "y[0]": a.expr, "y[1]": b.expr, "y[2]": a.expr}
    if env.sources != want:
        raise Wrong(f"sources is {env.sources}", f"{want}", read=SIZE)


def questions_become_guards(answer: Answer) -> None:
    """A question is decided by the hint. Its answer is a guard, once; what is true for all sizes is none."""
    for function, shapes, want in (
        (functions.algorithm, ((9, 5),), ["s0*s1 <= 60"]),
        (functions.algorithm, ((9, 8),), ["s0*s1 > 60"]),
        (functions.matmul, ((3, 4), (5, 6)), ["Ne(s1, s2)"]),
        (functions.nothing_new, ((4, 3),), []),
        (functions.asks_twice, ((9, 3),), ["s0 > 5"]),
        (functions.asks_twice, ((4, 3),), ["s0 <= 5"]),
        (functions.halves, ((4, 3),), ["Eq(s0, 4)"]),
    ):
        env = answer.ShapeEnv()
        given = [
            tuple(env.size(f"{'xy'[k]}[{i}]", n, True) for i, n in enumerate(s)) for k, s in enumerate(shapes)
        ]
        function(*given)
        got = [str(guard) for guard in env.guards]
        if got != want:
            raise Wrong(f"{function.__name__}{shapes}: the guards are {got}", f"{want}", read=DECIDE)


def other_sizes_are_refused(answer: Answer) -> None:
    """`values` gives each symbol's value, or None: another int, a symbol twice, a size below 2, a guard that fails."""
    env = answer.ShapeEnv()
    a, _, _, d = (
        env.size(s, n, o)
        for s, n, o in (("x[0]", 6, True), ("x[1]", 3, False), ("y[0]", 6, True), ("y[1]", 4, True))
    )
    env.decide(sympy.Gt(a.expr, d.expr))
    for sizes, want, why in (
        ((8, 3, 8, 5), {a.expr: 8, d.expr: 5}, "everything holds"),
        ((8, 4, 8, 5), None, "x[1] is 3 in the trace"),
        ((8, 3, 7, 5), None, "x[0] and y[0] have one symbol"),
        ((5, 3, 5, 6), None, "s0 > s1 was assumed"),
        ((6, 3, 6, 1), None, "1 is not traced as a symbol"),
        ((6, 3, 6, 0), None, "0 is not traced as a symbol"),
    ):  # fmt: skip
        got = env.values(dict(zip(("x[0]", "x[1]", "y[0]", "y[1]"), sizes, strict=True)))
        if got != want:
            raise Wrong(f"the sizes {sizes}: values gave {got}", f"{want}: {why}", read=VALUES)


def sizes_open_when_they_change(answer: Answer) -> None:
    """A size is open from its second value on, and stays open; another size is not."""
    policy = answer.Policy()
    for source, value, want in (("x[0]", 4, False), ("x[1]", 4, False), ("x[0]", 4, False), ("x[0]", 5, True),
                                ("x[1]", 4, False), ("x[0]", 4, True), ("x[0]", 5, True)):  # fmt: skip
        got = policy.opens(source, value)
        if bool(got) != want:
            raise Wrong(f"{source} = {value}: open is {got}", f"{want}", read=OPENS)


def grid(count: int, sizes: Any) -> Iterator[tuple]:
    for numbers in itertools.product(sizes, repeat=2 * count):
        yield tuple(tuple(numbers[2 * k : 2 * k + 2]) for k in range(count))


def right_for_every_size(answer: Answer) -> None:
    """At every size of a grid the result is the function's own, whichever trace is used: with 0 and 1, and all open."""
    for policy in (None, Open()):
        for function, count in functions.ALL.items():
            run = answer.compiled(function, policy)
            sizes = (0, 1, 2, 5, 8) if count == 1 else (1, 4)
            for shapes in grid(count, sizes):
                got, want = run(*shapes), function(*shapes)
                if tuple(got) != want:
                    how = f"a trace with the guards {answer.module.guards_of(run.entries[-1][0])}"
                    raise Wrong(f"{function.__name__}{shapes} is {got}", f"{want}", how, WHOLE)
                if any(type(n) is not int for n in got):
                    raise Wrong(
                        f"{function.__name__}{shapes} gives {[type(n).__name__ for n in got]}",
                        "ints",
                        read=WHOLE,
                    )


def few_traces(answer: Answer) -> None:
    """A first trace has numbers, a second one is for all sizes; only a question with another answer makes a third."""
    cases: tuple[Any, ...] = (
        (functions.matmul, [((n, 4), (4, 5)) for n in (7, 8, 9, 30, 8)], 2, "one size changes"),
        (
            functions.algorithm,
            [((n, 4),) for n in (3, 5, 7, 30, 40, 2)],
            3,
            "numbers, then each side of the threshold",
        ),
        (functions.halves, [((n, 4),) for n in (2, 3, 4)], 3, "range needs the number each time"),
        (functions.halves, [((4, n),) for n in (2, 3, 4, 5)], 2, "the other size may change"),
        (functions.add, [((n, 4), (n, 4)) for n in (3, 5, 9, 9, 20)], 2, "both sizes change, and stay equal"),
        (functions.add, [((n, 4), (1, 4)) for n in (3, 5, 1, 9)], 3, "numbers, open, and 1"),
        (functions.nothing_new, [((n, n + 1),) for n in range(2, 12)], 2, "no question depends on the sizes"),
    )
    for function, calls, want, why in cases:
        run = answer.compiled(function)
        for shapes in calls:
            run(*shapes)
        if (got := len(run.entries)) != want:
            raise Wrong(
                f"{function.__name__} at {[c[0] for c in calls]}: {got} traces", f"{want}: {why}", read=WHOLE
            )


def traced(answer: Answer) -> Any:
    found = []
    for function, count in functions.ALL.items():
        run = answer.compiled(function)
        for shapes in grid(count, (1, 3, 6) if count == 1 else (1, 4)):
            run(*shapes)
        found.append([len(run.entries), [answer.module.guards_of(env) for env, _ in run.entries]])
    return found


HIDDEN = {"the guards of every trace": traced}

CHECKS = (
    sizes_stand_for_themselves,
    questions_become_guards,
    other_sizes_are_refused,
    sizes_open_when_they_change,
    right_for_every_size,
    few_traces,
    hidden_check(__file__, HIDDEN, WHOLE),
)
