"""A meta rule is asked once for each question; what it can look at is part of the question.

Input: operators and arguments that differ in one thing, which the result follows or must not be mixed up by.
"""

import numpy as np
import pytest

from stage0_eager import TABLE, set_grad_enabled
from stage0_eager.defaults import set_default_dtype
from stage1_capture.variables.known_results import meta_and_returned
from stage_contracts import dtype as dt
from stage_contracts.device import device_of
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

X = TensorMeta((2, 3), dt.float32)
WHOLE = TensorMeta((2, 3), dt.int64)


def bound(name, *args):
    op = TABLE[name]
    return op, op.bind(*args)


DIFFER = {  # two questions that must not share an answer
    "shape": (bound("core.neg", X), bound("core.neg", TensorMeta((3, 2), dt.float32))),
    "strides": (bound("core.neg", X), bound("core.neg", TensorMeta((2, 3), dt.float32, (1, 2)))),
    "dtype": (bound("core.neg", X), bound("core.neg", WHOLE)),
    "device": (
        bound("core.neg", X),
        bound("core.neg", TensorMeta((2, 3), dt.float32, device=device_of("cuda"))),
    ),
    "requires_grad": (bound("core.neg", X), bound("core.neg", X.with_(requires_grad=True))),
    "operator": (bound("core.neg", X), bound("core.eq", X, X)),
    "1 and 1.0": (bound("cutaway.add", WHOLE, 1), bound("cutaway.add", WHOLE, 1.0)),
    "1 and True": (
        bound("cutaway.add", TensorMeta((), dt.bool_), 1),
        bound("cutaway.add", TensorMeta((), dt.bool_), True),
    ),
    "a dimension": (bound("cutaway.sum", X, 0), bound("cutaway.sum", X, 1)),
    "tuple": (bound("cutaway.sum", X, (0,)), bound("cutaway.sum", X, (0, 1))),
}


@pytest.mark.parametrize("pair", DIFFER.values(), ids=DIFFER)
def test_what_a_rule_sees_is_part_of_the_question(pair):
    known = {}
    asked = [meta_and_returned(known, op, arguments) for op, arguments in (*pair, *pair)]
    alone = [op.meta_and_returned(*arguments) for op, arguments in pair]
    assert alone[0] != alone[1], "the test would not see them mixed up"
    assert asked == [*alone, *alone] and len(known) == 2


def test_grad_mode_and_the_default_dtype_are_part_of_it():
    known = {}
    wants = X.with_(requires_grad=True)
    op, arguments = bound("core.neg", wants)
    with set_grad_enabled(True):
        recorded = meta_and_returned(known, op, arguments)[0]
    with set_grad_enabled(False):
        plain = meta_and_returned(known, op, arguments)[0]
    assert (recorded.requires_grad, plain.requires_grad) == (True, False)
    op, arguments = bound("cutaway.true_divide", WHOLE, WHOLE)
    single = meta_and_returned(known, op, arguments)[0]
    set_default_dtype(dt.float64)
    try:
        double = meta_and_returned(known, op, arguments)[0]
    finally:
        set_default_dtype(dt.float32)
    assert (single.dtype, double.dtype) == (dt.float32, dt.float64)


def test_open_sizes_ask_each_time():
    """A rule may guard on them."""
    known = {}
    size = ShapeEnv().dimension("s0", 5)
    op, arguments = bound("core.neg", TensorMeta((size, 3), dt.float32))
    assert meta_and_returned(known, op, arguments) and not known


def test_values_that_equality_does_not_tell_ask_each_time():
    known = {}
    op = TABLE["core.neg"]
    kept = op.core
    assert kept is not None
    for value in (np.arange(3), object(), {1: 2}):
        with pytest.raises(Exception):  # noqa: B017 - not a question for this rule; it was asked
            meta_and_returned(known, op, (value,))
    assert not known


def test_a_question_is_asked_once(monkeypatch):
    known, asked = {}, []
    op, arguments = bound("cutaway.gelu", X)
    rule = type(op).meta_and_returned
    monkeypatch.setattr(type(op), "meta_and_returned", lambda self, *a: asked.append(self) or rule(self, *a))
    first = meta_and_returned(known, op, arguments)
    again = meta_and_returned(known, op, op.bind(TensorMeta((2, 3), dt.float32)))
    assert first == again and asked.count(op) == 1
