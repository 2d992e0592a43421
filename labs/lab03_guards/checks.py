"""What lab 3 asks of guards: one for each fact, cheap ones first, no error and no user's code where a value is gone.

Input: the learner's functions. The checks that they make are called as the compiler would call them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import cutaway
from stage_contracts.guards import Guard
from stage_contracts.pipeline import Entry
from stage_contracts.source import ArgSource, AttrSource, GlobalSource, ItemSource, Source

from .. import programs
from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import PRODUCT

X = ArgSource("x")
NAMES = {"is_grad_enabled": cutaway.is_grad_enabled, "G": {"limit": 3}}


class Box:
    """Counts how often `value` is read. After `limit` reads, reading it raises."""

    def __init__(self, value: Any, limit: int = 1000) -> None:
        self.inside, self.limit, self.reads = value, limit, 0

    @property
    def value(self) -> Any:
        self.reads += 1
        if self.reads > self.limit:
            raise RuntimeError("read too often")
        return self.inside


def named(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def facts_hold_for_the_same(answer: Answer) -> None:
    """The guards of a value hold for the value itself, and for one that is the same to a program."""
    for value, same in (
        (3, 3), (2.5, 2.5), ("name", "na" + "me"), (None, None), (True, True), (math.sqrt, math.sqrt),
        ([1, 2], [5, 6]), ((1,), (9,)), (cutaway.ones(2, 3), cutaway.zeros(2, 3)), (Box(1), Box(2)),
    ):  # fmt: skip
        check = answer.compile_check(answer.facts(X, value), "x", NAMES)
        for call in (value, same):
            if check(call) is not True:
                raise Wrong(f"the guards of {named(value)} do not hold for {named(call)}", "they hold",
                            str([str(g) for g in answer.facts(X, value)]), "page.md#facts")  # fmt: skip


def facts_fail_for_others(answer: Answer) -> None:
    """They fail for any other value: 1 is not True and not 1.0, another function, length, shape, dtype, class."""
    ones = cutaway.ones
    for value, others in (
        (1, (True, 1.0, 2, "1", None)), (True, (1, False)), (None, (0, False)), (0.0, (-0.0, 0)), ("a", ("b", b"a")),
        (math.sqrt, (math.exp, None)), ([1, 2], ([1], (1, 2), None)), ((), ([], (1,))), (Box(1), (Box, 1)),
        (ones(2, 3), (ones(3, 2), ones(2, 3).double(), ones(3, 2).t(), ones(2, 3, requires_grad=True), None, 1.0)),
    ):  # fmt: skip
        check = answer.compile_check(answer.facts(X, value), "x", NAMES)
        for other in others:
            if check(other):
                raise Wrong(f"the guards of {named(value)} hold for {named(other)}", "they fail",
                            str([str(g) for g in answer.facts(X, value)]), "page.md#facts")  # fmt: skip


def bases_come_first(answer: Answer) -> None:
    """A value is checked before what is read from it; at the same depth, cheap kinds come first."""
    deep = Guard("EQUALS", ItemSource(AttrSource(X, "parts"), 0), 1)
    middle, kind = Guard("LENGTH", AttrSource(X, "parts"), 1), Guard("TYPE", AttrSource(X, "parts"), list)
    mode, base = Guard("GRAD_MODE", None, True), Guard("TYPE", X, SimpleNamespace)
    got = answer.in_order([deep, middle, kind, base, mode])
    if got != (wanted := [mode, base, kind, middle, deep]):
        raise Wrong(
            f"the order is {[str(g) for g in got]}", f"{[str(g) for g in wanted]}", read="page.md#the-order"
        )
    twins = [Guard("EQUALS", ArgSource(name), 1) for name in "cab"]
    if answer.in_order(twins) != twins:
        raise Wrong(
            "guards of one depth and kind change places", "they stay as they were", read="page.md#the-order"
        )


def text_is_one_function(answer: Answer) -> None:
    """`check_text` is the text of one function with the user's parameters, defaults too."""
    guards = [Guard("EQUALS", X, 1), Guard("EQUALS", ArgSource("flag"), False)]
    scope: dict[str, Any] = {"FAILURES": answer.FAILURES}

    def name_of(value: Any) -> str:
        scope[f"value_{len(scope)}"] = value
        return f"value_{len(scope) - 1}"

    text = answer.check_text(guards, "x, *, flag=False", name_of)
    exec(compile(text, "<the learner's check>", "exec"), scope)
    check = scope.get("check")
    if check is None or [check(1), check(1, flag=True), check(2), check(1, flag=False)] != [
        True,
        False,
        False,
        True,
    ]:
        raise Wrong(
            f"the text is {text!r}", "a function check(x, *, flag=False)", read="page.md#one-function"
        )
    if answer.compile_check([], "x", NAMES)(5) is not True:
        raise Wrong(
            "a check without guards does not hold", "it holds for every call", read="page.md#one-function"
        )


