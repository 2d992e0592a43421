"""debug.verify: the first operator that differs is named with the user's line and both values; what is right is silent.

Input: faults planted in stage 3 (planted_faults.py has those in models); each program is right without its fault.
"""

from dataclasses import replace

import numpy as np
import pytest

import cutaway
from cutaway import config
from cutaway.debug.in_float64 import exact, excused
from cutaway.debug.verify import differ
from stage_contracts.errors import VerifyError


def layer(x, w):
    y = (x @ w).relu()
    z = y.exp()
    return (z.tanh() - y).sum()


def twice(operator):
    """A pipeline whose stage 3 applies that operator twice wherever it stands."""
    ours = cutaway.DEFAULT_PIPELINE

    def lower(graph):
        wrong = graph.copy()
        for node in wrong.calls:
            if node.target.qualname == operator:
                with wrong.inserting_before(node):
                    wrong.set_args(node, [wrong.call_function(node.target, node.args, val=node.val)])
        return ours.lower(wrong)

    return replace(ours, lower=lower)


def inputs():
    cutaway.manual_seed(0)
    return cutaway.randn(5, 6), cutaway.randn(6, 7, requires_grad=True)


@pytest.mark.parametrize(("operator", "line"), [("core.exp", "z = y.exp()"), ("core.tanh", "z.tanh() - y")])
def test_the_first_operator_that_differs_is_named_with_its_line_and_both_values(operator, line):
    with config.patch({"debug.verify": True}), pytest.raises(VerifyError) as raised:
        cutaway.compile(layer, pipeline=twice(operator))(*inputs())
    text = str(raised.value)
    assert f"{operator} is the first operator that differs" in text
    assert line in text
    assert "eager gives" in text
    assert "compiled" in text


def test_a_right_program_says_nothing_forward_and_backward():
    x, w = inputs()
    layer(x, w).backward()
    expected, w.grad = w.grad, None
    with config.patch({"debug.verify": True}):
        cutaway.compile(layer)(x, w).backward()
    assert cutaway.allclose(w.grad, expected)


def test_off_it_checks_nothing():
    assert not cutaway.allclose(
        cutaway.compile(layer, pipeline=twice("core.exp"))(*inputs()), layer(*inputs())
    )


def test_an_update_in_place_is_checked_against_what_was_there_before():
    x = cutaway.ones(4)
    with config.patch({"debug.verify": True}):
        cutaway.compile(lambda x: x.add_(1).mul_(3))(x)
    assert x.tolist() == [6.0] * 4


@pytest.mark.parametrize(
    ("expected", "found", "apart"),
    [
        ([1.0, 1e6], [1.0 + 1e-3, 1e6], False),  # within the roundings of the largest
        ([1.0, 2.0], [1.0, 2.01], True),
        ([1.0, float("nan")], [1.0, float("nan")], False),
        ([1.0, float("inf")], [1.0, 3.0], True),
    ],
)
def test_what_differs(expected, found, apart):
    assert differ(cutaway.tensor(expected)._data, cutaway.tensor(found)._data) is apart


def test_another_dtype_or_another_integer_differs():
    one = cutaway.tensor([1])._data
    assert differ(one, one + 1)
    assert differ(one, one.astype("int32"))


@pytest.mark.parametrize(
    ("found", "is_excused"),
    [(3.6e-13, True), (-8e-13, True), (1e-10, False), (float("nan"), False)],
)
def test_a_result_about_as_near_to_the_exact_one_as_eager_s_is_no_fault(found, is_excused):
    """The gradient of a key's bias is 0: eager and compiled code give what is left of their roundings."""
    one = lambda value, dtype=np.float32: np.array([value, 1.0], dtype)  # noqa: E731
    assert excused(one(0.0, np.float64), one(-9e-14), one(found)) is is_excused


def test_the_exact_results_are_those_of_the_program_in_float64():
    x, w = inputs()
    core = cutaway.compile(layer)
    core(x, w.detach())
    graph = core.artifacts[-1].forward.core
    arrays = [{(5, 6): x, (6, 7): w.detach()}[n.val.shape].numpy() for n in graph.placeholders]
    (found,) = exact(graph, arrays)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, layer(x.double(), w.detach().double()).numpy(), rtol=1e-12)
