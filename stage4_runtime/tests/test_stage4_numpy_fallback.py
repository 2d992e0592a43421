"""Without a compiler a core graph runs op by op on NumPy and gives the arrays eager would."""

import operator

import numpy as np

import stage0_eager
from stage4_runtime.runtime import launch_on_numpy, report_once
from stage_contracts.dtype import float32
from stage_contracts.graph import Graph
from stage_contracts.tensor_meta import TensorMeta

CORE = {name.removeprefix("core."): op for name, op in stage0_eager.TABLE.items() if name.startswith("core.")}


def call(graph, name, *args, **kwargs):
    return graph.call_function(CORE[name], args, kwargs)


def test_a_graph_of_core_operators():
    graph = Graph("forward")
    x = graph.placeholder("x", TensorMeta((3, 4), float32))
    c = graph.get_attr("c", stage0_eager.Tensor(np.full((4,), 2.0, np.float32)))
    product = call(graph, "mul", call(graph, "sin", x), c)
    graph.output(
        (call(graph, "sum", product, (1,), keepdim=True), call(graph, "amax", product, (0, 1)), None, x)
    )
    run = launch_on_numpy(graph)
    a = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    total, largest, nothing, same = run(a)
    np.testing.assert_allclose(total, (np.sin(a) * 2).sum(1, keepdims=True), rtol=1e-6)
    assert isinstance(largest, np.ndarray) and largest.shape == () and largest.dtype == np.float32
    assert nothing is None and same is a
    assert "core.sin" in run.source_text


def test_items_of_tuples():
    graph = Graph("forward")
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.getitem, (x, 1)),))
    assert launch_on_numpy(graph)((1, 2)) == (2,)


def test_a_fallback_is_told_once(capsys):
    for _ in range(3):
        report_once("cutaway: no C++ compiler, in a test")
    assert capsys.readouterr().err == "cutaway: no C++ compiler, in a test\n"