def first_failure_ends_it(answer: Answer) -> None:
    """The first guard that fails ends the check: what comes after it is not read."""
    box = Box(7)
    guards = [Guard("EQUALS", AttrSource(X, "value"), 7), Guard("EQUALS", ArgSource("n"), 1)]
    check = answer.compile_check(guards, "x, n", NAMES)
    if check(box, 2):
        raise Wrong("a check holds although n is 2", "it fails", read="page.md#one-function")
    if box.reads:
        raise Wrong(f"x.value was read {box.reads} times although n, which is cheaper, had failed", "not at all",
                    read="page.md#one-function")  # fmt: skip


def missing_means_no(answer: Answer) -> None:
    """Where an attribute, an item or a global is gone, the guards do not hold. Other errors reach the user."""
    cases: list[tuple[Source, Any]] = [
        (AttrSource(X, "size"), SimpleNamespace()), (ItemSource(X, 2), [1, 2]), (ItemSource(X, "k"), {}),
        (ItemSource(X, 0), None), (GlobalSource("gone"), None),
    ]  # fmt: skip
    for source, call in cases:
        check = answer.compile_check([Guard("EQUALS", source, 1)], "x", NAMES)
        try:
            held = check(call)
        except Exception as error:
            raise Wrong(
                f"the check of {source} raised {type(error).__name__}", "False", read="page.md#one-function"
            ) from error
        if held:
            raise Wrong(
                f"the check of {source} holds although it is gone", "False", read="page.md#one-function"
            )
    box = Box(1, limit=0)
    try:
        answer.compile_check([Guard("EQUALS", AttrSource(X, "value"), 1)], "x", NAMES)(box)
    except RuntimeError:
        return
    raise Wrong(
        "an error that reading x.value raised was hidden", "it goes to the user", read="page.md#one-function"
    )


def failures_are_named(answer: Answer) -> None:
    """`first_failure` gives the first guard, in the order of the check, that does not hold."""
    kind, size = Guard("TYPE", X, list), Guard("LENGTH", X, 2)
    item, limit = Guard("EQUALS", ItemSource(X, 0), 1), Guard("EQUALS", GlobalSource("limit"), 3)
    guards = [item, size, kind, limit]
    for call, wanted in (([1, 2], None), ((1, 2), kind), ([1], size), ([5, 2], item)):
        got = answer.first_failure(guards, "x", NAMES, (call,))
        if got != wanted:
            raise Wrong(f"for {call} the first failure is {got}", f"{wanted}", read="page.md#why-again")
    if (got := answer.first_failure(guards, "x", {"G": {"limit": 4}}, ([1, 2],))) != limit:
        raise Wrong(
            f"after the global changed, the first failure is {got}", f"{limit}", read="page.md#why-again"
        )


def entry(answer: Answer, *guards: Guard) -> Entry:
    check = answer.compile_check(guards, "x, n=1", NAMES)
    return Entry(tuple(guards), check, lambda *a, **k: None, None)  # type: ignore[arg-type]


