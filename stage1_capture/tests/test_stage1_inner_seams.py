"""Parts of capture that can be replaced alone: a kind of value, the resume functions, the guards; and first.py.

Input: programs of a few lines. Each test puts another part in place of the one there is, and nothing else.
"""

import fractions
import types
from pathlib import Path

import numpy as np
import pytest

from stage1_capture import capture as capture_module
from stage1_capture import first
from stage1_capture.breaks import resume
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import FOLDED
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import guards_hold, residual_function, tensor
from stage1_capture.variables.builder import BUILDERS
from stage1_capture.variables.constant import wrap_constant


def scaled(x, by):
    return x * float(by + 1) + by.numerator


def breaks_in_the_middle(x):
    y = x + 1
    print("here")
    return y * 2


def test_a_new_kind_of_value_is_a_row_of_a_table(monkeypatch):
    half = fractions.Fraction(1, 2)
    before = capture_module.capture(scaled, (tensor(3), half), {})
    assert (
        before.breaks or before.graph is None or len(before.guards) > 8
    )  # followed as an object, its code too
    monkeypatch.setitem(BUILDERS, fractions.Fraction, wrap_constant("EQUALS"))
    FOLDED.add(fractions.Fraction)
    try:
        frame = capture_module.capture(scaled, (tensor(3), half), {})
    finally:
        FOLDED.discard(fractions.Fraction)
    assert not frame.breaks
    assert "cutaway.mul(x, 1.5)" in str(frame.graph)
    assert guards_hold(frame, scaled, (tensor(3), half))
    assert not guards_hold(frame, scaled, (tensor(3), fractions.Fraction(1, 3)))
    out = residual_function(frame, scaled)(tensor(3), half)
    assert np.array_equal(out.numpy(), scaled(tensor(3), half).numpy())


def test_resume_functions_are_made_by_what_capture_is_given(monkeypatch, capsys):
    made = []

    def break_function(*call):
        made.append(call[0].__name__)
        return resume.break_function(*call)

    other = types.SimpleNamespace(**{**vars(resume), "break_function": break_function})
    monkeypatch.setattr(capture_module, "resume", other)
    compiled = Compiled(breaks_in_the_middle)
    found = compiled(tensor(3)).numpy()
    assert made == ["breaks_in_the_middle"]
    assert np.array_equal(found, ((tensor(3) + 1) * 2).numpy())


def test_guards_are_made_in_one_place(monkeypatch):
    asked = []
    plain = OutputGraph.guard

    def guard(self, kind, source, expected, *rest, **options):
        asked.append(kind)
        return plain(self, kind, source, expected, *rest, **options)

    monkeypatch.setattr(OutputGraph, "guard", guard)
    frame = capture_module.capture(scaled, (tensor(3), fractions.Fraction(1, 2)), {})
    assert {g.kind for g in frame.guards} <= set(asked) | {"SHAPE"}


def line(x, y):
    z = x * y + 2
    return z - x / y


def test_first_captures_a_straight_line():
    inputs = [tensor(3, seed=1), tensor(3, seed=2)]
    graph = first.capture(line, *inputs)
    assert [node.target.name for node in graph.calls] == ["mul", "add", "div", "sub"]
    assert np.array_equal(graph.interpret(inputs)[0].numpy(), line(*inputs).numpy())
    with pytest.raises(NotImplementedError, match="straight lines"):
        first.capture(scaled, *inputs)


def test_first_stays_short():
    assert len(Path(first.__file__).read_text(encoding="utf-8").splitlines()) <= 60
