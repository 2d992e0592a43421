"""What `Graph.verify` says of each node's meta: a planted error is found and named, and what has no rule is left alone.

Input: small graphs of core operators, with one thing wrong in each.
"""

from __future__ import annotations

import operator
from types import SimpleNamespace

import pytest

from stage_contracts import config, graph_verify
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph, GraphError
from stage_contracts.node_meta import META_KEYS
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

ADD, SORT, NONZERO = (
    SimpleNamespace(name=name, qualname=f"core.{name}", meta=CORE_OPS[name].meta, core=None)
    for name in ("add", "sort", "nonzero")
)
X = TensorMeta((2, 3), dt.float32)


def graph_of(val=X, target=ADD, args=lambda x: (x, x), x=X, **meta) -> Graph:
    graph = Graph()
    node = graph.placeholder("x", x)
    graph.output([graph.call_function(target, args(node), val=val, **meta)])
    return graph


WRONG_VALS = {
    "shape": X.with_(shape=(3, 2)),
    "rank": X.with_(shape=(6,)),
    "dtype": TensorMeta((2, 3), dt.float64),
    "strides": X.with_(strides=(1, 2)),
    "several": (X, X),
    "none": None,
}


@pytest.mark.parametrize("wrong", WRONG_VALS)
def test_a_val_that_the_rule_does_not_give_is_named(wrong):
    with pytest.raises(GraphError, match=r"add\.val is .*, but the meta rule of .* gives float32\[2, 3\]"):
        graph_of(WRONG_VALS[wrong]).verify()


def test_what_the_rule_gives_and_whether_it_requires_grad_is_accepted():
    graph_of().verify()
    graph_of(X.with_(requires_grad=True, strides=X.strides)).verify()


def test_arguments_that_the_rule_refuses_are_named():
    graph = Graph()
    x, y = graph.placeholder("x", X), graph.placeholder("y", X.with_(shape=(5, 7)))
    graph.output([graph.call_function(ADD, (x, y), val=X)])
    with pytest.raises(GraphError, match="add: .* does not take these arguments"):
        graph.verify()


def test_an_item_of_several_results_is_that_item():
    def graph(item):
        graph = Graph()
        both = graph.call_function(
            SORT, (graph.placeholder("x", X), 0, False, True), val=SORT.meta(X, 0, False, True)
        )
        graph.output([graph.call_function(operator.getitem, (both, item), val=X)])
        return graph

    graph(0).verify()
    with pytest.raises(GraphError, match=r"gives int64\[2, 3\]"):
        graph(1).verify()


def test_what_only_the_data_knows_is_left_alone():
    graph_of(TensorMeta((4, 2), dt.int64), NONZERO, lambda x: (x,)).verify()


def test_a_check_assumes_nothing_of_open_sizes():
    env = ShapeEnv()
    n, m = env.dimension("n", 4), env.dimension("m", 4)
    graph = Graph()
    x, y = (
        graph.placeholder("x", TensorMeta((n,), dt.float32)),
        graph.placeholder("y", TensorMeta((m,), dt.float32)),
    )
    graph.output([graph.call_function(ADD, (x, y), val=x.val)])
    graph.verify()
    assert not env.assumptions and not env.replacements


WRONG_KEYS = {
    "unknown": {"colour": "red"},
    "wrong value": {"region": "sideways"},
    "wrong node": {"role": "primal"},
    "wrong type": {"origins": ["a line"]},
}


@pytest.mark.parametrize("wrong", WRONG_KEYS)
def test_a_key_that_is_not_declared_so_is_named(wrong):
    (key,) = WRONG_KEYS[wrong]
    graph = graph_of()
    graph.calls[0].meta.update(WRONG_KEYS[wrong])
    with pytest.raises(GraphError, match=rf"add\.meta.*{key}"):
        graph.verify()


def test_a_key_of_somebody_elses_is_not_checked():
    graph_of(**{"mypackage.cost": object()}).verify()
    assert all("." not in key and row.meaning for key, row in META_KEYS.items())


def test_it_is_off_unless_asked_for(monkeypatch):
    monkeypatch.setattr(graph_verify, "ALWAYS_CHECK_METAS", False)
    wrong = graph_of(WRONG_VALS["shape"], region="sideways")
    wrong.verify()
    with config.patch(verify_passes=True), pytest.raises(GraphError):
        wrong.verify()
