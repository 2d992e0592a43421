"""Graphs whose tensors lie on a CPU and a GPU: each part is of one device, and all parts together compute the whole.

Input: random core graphs. There is no GPU: a move to one is a copy, and a part "for a GPU" runs on the CPU after it was
checked.
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from cutaway.artifacts import HalfArtifacts
from cutaway.device_parts import devices_of, lies_apart, lower_apart, numbered
from cutaway.inductor import lower_and_build
from cutaway.pipelines import default_pipeline
from cutaway.targets import target_for
from cutaway.torch_api import torch
from stage0_eager import TABLE, arrays
from stage0_eager.kernels import host_copies
from stage4_runtime.runtime import launch_on_numpy
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_parts import parts_of
from stage_contracts.tensor_meta import TensorMeta

GPU = Device("cuda", 0)


def _row_major(array):
    return np.array(array, order="C")


def op(name):
    return TABLE[f"core.{name}"]


def drawn(seed):
    """A graph of additions, products, sines, views and moves over values of both devices; inputs for it."""
    draw = random.Random(seed)
    graph, values = Graph("forward"), []

    def call(name, *args):
        metas = [a.val if isinstance(a, Node) else a for a in args]
        values.append(graph.call_function(op(name), args, val=CORE_OPS[name].meta(*metas)))

    for k in range(draw.randint(1, 4)):
        meta = TensorMeta((2, 3), dt.float32, device=draw.choice((CPU, GPU)))
        values.append(graph.placeholder(f"x{k}", meta, role="primal"))
    for _ in range(draw.randint(3, 25)):
        a = draw.choice(values)
        beside = [v for v in values if v.val.device == a.val.device and v.val.shape == a.val.shape]
        rank = len(a.val.shape)
        match draw.choice(("move", "move", "add", "mul", "sin", "permute", "expand", "slice")):
            case "move":
                call("to_device", a, GPU if a.val.device == CPU else CPU)
            case "add" | "mul" as name:
                call(name, a, draw.choice(beside))
            case "sin":
                call("sin", a)
            case "permute":
                call("permute", a, tuple(draw.sample(range(rank), rank)))
            case "expand" if rank < 4:
                call("expand", a, (draw.randint(1, 3), *a.val.shape))
            case "slice":
                call("slice", a, draw.randrange(rank), 0, 2, draw.randint(1, 2))
    graph.output([draw.choice(values) for _ in range(draw.randint(1, 4))])
    rng = np.random.default_rng(seed)
    given = [rng.standard_normal((2, 3), np.float32) for _ in graph.placeholders]
    return graph.verify(), given


def strict(part, run):
    """`run`, which is for arrays laid out as the part's metas say."""

    def call(*given):
        for node, array in zip(part.placeholders, given, strict=True):
            assert arrays.element_strides(array) == node.val.strides, node
        return run(*given)

    return call


def compiled_here(seen):
    """What compiles a part: on the CPU by our stages, "for a GPU" op by op."""

    def lower(part, device):
        assert devices_of(part.nodes) == {device}
        seen.append((part, device))
        if device == CPU:
            return lower_and_build(part, device, default_pipeline())
        run = strict(part, launch_on_numpy(part))
        return lambda: HalfArtifacts(part, default_pipeline(), target_for(CPU), run=run)

    return lower


@pytest.fixture
def copies(monkeypatch):
    """Moves are copies, row-major ones but for what `as_rows` does, as CuPy's are."""
    monkeypatch.setattr(arrays, "move", lambda array, device: arrays.as_rows(array, _row_major))
    monkeypatch.setattr("cutaway.device_parts.target_for", lambda device: target_for(CPU))


