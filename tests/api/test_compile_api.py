"""What a user of `compile` relies on: results, errors, fallbacks, modules, threads, seams, backends.

Input: small functions through the default pipeline.
"""

from __future__ import annotations

import functools
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from cutaway import nn
from stage_contracts import events
from stage_contracts.errors import BackendFailed


def affine(x, w, b):
    return F.relu(x @ w + b)


def inputs(n=4):
    cutaway.manual_seed(0)
    return cutaway.randn(n, 8), cutaway.randn(8, 3), cutaway.randn(3)


def same(a, b, tolerance=1e-6):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)
    assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()


def test_results_equal_eager_and_the_entry_is_reused():
    compiled = cutaway.compile(affine)
    for seed in range(3):
        cutaway.manual_seed(seed)
        args = cutaway.randn(4, 8), cutaway.randn(8, 3), cutaway.randn(3)
        same(compiled(*args), affine(*args))
    assert len(compiled.entries) == 1


def test_another_shape_or_dtype_recompiles_and_says_why():
    compiled = cutaway.compile(affine)
    x, w, b = inputs()
    compiled(x, w, b)
    mark = events.EVENT_LOG.mark()
    y = cutaway.randn(6, 8)
    same(compiled(y, w, b), affine(y, w, b))
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    assert "x.shape[0]: 4 -> 6" in event.details["reason"]
    compiled(x, w, b)
    assert len(compiled.entries) == 2
    compiled(x.double(), w.double(), b.double())
    assert len(compiled.entries) == 3


def test_recompile_limit_keeps_old_entries_and_runs_the_rest_eagerly():
    compiled = cutaway.compile(affine, dynamic=False, options={"recompile_limit": 2})
    _, w, b = inputs()
    with pytest.warns(UserWarning, match="recompile limit"):
        for n in (1, 2, 3, 4):
            x = cutaway.randn(n, 8)
            same(compiled(x, w, b), affine(x, w, b))
    assert len(compiled.entries) == 2


def test_keywords_defaults_and_structure():
    def f(x, scale=2.0, *, shift=None):
        y = x * scale
        if shift is not None:
            y = y + shift
        return {"y": y, "pair": (y.sum(), scale), "same": x}

    compiled = cutaway.compile(f, fullgraph=True)
    x = cutaway.randn(5)
    for kwargs in ({}, {"scale": 3.0}, {"shift": cutaway.ones(5)}):
        got, want = compiled(x, **kwargs), f(x, **kwargs)
        assert got.keys() == want.keys() and got["same"] is x and got["pair"][1] == want["pair"][1]
        same(got["y"], want["y"])
        same(got["pair"][0], want["pair"][0])
    assert len(compiled.entries) == 2  # the number is an input of the graph


def test_wrong_arguments_raise_what_the_function_raises():
    compiled = cutaway.compile(affine)
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        compiled(cutaway.ones(2))
    compiled(*inputs())
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        compiled(cutaway.ones(2))


def test_wrong_shapes_raise_what_eager_raises():
    compiled = cutaway.compile(affine)
    x, w, b = inputs()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        compiled(w, x, b)


def test_a_break_runs_the_frame_eagerly_and_is_recorded():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    compiled = cutaway.compile(f)
    mark = events.EVENT_LOG.mark()
    for x in (cutaway.ones(3), -cutaway.ones(3)):
        same(compiled(x), f(x))
    assert [b.code for b in compiled.breaks] == ["GB0003"]
    (event,) = events.EVENT_LOG.since(mark, "graph_break")
    assert event.origin.text and "test_compile_api.py" in event.origin.file
    with pytest.raises(cutaway.Unsupported, match="GB0003") as caught:
        cutaway.compile(f, fullgraph=True)(cutaway.ones(3))
    assert "if x.sum() > 0" in str(caught.value) and "^" in str(caught.value)


def test_explain_counts_what_the_event_log_counts():
    def f(x):
        return F.gelu(x).sum()

    report = cutaway.explain(f)(cutaway.ones(3))
    assert (report.graph_count, report.graph_break_count, report.op_count) == (1, 0, 2)
    assert "Graph Count: 1" in str(report) and "cutaway.gelu" in str(report)
    assert "Break Reasons:\n  none\n" in str(report)
    names = [line[: line.rindex(" ms")].rstrip("0123456789. ") for line in report.compile_times.splitlines()]
    steps = [f"    capture.{step}" for step in ("instructions", "interpret", "residual", "guards")]
    assert names == [f.__qualname__, "  capture", *steps, "  compile_guards", "  check_guards", "total"]
    broken = cutaway.explain(lambda x: x.item())(cutaway.ones(1))
    assert broken.graph_break_count == 1 and broken.break_reasons[0].code == "GB0004"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + F.gelu(self.linear(x)))


def test_a_compiled_module_is_the_module():
    module = Block()
    compiled = cutaway.compile(module, fullgraph=True)
    x = cutaway.randn(4, 8)
    same(compiled(x), module(x), 1e-5)
    assert isinstance(compiled, Block) and type(compiled).__name__ == "Block"
    assert list(compiled.state_dict()) == list(module.state_dict())
    assert [n for n, _ in compiled.named_parameters()] == [n for n, _ in module.named_parameters()]
    assert repr(compiled) == repr(module)
    compiled(x).sum().backward()
    assert module.linear.weight.grad is not None
    compiled.eval()
    assert module.training is False and module.linear.training is False
    again = pickle.loads(pickle.dumps(compiled))
    assert type(again) is Block
    same(again(x), module(x), 1e-5)


