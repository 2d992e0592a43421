"""Guards on globals see what the module holds now: replaced, deleted, or a builtin that a global comes to hide.

Input: functions with globals of their own, changed between calls.
"""

from __future__ import annotations

import types

import cutaway as ct

TEXT = """
def f(x):
    return scaled(x) + len(names)
"""


def made():
    space = {"scaled": lambda x: x * 2, "names": (1, 2, 3)}
    exec(compile(TEXT, "<globals>", "exec"), space)
    return types.FunctionType(space["f"].__code__, space), space


def test_a_global_is_replaced_and_deleted():
    f, space = made()
    run, x = ct.compile(f, fullgraph=True), ct.ones(2)
    assert run(x).tolist() == [5, 5] and run(x).tolist() == [5, 5]
    assert len(run.entries) == 1
    space["scaled"] = lambda x: x * 3
    assert run(x).tolist() == [6, 6]
    kept = space.pop("scaled")
    for entry in run.entries:
        assert entry.check(x) is False
    space["scaled"] = kept
    assert run(x).tolist() == [6, 6] and len(run.entries) == 2


def test_a_global_comes_to_hide_a_builtin():
    f, space = made()
    run, x = ct.compile(f, fullgraph=True), ct.ones(2)
    assert run(x).tolist() == [5, 5]
    space["len"] = lambda names: 10
    assert run(x).tolist() == [12, 12]
    del space["len"]
    assert run(x).tolist() == [5, 5]


def test_a_function_of_globals_alone_asks_the_module_itself():
    space = {"scaled": lambda x: x * 2}
    exec(compile("def f(x): return scaled(x)", "<globals>", "exec"), space)
    run = ct.compile(space["f"], fullgraph=True)
    run(ct.ones(2))
    assert run.entries[0].check.__globals__["G"] is space
    f, _ = made()
    other = ct.compile(f, fullgraph=True)
    other(ct.ones(2))
    asked = other.entries[0].check
    assert ("len" in asked.source_text) is (asked.__globals__["G"] is not f.__globals__)
