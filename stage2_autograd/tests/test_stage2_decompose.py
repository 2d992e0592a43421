"""Decompose: only core operators are left, names, marks and origins stay, the passes keep their order.

Input: functional and joint graphs in operators of any kind.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from stage0_eager import TABLE, Tensor
from stage0_eager.core_interpreter import interpreter
from stage0_eager.random.generator import rand_of_shape
from stage2_autograd.decompose.common_subexpressions import common_subexpressions
from stage2_autograd.decompose.passes import PASS_ORDER, PASSES
from stage2_autograd.tests.helpers import (
    activations,
    capture,
    is_core,
    names_of,
    pointwise,
    reads_back,
    reductions,
    tensor,
)
from stage_contracts.dtype import float32, float64
from stage_contracts.passes import Pass, PassTable

tiny = import_module("stage2_autograd.tiny.decompose")  # the module, not the function of that name

decompose_first = pytest.mark.conformance("decompose", tier="first")
decompose_core = pytest.mark.conformance("decompose", tier="core")
decompose_full = pytest.mark.conformance("decompose")


def functional(seam, function, *tensors):
    return seam("functionalize")(capture(function, *tensors)).graph


def core_of(seam, function, *tensors):
    graph = seam("decompose")(functional(seam, function, *tensors)).verify(allowed=is_core)
    reads_back(graph)
    return graph


# ---- the seam ----------------------------------------------------------------------------------------------


@decompose_first
def test_composites_become_core_operators_that_compute_the_same(seam):
    """Every composite operator becomes core operators that compute the same values."""
    x = tensor(4, 5, grad=False)
    graph = core_of(seam, lambda x: reductions.softmax(activations.relu(x), 1), x)
    (got,) = interpreter(graph)(x._data)
    np.testing.assert_array_equal(got, reductions.softmax(activations.relu(x), 1)._data)


@decompose_first
def test_marks_names_origins_and_inputs_stay(seam):
    """Marks, origins and the inputs of the graph stay as they were."""
    made = seam("functionalize")(
        capture(lambda x, y: activations.relu(pointwise.sin(x)) * y, tensor(3), tensor(3))
    )
    joint = seam("differentiate")(made)
    graph = seam("decompose")(joint.graph)
    assert [(n.name, n.val, n.meta["role"]) for n in graph.placeholders] == [
        (n.name, n.val, n.meta["role"]) for n in joint.graph.placeholders
    ]
    before = {n.name: n for n in joint.graph.calls}
    kept = [n for n in graph.calls if n.name in before]
    assert {"sin", "relu", "mul"} <= {n.name for n in kept}
    assert all(n.meta["region"] == before[n.name].meta["region"] for n in kept)
    assert all(n.meta["region"] and n.origins for n in graph.calls)
    assert [o and o.val for o in graph.outputs] == [o and o.val for o in joint.graph.outputs]


@decompose_core
def test_a_users_casts_are_never_dropped(seam):
    """A cast that you wrote is never dropped, even where it looks idle."""

    def program(x):
        return TABLE["core.cast"](TABLE["core.cast"](x, float32), float64) * 2

    x = Tensor(np.array([1 / 3, 1e300]))
    graph = core_of(seam, program, x)
    assert names_of(graph) == ["cast", "cast", "mul"]
    np.testing.assert_array_equal(interpreter(graph)(x._data)[0], program(x)._data)


@decompose_core
def test_draws_do_not_merge_and_equal_work_does(seam):
    """Two random draws stay two; equal work without a draw is done once."""

    def program(x):
        return rand_of_shape((3,)) + pointwise.sin(x), rand_of_shape((3,)) * pointwise.sin(x)

    names = names_of(core_of(seam, program, tensor(3, grad=False)))
    assert names.count("random_bits") == 2 and names.count("sin") == 1


@decompose_full
def test_the_graph_it_was_given_is_as_before(seam):
    graph = functional(seam, lambda x: reductions.softmax(x, 0), tensor(3))
    text = str(graph)
    seam("decompose")(graph)
    assert str(graph.verify()) == text


# ---- the passes: the default's, which change the graph they are given, and the tiny one's, which make a new one -


def merged_in_place(graph):
    common_subexpressions(graph)
    graph.eliminate_dead_code()
    return graph


both = pytest.mark.parametrize(
    "merged", [merged_in_place, tiny.common_subexpressions], ids=["default", "tiny"]
)
c = {name.removeprefix("core."): op for name, op in TABLE.items() if name.startswith("core.")}


@both
def test_constants_that_look_alike_do_not_merge(merged):
    def program(x):
        values = (0.0, -0.0, 0, False, float("nan"), 0.0)
        return c["cat"]([c["mul"](x, v) for v in values], 0)

    assert names_of(merged(capture(program, tensor(3)))).count("mul") == 5


@both
def test_equal_calls_merge_and_both_origins_stay(merged):
    graph = merged(capture(lambda x: c["add"](c["mul"](c["sin"](x), 2), c["sin"](x)), tensor(3)))
    assert names_of(graph) == ["sin", "mul", "add"]
    assert [o.line for o in graph.calls[0].origins] == [1, 3]


@both
def test_two_outputs_never_become_one(merged):
    def program(x):
        return c["add"](x, 1), c["add"](x, 1), c["permute"](c["exp"](x), (1, 0)), c["exp"](x)

    graph = merged(capture(program, tensor(2, 2)))
    assert names_of(graph).count("add") == 2 and names_of(graph).count("exp") == 2
    assert len(set(graph.outputs)) == 4


@both
def test_an_output_merges_with_what_is_none(merged):
    graph = merged(capture(lambda x: (c["mul"](c["exp"](x), 2), c["exp"](x)), tensor(2, 2)))
    assert names_of(graph) == ["exp", "mul"]


def test_dead_code_takes_constants_with_it_and_leaves_inputs():
    constant = Tensor(np.ones(3))
    graph = tiny.dead_code(
        capture(lambda x, y: (c["mul"](x, constant), c["neg"](x))[1], tensor(3), tensor(3))
    )
    assert names_of(graph) == ["neg"] and not graph.attributes and len(graph.placeholders) == 2


def test_the_table_keeps_its_order():
    PassTable("decompose", PASSES, PASS_ORDER)
    with pytest.raises(ValueError, match="must come before .*: "):
        PassTable("decompose", PASSES[::-1], PASS_ORDER)
    with pytest.raises(ValueError, match="not one of"):
        PassTable("decompose", PASSES[:-1], PASS_ORDER)
    with pytest.raises(ValueError, match="share a name"):
        PassTable("decompose", (*PASSES, Pass("dead_code", PASSES[-1].run, "")), PASS_ORDER)