def test_an_attribute_rebound_is_seen():
    module = Block()
    compiled = cutaway.compile(module, fullgraph=True)
    x = cutaway.randn(4, 8)
    compiled(x)
    module.linear = nn.Linear(8, 8)
    same(compiled(x), module(x), 1e-5)
    with cutaway.no_grad():
        module.linear.weight.mul_(2.0)
    same(compiled(x), module(x), 1e-5)


def test_threads_may_compile_and_call_at_once():
    compiled = cutaway.compile(affine, dynamic=False)
    args = {n: (cutaway.randn(n, 8), cutaway.randn(8, 3), cutaway.randn(3)) for n in (2, 3, 4, 5)}
    wanted = {n: affine(*a).numpy() for n, a in args.items()}
    failures: list = []

    def work(n):
        try:
            for _ in range(20):
                np.testing.assert_allclose(compiled(*args[n]).numpy(), wanted[n], rtol=1e-5, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in args for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(compiled.entries) == 4


def test_grad_mode_is_guarded():
    compiled = cutaway.compile(affine)
    x, w, b = inputs()
    w.requires_grad_()
    assert compiled(x, w, b).requires_grad
    with cutaway.no_grad():
        assert not compiled(x, w, b).requires_grad
    assert compiled(x, w, b).requires_grad
    assert len(compiled.entries) == 2


def test_a_foreign_backend_sees_torch_like_graphs():
    seen = {}

    def mine(graph_module, example_inputs):
        seen["targets"] = [n.target for n in graph_module.graph.nodes if n.op == "call_function"]
        seen["inputs"] = example_inputs
        assert "def forward" in graph_module.print_readable(print_output=False)
        return graph_module

    x = cutaway.randn(3)
    same(cutaway.compile(lambda x: cutaway.relu(x) + 1, backend=mine)(x), cutaway.relu(x) + 1)
    assert seen["targets"] == [cutaway.relu, cutaway.add] and seen["inputs"][0] is x

    def failing(graph_module, example_inputs):
        raise KeyError("nope")

    with pytest.raises(BackendFailed, match="failing.*KeyError"):
        cutaway.compile(affine, backend=failing)(*inputs())


def test_anything_callable_compiles():
    class Scale:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x * self.by

        def twice(self, x):
            return x * self.by * 2

        @cutaway.compile
        def compiled(self, x):
            return x * self.by * 3

    x = cutaway.randn(5)
    for fn in (
        cutaway.relu,
        functools.partial(cutaway.add, alpha=2, other=x),
        Scale(3),
        Scale(3).twice,
        Scale(3).compiled,
        x.add,
        cutaway.sum,
    ):
        compiled = cutaway.compile(fn)
        for _ in range(2):
            same(compiled(x), fn(x))
        assert len(compiled.entries) == 1


def test_bad_options_are_errors_at_once():
    with pytest.raises(ValueError, match=r"unknown backend 'inductr'.*did you mean 'inductor'"):
        cutaway.compile(affine, backend="inductr")
    with pytest.raises(RuntimeError, match="no configuration field 'cach'"):
        cutaway.compile(affine, options={"cach": True})
    with pytest.raises(TypeError, match="expects a function"):
        cutaway.compile(3)
    with pytest.raises(RuntimeError, match="mode='fast'"):
        cutaway.compile(affine, mode="fast")


def test_a_swapped_seam_is_used():
    calls = []

    def counting(joint):
        calls.append(joint)
        return cutaway.DEFAULT_PIPELINE.partition(joint)

    compiled = cutaway.compile(affine, pipeline=replace(cutaway.DEFAULT_PIPELINE, partition=counting))
    x, w, b = inputs()
    compiled(x, w.requires_grad_(), b).sum().backward()
    assert len(calls) == 1 and w.grad is not None


def test_every_artifact_is_kept_and_prints():
    compiled = cutaway.compile(affine)
    x, w, b = inputs()
    compiled(x, w.requires_grad_(), b)
    kept = compiled.artifacts[-1]
    for artifact in (kept.captured, kept.functional.graph, kept.joint.graph, kept.decomposed.graph,
                     kept.partition.forward, kept.partition.backward, kept.forward.core):  # fmt: skip
        assert "def " in str(artifact)
    for half in (kept.forward, kept.backward):
        assert half.planned.kernels and str(half.planned)
        assert "extern" in half.emitted["cpp"].units[0].text
    assert "@triton.jit" in kept.emit("forward", "triton").units[0].text


def test_inputs_that_share_memory_with_a_written_one_are_right():
    def f(x, y):
        x.add_(1)
        return x * y

    compiled = cutaway.compile(f, fullgraph=True)
    for overlap in (6, 2, 6):  # elements between the starts of x and y, in one array of 12
        mine, eager = np.ones(12, np.float32), np.ones(12, np.float32)
        x, y = cutaway.from_numpy(mine[:6]), cutaway.from_numpy(mine[overlap : overlap + 6])
        z, w = cutaway.from_numpy(eager[:6]), cutaway.from_numpy(eager[overlap : overlap + 6])
        same(compiled(x, y), f(z, w))
        np.testing.assert_array_equal(mine, eager)
    assert len(compiled.entries) == 1
