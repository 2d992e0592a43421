"""A graph written as JSON by a custom backend loads as the same graph, which computes the same values.

Input: PROGRAMS, a table over what a graph can hold: kinds of arguments, several results, subgraphs, constants, open
sizes. A file that was damaged in any one place is refused in words.
"""

import json
import random

import numpy as np
import pytest

import cutaway
from cutaway.backends import run_backend
from cutaway.debug.graph_json import MARKS, load_graph, save_graph
from stage_contracts.graph_text import print_graph
from tests.models.cases import TINY, load_file, tensors

WEIGHT = cutaway.tensor([float("nan"), 1.0, -2.0])
HALF = cutaway.ones(3, dtype=cutaway.bfloat16)


def layer(x):
    return (x @ x.T).relu().sum(dim=-1, keepdim=True)


PROGRAMS = {
    "numbers": lambda x: (x * 2 - 0.5) ** 2 + float("inf"),
    "slices": lambda x: x[..., 1:2] + x[None, 0, :1],
    "dtypes": lambda x: x.to(cutaway.float64).sum(dim=(0, 1), dtype=cutaway.float32),
    "two results": lambda x: x.sort(dim=1, descending=True),
    "lists": lambda x: cutaway.cat([x, x.flip(0)], dim=1).reshape([-1]),
    "constants": lambda x: x[0, :3] * WEIGHT + HALF,
    "a device": lambda x: x + cutaway.zeros(2, 3, device="cpu"),
    "a branch": lambda x: cutaway.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() * 2, (x,)),
    "random numbers": lambda x: cutaway.nn.functional.dropout(x, 0.5),
    "a layer": layer,
    "computed sizes": lambda x: x[: x.shape[0] // 2].sum() + x.reshape(x.shape[0] * 3)[: max(x.shape[0], 3)],
    "arrays": lambda x: cutaway.from_numpy(x.numpy()[1:].astype("float64").flatten()),
}


def both_ways(program, path, **options):
    """(what eager computes, what the graph from the file computes, the texts of both graphs)."""
    texts = []

    def backend(graph_module, inputs):
        save_graph(graph_module, path)
        texts.extend(print_graph(of.graph) for of in (graph_module, load_graph(path)))
        return load_graph(path)

    x = cutaway.arange(6, dtype=cutaway.float32).reshape(2, 3)
    results = []
    for run in (program, cutaway.compile(program, backend=backend, fullgraph=True, **options)):
        cutaway.manual_seed(0)
        found = run(x)
        results.append(found if isinstance(found, tuple) else (found,))
    return *results, texts


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_graph_is_the_graph(name, dynamic, tmp_path):
    expected, found, texts = both_ways(PROGRAMS[name], tmp_path / "graph.json", dynamic=dynamic)
    assert len(texts) == 2 and texts[0] == texts[1]
    for wanted, got in zip(expected, found, strict=True):
        assert got.dtype is wanted.dtype and cutaway.allclose(got, wanted, equal_nan=True)


def test_marks_that_do_not_print_are_kept(tmp_path):
    """A write under no_grad in a graph that has gradients: without its mark, stage 2 would let a gradient through it."""
    marks = []

    def silent(x, y):
        with cutaway.no_grad():
            y.mul_(2)
        return x * y

    def backend(graph_module, inputs):
        save_graph(graph_module, tmp_path / "graph.json")
        for of in (graph_module, load_graph(tmp_path / "graph.json")):
            marks.append([{k for k in MARKS if node.meta.get(k)} for node in of.graph.nodes])
        return run_backend("inductor", load_graph(tmp_path / "graph.json"), inputs)

    x, y = cutaway.ones(3, requires_grad=True), cutaway.ones(3)
    cutaway.compile(silent, backend=backend, fullgraph=True)(x, y).sum().backward()
    assert marks[0] == marks[1] and any(marks[0]) and x.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)
def test_a_models_graph_is_written_and_loaded(case, tmp_path):
    texts = []

    def backend(graph_module, inputs):
        save_graph(graph_module, tmp_path / "graph.json")
        loaded = load_graph(tmp_path / "graph.json")
        texts.append((print_graph(graph_module.graph), print_graph(loaded.graph)))
        return loaded

    module = load_file(case.file, cutaways=True)
    batch = tensors(cutaway, case.batch(np.random.default_rng(case.seed)), "float32")
    case.run(module, cutaway.compile(case.build(module), backend=backend), batch)
    assert texts and all(before == after for before, after in texts)


def test_the_file_says_what_each_node_is(tmp_path):
    both_ways(layer, tmp_path / "graph.json", dynamic=True)
    record = json.loads((tmp_path / "graph.json").read_text())
    assert record["format"] == "cutaway graph 1" and record["sizes"] == {"s0": 2, "s1": 3}
    product = next(node for node in record["nodes"] if node["target"] == "cutaway.matmul")
    assert product["type"] == "float32[s0, s0]" and product["args"][0] == {"node": "x"}
    assert product["lines"][0][2] == "x @ x.T"


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_loaded_graph_goes_through_a_backend(dynamic, tmp_path):
    def backend(graph_module, inputs):
        save_graph(graph_module, tmp_path / "graph.json")
        return run_backend("inductor", load_graph(tmp_path / "graph.json"), inputs)

    compiled = cutaway.compile(layer, backend=backend, dynamic=dynamic)
    for rows in (2, 5):
        x = cutaway.randn(rows, 3)
        assert cutaway.allclose(compiled(x), layer(x))


def test_what_cannot_be_named_is_refused(tmp_path):
    class Twice(cutaway.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    refused = []

    def backend(graph_module, inputs):
        try:
            save_graph(graph_module, tmp_path / "graph.json")
        except ValueError as error:
            refused.append(str(error))
        return graph_module

    cutaway.compile(Twice.apply, backend=backend)(cutaway.ones(2, requires_grad=True))
    assert not refused or "was made for this call" in refused[0]


def test_a_damaged_file_is_a_value_error(tmp_path):
    """Each value of the record replaced or left out, one at a time, at fixed places: never another kind of error."""
    path = tmp_path / "graph.json"
    both_ways(PROGRAMS["constants"], path, dynamic=True)
    text = path.read_text()
    for wrong in ("", "[]", "{", text.replace("graph 1", "graph 9")):
        path.write_text(wrong)
        with pytest.raises(ValueError):
            load_graph(path)
    draw = random.Random(0)
    refused = 0
    for _ in range(300):
        record = json.loads(text)
        place = record
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = draw.choice(list(keys))
            if not isinstance(place[key], (dict, list)) or not place[key] or draw.random() < 0.2:
                break
            place = place[key]
        if draw.random() < 0.3:
            del place[key]
        else:
            place[key] = draw.choice([None, 7, "x", [], {}, {"node": "nowhere"}, "float32[", -1])
        path.write_text(json.dumps(record))
        try:
            load_graph(path)
        except ValueError:
            refused += 1
    assert refused > 100