def first_match_runs(answer: Answer) -> None:
    """`dispatch` gives the first version whose guards hold, and asks no further; None if there is none."""
    n, asked = ArgSource("n"), []
    two, three = entry(answer, Guard("EQUALS", n, 2)), entry(answer, Guard("EQUALS", n, 3))
    late = Entry((), lambda *a, **k: asked.append(a) or True, lambda: None, None)  # type: ignore
    for args, kwargs, wanted in (((0, 2), {}, two), ((0,), {"n": 3}, three), ((0, 9), {}, late)):
        got = answer.dispatch((two, three, late), args, kwargs)
        if got is not wanted:
            raise Wrong(f"for {args} {kwargs} the wrong version runs", "the first whose guards hold",
                        read="page.md#dispatch")  # fmt: skip
    if len(asked) != 1:
        raise Wrong(f"the last version was asked {len(asked)} times", "once: only when the others had failed",
                    read="page.md#dispatch")  # fmt: skip
    if answer.dispatch((two, three), (0, 9), {}) is not None or answer.dispatch((), (0,), {}) is not None:
        raise Wrong("a version runs although no guards hold", "None", read="page.md#dispatch")


def compiler_uses_it(answer: Answer) -> None:
    """In the real compiler each kind of call is compiled once, and runs its own version afterwards."""
    compiled = programs.compiled_with(PRODUCT, dispatch=answer.dispatch)
    kinds = [cutaway.ones(3), cutaway.ones(4), cutaway.ones(3).double(), cutaway.ones(2, 3)]
    for x in [*kinds, *kinds[::-1]]:
        y = compiled(x, x + 1)
        if y.shape != x.shape or y.dtype != x.dtype or not (y == 2).all():
            raise Wrong(f"for {x.meta} the result is {y}", "2 everywhere", read="page.md#dispatch")
    if len(compiled.entries) != len(kinds):
        raise Wrong(f"{len(kinds)} kinds of calls have {len(compiled.entries)} versions", f"{len(kinds)}",
                    read="page.md#dispatch")  # fmt: skip


def results_are_eagers(answer: Answer) -> None:
    """Results and gradients are eager's: odd sizes, strided inputs, one tensor given twice, NaN, no elements."""
    for program in programs.ALL:
        programs.same_as_eager(
            program, programs.compiled_with(program, dispatch=answer.dispatch), read="page.md#dispatch"
        )


def kinds_of_facts(answer: Answer) -> Any:
    values: tuple[Any, ...] = (
        5,
        -0.5,
        "x",
        b"x",
        None,
        False,
        len,
        [],
        [[1], 2],
        (),
        {},
        {1},
        range(3),
        Box(1),
        Box,
        cutaway.ones(2),
    )
    return [[str(guard.kind) for guard in answer.facts(X, value)] for value in values]


def which_guards_fail(answer: Answer) -> Any:
    """For every pair of values: the kind of the first guard of the one that the other does not keep."""
    values: tuple[Any, ...] = (
        1,
        True,
        1.0,
        "1",
        None,
        [1],
        [1, 2],
        (1, 2),
        cutaway.ones(2),
        cutaway.ones(2, 2),
        cutaway.ones(2).double(),
    )
    found = []
    for value in values:
        guards = answer.facts(X, value)
        failures = [answer.first_failure(guards, "x", NAMES, (other,)) for other in values]
        found.append([None if guard is None else str(guard.kind) for guard in failures])
    return found


HIDDEN = {
    "the kinds of guards of 16 values": kinds_of_facts,
    "the guard that fails, 121 pairs": which_guards_fail,
}


CHECKS = (
    facts_hold_for_the_same,
    facts_fail_for_others,
    bases_come_first,
    text_is_one_function,
    first_failure_ends_it,
    missing_means_no,
    failures_are_named,
    first_match_runs,
    compiler_uses_it,
    results_are_eagers,
    hidden_check(__file__, HIDDEN, "page.md#facts"),
)
