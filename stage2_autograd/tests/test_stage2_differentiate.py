"""The two ways to differentiate: by a walk over the graph and by the eager tape. They write the same graph.

Input: programs where the walks could part: sums of gradients, calls with several results, lists of tensors, no_grad.
"""

from __future__ import annotations

import itertools
import re

import pytest

from stage0_eager import TABLE
from stage2_autograd import tiny
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.tests.helpers import (
    activations,
    capture,
    dropout,
    pointwise,
    products,
    reductions,
    tensor,
)
from stage_contracts.dtype import float64
from stage_contracts.graph import Graph, GraphError
from stage_contracts.joint import FunctionalGraph
from stage_contracts.tensor_meta import TensorMeta


def sums(x, y):
    h = pointwise.tanh(x * y) * x + y
    return h + pointwise.sin(h) * h, h.sum(), x.detach() * y


def several_results(x, y):
    values, _ = TABLE["cutaway.sort"](x * y, 0)
    kept, _ = TABLE["cutaway.sort"](x - y, 0)
    return values * 2, kept.sum()


def lists(x, y):
    joined = TABLE["cutaway.cat"]([x, y.detach(), y * x, x], 0)
    return reductions.softmax(joined, 0), TABLE["cutaway.stack"]([y, x], 0)


def network(x, y):
    h = dropout.dropout(activations.gelu(products.matmul(x, y)), 0.3)
    return reductions.logsumexp(h, 1), reductions.argmax(h, 0)


def without_names(graph) -> str:
    """The text of a graph with its values numbered in order of appearance."""
    text = str(graph)
    numbers = itertools.count()
    found: dict[str, str] = {}
    names = {node.name for node in graph.nodes}
    return re.sub(
        r"\b\w+\b",
        lambda m: found.setdefault(m[0], f"v{next(numbers)}") if m[0] in names else m[0],
        text,
    )


@pytest.mark.parametrize("program", [sums, several_results, lists, network])
def test_both_write_the_same_graph(program):
    functional = functionalize(capture(program, tensor(4, 4), tensor(4, 4, seed=1)))
    walked, taped = differentiate(functional), tiny.differentiate(functional)
    assert walked.tangent_outputs == taped.tangent_outputs
    assert [n.val for n in walked.graph.placeholders] == [n.val for n in taped.graph.placeholders]
    assert without_names(walked.graph) == without_names(taped.graph)


def test_what_is_computed_under_no_grad_is_off_both_tapes():
    graph = capture(lambda x, y: x * pointwise.sin(x) * y, tensor(4), tensor(4, seed=1))
    for node in graph.calls:
        if node.target.name == "sin":
            node.meta["no_grad"] = True
    functional = functionalize(graph)
    made = [d(functional).graph for d in (differentiate, tiny.differentiate)]
    assert without_names(made[0]) == without_names(made[1])
    assert "cos" not in {n.target.name for n in made[0].calls}


def test_the_functional_graph_is_left_as_it_was():
    functional = functionalize(capture(sums, tensor(4), tensor(4, seed=1)))
    before = str(functional.graph)
    differentiate(functional)
    assert str(functional.graph) == before


def test_a_composite_that_should_have_been_opened_is_an_error():
    graph = Graph()
    x = graph.placeholder("x", TensorMeta((3,), float64, requires_grad=True), role="primal")
    square = TABLE["cutaway.square"]
    assert not square.whole
    graph.output([graph.call_function(square, (x,), val=TensorMeta((3,), float64))])
    with pytest.raises(GraphError, match=r"cutaway\.square has no derivative that could be applied"):
        differentiate(FunctionalGraph(graph, 1))