@pytest.mark.parametrize("seed", range(40))
def test_the_parts_compute_the_whole(seed, copies):
    graph, given = drawn(seed)
    want = launch_on_numpy(graph)(*given)
    seen = []
    half = lower_apart(graph, default_pipeline(), compiled_here(seen))()
    for got, wanted in zip(half.run(*given), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert [*half.subgraphs] == [part.name for part, _ in seen]


@pytest.mark.parametrize("seed", range(40))
def test_parts_are_as_few_as_the_moves_between_them_allow(seed):
    """No two parts in a row are at one place, and none reads what a later one gives."""
    graph, _ = drawn(seed)
    part_of = numbered(graph)
    assert {*part_of} == {*graph.calls}
    for node, part in part_of.items():
        assert all(part_of.get(read, 0) <= part for read in node.all_input_nodes)
    places = {}
    for node, part in part_of.items():
        places.setdefault(part, set()).add(frozenset(devices_of([node, *node.all_input_nodes])))
    kinds = ["moves" if any(len(one) > 1 for one in places[k]) else str(places[k]) for k in sorted(places)]
    assert all(a != b for a, b in zip(kinds, kinds[1:], strict=False))


def test_a_round_trip_has_five_parts():
    graph = Graph("forward")
    x = graph.placeholder("x", TensorMeta((4,), dt.float32), role="primal")
    a = graph.call_function(op("sin"), (x,), val=x.val)
    there = graph.call_function(op("to_device"), (a, GPU), val=TensorMeta((4,), dt.float32, device=GPU))
    b = graph.call_function(op("mul"), (there, there), val=there.val)
    c = graph.call_function(op("sin"), (b,), val=b.val)
    back = graph.call_function(op("to_device"), (c, CPU), val=x.val)
    graph.output([graph.call_function(op("add"), (back, a), val=x.val)])
    assert lies_apart(graph) and [*numbered(graph).values()] == [1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize("seed", range(40))
def test_moves_that_need_nothing_come_first(seed):
    graph, _ = drawn(seed)
    part_of = numbered(graph)
    for node in graph.calls:
        moves = node.target is op("to_device") and node.val.device != node.args[0].val.device
        if moves and node.args[0].op == "placeholder":
            assert part_of[node] == 0


def test_a_graph_tells_the_copy_that_the_host_need_not_wait(copies, monkeypatch):
    seen = []
    monkeypatch.setattr(host_copies, "move", lambda array, device, later: seen.append(later) or array)

    def function(x, y):
        return x.to("cuda", non_blocking=True) + y.to("cuda", torch.float32, True), x.to("cuda").cos()

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    compiled(torch.ones(3), torch.zeros(3))
    assert seen == [True, True, False]


def test_a_part_on_the_host_waits_for_what_it_reads(copies, monkeypatch):
    graph = Graph("forward")
    x = graph.placeholder("x", TensorMeta((4,), dt.float32, device=GPU), role="primal")
    here = graph.call_function(op("to_device"), (x, CPU, True), val=TensorMeta((4,), dt.float32))
    graph.output([graph.call_function(op("sin"), (here,), val=here.val)])

    def sent(array, device, later):
        arriving = np.zeros_like(array)
        arrays.ARRIVING[id(arriving)] = SimpleNamespace(wait=lambda: arriving.__setitem__(..., array))
        return arriving

    monkeypatch.setattr(host_copies, "move", sent)
    run = lower_apart(graph, default_pipeline(), compiled_here([]))().run
    given = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(run(given)[0], np.sin(given), rtol=1e-6)
    arrays.ARRIVING.clear()


class Check:
    """An operator that must run once, though nothing reads what it gives."""

    name, has_effect = "check", True


def test_a_part_that_gives_nothing_runs_all_the_same():
    """It may check the data. A view that nobody reads is in no part."""
    graph, checks = Graph("forward"), Check()
    x = graph.placeholder("x", TensorMeta((2, 3), dt.float32, device=GPU), role="primal")
    here = graph.call_function(op("to_device"), (x, CPU), val=TensorMeta((2, 3), dt.float32))
    turned = graph.call_function(op("permute"), (here, (1, 0)), val=TensorMeta((3, 2), dt.float32, (1, 3)))
    check = graph.call_function(checks, (turned,), val=turned.val)
    graph.call_function(op("permute"), (here, (1, 0)), val=turned.val)
    graph.output([x])
    moved, checked = parts_of(graph, {node: min(k, 1) for k, node in enumerate(graph.calls)})
    assert moved.gives == [here] and not checked.gives
    assert [n.target for n in checked.graph.calls] == [turned.target, check.target]
