"""Which operand a node is a view of: asked once for equal calls, and the same answer as when it is asked each time."""

import operator

import pytest

from stage0_eager import TABLE
from stage0_eager.transforms.shadow_tape import viewed
from stage1_capture.variables import known_results
from stage1_capture.variables.known_results import viewed_once
from stage_contracts.dtype import float32
from stage_contracts.graph import Graph
from stage_contracts.tensor_meta import TensorMeta


def meta(*shape, strides=None):
    return TensorMeta(shape, float32, **({} if strides is None else {"strides": strides}))


def called(graph, name, *args):
    metas = [a.val if hasattr(a, "val") else a for a in args]
    return graph.call_function(TABLE[f"cutaway.{name}"], args, val=TABLE[f"cutaway.{name}"].meta(*metas))


def nodes_of():
    """A graph with the same calls twice, of operands in other places, and of other layouts."""
    graph = Graph()
    found = []
    for k in range(2):
        a, b = graph.placeholder(f"a{k}", meta(4, 6)), graph.placeholder(f"b{k}", meta(4, 6))
        turned = called(graph, "transpose", b, 0, 1)
        first = called(graph, "split", a, 2)
        one = graph.call_function(operator.getitem, (first, 1), val=first.val[1])
        found += [a, turned, one, called(graph, "add", b, a), called(graph, "add", a, a)]
        found += [called(graph, "reshape", turned, (24,)), called(graph, "reshape", b, (24,))]
        found += [called(graph, "reshape", b, (2, 12))]
    return graph, found


def test_it_says_what_the_tape_says(monkeypatch) -> None:
    graph, nodes = nodes_of()
    asked, known = [], {}
    monkeypatch.setattr(known_results, "viewed", lambda g, n: asked.append(n) or viewed(g, n))
    assert [viewed_once(known, graph, n) for n in nodes] == [viewed(graph, n) for n in nodes]
    half = len(nodes) // 2
    assert (
        sum(n.op == "call_function" for n in asked) == half - 1
    )  # of each call once, though other operands have it
    assert {viewed(graph, n) is None for n in nodes} == {True, False}


@pytest.mark.parametrize("name", ["reshape", "transpose"])
def test_a_constant_is_asked_each_time(name, monkeypatch) -> None:
    """It may be a view itself."""
    graph, asked, known = Graph(), [], {}
    monkeypatch.setattr(known_results, "viewed", lambda g, n: asked.append(n))
    words = ((24,),) if name == "reshape" else (0, 1)
    for _ in range(2):
        constant = graph.get_attr("c", None)
        viewed_once(
            known, graph, graph.call_function(TABLE[f"cutaway.{name}"], (constant, *words), val=meta(24))
        )
    assert len(asked) == 2 and not known
