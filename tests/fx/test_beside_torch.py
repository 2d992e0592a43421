"""Graphs traced by torch.fx and by ours: the same text, except for the names of private functions, and the same results.

Input: the programs of programs.py, under the real torch and under cutaway.torch_api.
"""

import re

import numpy as np
import pytest

from cutaway.torch_api import torch as ours
from tests.fx.programs import PROGRAMS, inputs_of

torch = pytest.importorskip("torch")
pytest.importorskip("torch.fx")

PRIVATE = {"torch._C._nn.": "torch.nn.functional.", "_operator_abs": "operator_abs", "_stacklevel = 3, ": ""}


def text_of(code):
    for private, public in PRIVATE.items():
        code = code.replace(private, public)
    return re.sub(r"\n+", "\n", code)


def leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_same_text_and_the_same_results(program):
    texts, graphs, results = [], [], []
    for language in (torch, ours):
        traced, shapes = program(language)
        module = language.fx.symbolic_trace(traced)
        texts.append(text_of(module.code))
        graphs.append([(n.op, n.name) for n in module.graph.nodes])
        found, eager = (leaves(f(*inputs_of(language, shapes))) for f in (module, traced))
        results.append(found)
        for a, b in zip(found, eager, strict=True):
            assert np.array_equal(_array(a), _array(b), equal_nan=True)
    assert texts[1] == texts[0] and graphs[1] == graphs[0]
    for a, b in zip(*results, strict=True):
        assert np.allclose(_array(a), _array(b), atol=1e-6)


def _array(value):
    return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)


CONCRETE = [{"flag": False}, {"flag": True, "n": 2}, {"n": None, "flag": True}]


@pytest.mark.parametrize("values", CONCRETE, ids=str)
def test_parameters_whose_value_is_given(values):
    def f(x, flag, n=3):
        if flag:
            return x + (0 if n is None else n)
        return x * n

    texts = []
    for language in (torch, ours):
        module = language.fx.symbolic_trace(f, concrete_args=values)
        texts.append(module.code)
        given = [values.get("flag"), *([values["n"]] if "n" in values else [5])]
        assert module(language.ones(2), *given).tolist() == f(language.ones(2), *given).tolist()
        with pytest.raises(AssertionError, match="flag has been specialized to have value"):
            module(language.ones(2), "another", *given[1:])
    assert text_of(texts[1]) == text_of(texts[0])


def edited(language):
    """The text of a graph after edits at every kind of place, and what iterating over it meanwhile visited."""
    fx, seen = language.fx, []
    graph = fx.Tracer().trace(lambda x: language.sigmoid(x).neg() + 1)
    for node in graph.nodes:
        seen.append(node.name)
        if node.target == "neg":
            with graph.inserting_before(node):
                first = graph.call_function(language.add, (node.args[0], 1))
                second = graph.call_function(language.mul, (first, 2))
            with graph.inserting_after(node):
                graph.call_method("exp", (first,))
                graph.call_method("log", (first,))
            node.replace_all_uses_with(second)
            graph.erase_node(node)
    with graph.inserting_before():
        graph.get_attr("somewhere.0.weight")
    last = graph.find_nodes(op="output")[0]
    last.prev.prepend(graph.find_nodes(op="call_method", target="exp")[0])
    last.args = ((last.args[0], first, None),)
    twin = fx.Graph()
    twin.output(twin.graph_copy(graph, {}))
    return (
        graph.python_code("self").src,
        str(graph),
        seen,
        twin.python_code("self").src,
        str(graph.find_nodes(op="call_method", target="exp")),
    )


def test_edits_give_the_same_graph():
    assert [text_of(str(part)) for part in edited(ours)] == [text_of(str(part)) for part in edited(torch)]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x if x else 1,
        lambda x: list(x),
        lambda x: len(x),
        lambda x: int(x),
        lambda x: range(x),
    ],
    ids=["bool", "for", "len", "int", "range"],
)
def test_what_cannot_be_traced_raises_the_same(program):
    errors = []
    for language in (torch, ours):
        with pytest.raises(Exception) as told:
            language.fx.symbolic_trace(program)
        errors.append((type(told.value).__name__, str(told.value)))
    assert errors[1] == errors[0]
