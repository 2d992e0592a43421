"""The passes of decompose: what each rewrites, what it must leave, and that no bit changes on special values.

Input: small programs of core operators, on random inputs with zeros of both signs, infinities, NaN and denormals.
"""

from __future__ import annotations

import dataclasses

import pytest

from stage0_eager import TABLE
from stage0_eager.nn import functional as F
from stage2_autograd.decompose import aligned_products, attention_again, decompose, run_passes
from stage2_autograd.decompose.passes import PASSES
from stage2_autograd.functionalize import functionalize
from stage2_autograd.tests.helpers import (
    capture,
    compile_with,
    default,
    integers,
    names_of,
    products,
    reductions,
    tensor,
)
from stage2_autograd.tests.test_stage2_min_cut import random_program
from stage2_autograd.verify import example, interpret, same_bits, verify_pass
from stage_contracts import config, events
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.graph import GraphError, meta_of

c = {name.removeprefix("core."): op for name, op in TABLE.items() if name.startswith("core.")}
STEPS = {p.name: p for p in PASSES}
CLEANUP = ("common_subexpressions", "constant_folding", "identities", "casts", "views", "joins", "dead_code")


def cleaned(function, *tensors):
    """The program before and after the passes over core operators, checked to give the same bits for three inputs."""
    before = capture(function, *tensors)
    after = before.copy()
    for name in CLEANUP:
        after = STEPS[name].run(after) or after
    after.verify()
    for seed in range(3):
        inputs = [example(meta_of(n), seed) for n in before.placeholders]
        for a, b in zip(interpret(before, inputs), interpret(after, inputs), strict=True):
            assert same_bits(a, b) and a.strides == b.strides
    return names_of(after)


X, Y, ROW = tensor(4, 6), tensor(4, 6, seed=1), tensor(6, seed=2)
S = tensor(4, 6).to(dt.float32)
N = integers(4, 6)


def end(value):
    """Something that reads the value, so that it is not the output itself (whose memory is the caller's)."""
    return c["exp"](value) if value.dtype.is_floating_point else c["eq"](value, 1)


# what it is -> (program, its inputs, the operators that are left)
REWRITTEN = {
    "x * 1": (lambda x: end(c["mul"](x, 1)), (X,), ["exp"]),
    "1.0 * x": (lambda x: end(c["mul"](1.0, x)), (X,), ["exp"]),
    "x / 1": (lambda x: end(c["div"](x, 1.0)), (X,), ["exp"]),
    "x - 0.0": (lambda x: end(c["sub"](x, 0.0)), (X,), ["exp"]),
    "x + -0.0": (lambda x: end(c["add"](x, -0.0)), (X,), ["exp"]),
    "n + 0": (lambda n: end(c["add"](n, 0)), (N,), ["eq"]),
    "x ** 1": (lambda x: end(c["pow"](x, 1)), (X,), ["exp"]),
    "--x": (lambda x: end(c["neg"](c["neg"](x))), (X,), ["exp"]),
    "not not b": (lambda x: c["where"](c["logical_not"](c["logical_not"](c["isnan"](x))), x, 0.0), (X,), ["isnan", "where"]),
    "where of one": (lambda x, y: end(c["where"](c["isnan"](y), x, x)), (X, Y), ["exp"]),
    "cast to itself": (lambda x: end(c["cast"](x, dt.float64)), (X,), ["exp"]),
    "detach, clone": (lambda x: end(c["detach"](c["clone"](x))), (X,), ["exp"]),
    "contiguous": (lambda x: end(c["contiguous"](x)), (X,), ["exp"]),
    "to its device": (lambda x: end(c["to_device"](x, CPU)), (X,), ["exp"]),
    "whole slice": (lambda x: end(c["slice"](x, 0, 0, 4, 1)), (X,), ["exp"]),
    "pad by nothing": (lambda x: end(c["constant_pad"](x, ((0, 0), (0, 0)), 1.0)), (X,), ["exp"]),
    "cat of one": (lambda x: end(c["cat"]([x], 0)), (X,), ["exp"]),
    "widened and back": (lambda s: end(c["cast"](c["cast"](s, dt.float64), dt.float32)), (S,), ["exp"]),
    "widened and on": (lambda s: end(c["cast"](c["cast"](s, dt.float64), dt.float16)), (S,), ["cast", "exp"]),
    "reshapes": (lambda x: end(c["reshape"](c["reshape"](x, (24,)), (2, 12))), (X,), ["reshape", "exp"]),
    "reshape back": (lambda x: end(c["reshape"](c["reshape"](x, (24,)), (4, 6))), (X,), ["exp"]),
    "permute back": (lambda x: end(c["permute"](c["permute"](x, (1, 0)), (1, 0))), (X,), ["exp"]),
    "expands": (lambda r: end(c["expand"](c["expand"](r, (4, 6)), (2, 4, 6))), (ROW,), ["expand", "exp"]),
    "read of a write": (lambda x, r: end(c["slice"](c["slice_scatter"](x, c["sin"](c["expand"](r, (2, 6))), 0, 1, 3, 1), 0, 1, 3, 1)), (X, ROW), ["expand", "sin", "exp"]),
    "write over a write": (lambda x, y, r: end(c["slice_scatter"](c["slice_scatter"](x, c["slice"](y, 0, 0, 2, 1), 0, 1, 3, 1), c["expand"](r, (2, 6)), 0, 1, 3, 1)), (X, Y, ROW), ["expand", "slice_scatter", "exp"]),
    "part of a cat": (lambda x, y: end(c["slice"](c["cat"]([c["sin"](x), y], 0), 0, 0, 4, 1)), (X, Y), ["sin", "exp"]),
    "cat of the parts": (lambda x: end(c["cat"]([c["slice"](x, 1, 0, 2, 1), c["slice"](x, 1, 2, 6, 1)], 1)), (X,), ["exp"]),
    "cat of cats": (lambda x, y: end(c["cat"]([c["cat"]([x, y], 1), x], -1)), (X, Y), ["cat", "exp"]),
    "constants": (lambda x: c["mul"](x, c["add"](c["full"]((6,), 2.0, dt.float64, CPU), c["exp"](c["full"]((), -0.0, dt.float64, CPU)))), (X,), ["full", "mul"]),
    "the same twice": (lambda x: c["add"](c["sin"](x), c["sin"](x)), (X,), ["sin", "add"]),
}  # fmt: skip

KEPT = {
    "x + 0.0": (lambda x: end(c["add"](x, 0.0)), (X,), ["add", "exp"]),
    "x - -0.0": (lambda x: end(c["sub"](x, -0.0)), (X,), ["sub", "exp"]),
    "x * 0": (lambda x: end(c["mul"](x, 0.0)), (X,), ["mul", "exp"]),
    "x - x": (lambda x: end(c["sub"](x, x)), (X,), ["sub", "exp"]),
    "x / x": (lambda x: end(c["div"](x, x)), (X,), ["div", "exp"]),
    "exp(log x)": (lambda x: c["exp"](c["log"](x)), (X,), ["log", "exp"]),
    "a number of another dtype": (lambda n: end(c["mul"](n, 1.0)), (N,), ["mul", "exp"]),
    "narrowed and back": (lambda x: end(c["cast"](c["cast"](x, dt.float32), dt.float64)), (X,), ["cast", "cast", "exp"]),
    "int64 by way of float64": (lambda n: c["eq"](c["cast"](c["cast"](n, dt.float64), dt.int64), 1), (N,), ["cast", "cast", "eq"]),
    "a product with 1 in another layout": (lambda x: c["sum"](c["mul"](c["slice"](x, 1, 0, None, 2), 1), (0,), False), (X,), ["slice", "mul", "sum"]),
    "an output of its own": (lambda x: c["clone"](x), (X,), ["clone"]),
    "a read of another write": (lambda x, y: end(c["slice"](c["slice_scatter"](x, c["slice"](y, 0, 0, 2, 1), 0, 1, 3, 1), 0, 0, 2, 1)), (X, Y), ["slice", "slice_scatter", "slice", "exp"]),
    "cat in another order": (lambda x: end(c["cat"]([c["slice"](x, 1, 2, 6, 1), c["slice"](x, 1, 0, 2, 1)], 1)), (X,), ["slice", "slice", "cat", "exp"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_without_changing_a_bit(name):
    function, tensors, left = REWRITTEN[name]
    assert cleaned(function, *tensors) == left


@pytest.mark.parametrize("name", KEPT)
def test_what_would_change_a_bit_stays(name):
    function, tensors, left = KEPT[name]
    assert cleaned(function, *tensors) == left


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_every_bit_through_every_pass(seed):
    with config.patch(verify_passes=True):
        compile_with(default, random_program(100 + seed), tensor(4, 3), tensor(3, seed=1), text=False)


# ---- patterns ----------------------------------------------------------------------------------------------


def test_attention_and_linear_are_marked():
    def program(x, w, b):
        h = F.linear(x, w, b)
        scores = products.matmul(h, h.transpose(0, 1)) / 2.0
        return products.matmul(F.dropout(reductions.softmax(scores, -1), 0.1), h)

    made = functionalize(capture(program, tensor(4, 6), tensor(5, 6, seed=1), tensor(5, seed=2)))
    graph = decompose(made.graph)
    marks = {}
    for n in graph.calls:
        marks.setdefault(n.meta.get("pattern"), []).append(n.target.name)
    assert marks["attention_0"].count("matmul") == 2 and "exp" in marks["attention_0"]
    assert marks["linear_0"] == ["permute", "matmul", "add"]


# ---- buckets -----------------------------------------------------------------------------------------------


def test_a_bucket_takes_gradients_as_they_lie_in_memory():
    """The gradient of a weight is a product that is turned: flat in the product's order, nothing is copied."""

    def program(x, g, bias):
        gradient = products.matmul(x.transpose(0, 1), g).transpose(0, 1)
        parts = [c["average"](one, 1 << 20, "world") for one in (gradient, bias * 2.0, gradient[1:].clone())]
        return parts[0] * 1.0, parts[1] * 1.0, parts[2] * 1.0

    graph = decompose(graph_of(program, tensor(5, 4), tensor(5, 3, seed=1), tensor(3, seed=2)))
    graph.verify()
    calls = {n.target.name: n for n in graph.calls}
    sources = [flat.args[0] for flat in calls["cat"].args[0]]
    assert sources[0] is calls["matmul"]
    assert names_of(graph).count("all_reduce") == 1 and "average" not in calls
    shapes = [tuple(n.val.shape) for n in graph.outputs]
    assert shapes == [(3, 4), (3,), (2, 4)]


# ---- on a GPU ----------------------------------------------------------------------------------------------


def as_on_gpu(monkeypatch, *modules):
    for module in modules:
        monkeypatch.setattr(module, "on_gpu", lambda nodes: True)


def attention_both_ways(q, k, v, g):
    """Attention, and by hand what its gradient reads: the weights, and what they do to g."""
    weights = reductions.softmax(products.matmul(q, k.transpose(1, 2)), -1)
    out = products.matmul(weights, v)
    return out, products.matmul(weights.transpose(1, 2), g), weights * products.matmul(g, v.transpose(1, 2))


def test_a_gpus_backward_computes_weights_again(monkeypatch):
    tensors = [tensor(2, 5, 4, seed=s) for s in range(4)]
    whole = decompose(graph_of(attention_both_ways, *tensors))
    as_on_gpu(monkeypatch, attention_again)
    graph = decompose(graph_of(attention_both_ways, *tensors))
    graph.verify()
    count = lambda graph, name: names_of(graph).count(name)  # noqa: E731
    assert [count(whole, n) for n in ("matmul", "exp", "amax")] == [4, 1, 1]
    assert [count(graph, n) for n in ("matmul", "exp", "amax")] == [5, 2, 1]
    for weights in (n for n in graph.calls if n.target.name == "div"):
        users = {u.target.name for u in weights.users}
        assert users == {"matmul"} if "pattern" in weights.meta else users == {"permute", "mul"}
    inputs = [example(meta_of(n), 3) for n in graph.placeholders]
    for a, b in zip(interpret(whole, inputs), interpret(graph, inputs), strict=True):
        assert same_bits(a, b)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "inside", "columns"), [(4, 9, 16), (4, 16, 9), (3, 9, 7), (4, 8, 16)])
def test_a_gpu_multiplies_aligned_rows(monkeypatch, turned, rows, inside, columns):
    def program(a, b):
        return products.matmul(a, b.transpose(0, 1) if turned else b), end(b)

    shape = (columns, inside) if turned else (inside, columns)
    halves = [tensor(*s, seed=k).to(dt.bfloat16) for k, s in enumerate([(2, rows, inside), shape])]
    as_on_gpu(monkeypatch, aligned_products)
    monkeypatch.setattr(aligned_products, "LARGE", 1)
    graph = decompose(graph_of(program, *halves))
    graph.verify()
    (product,) = (n for n in graph.calls if n.target.name == "matmul")
    sizes = [*product.args[0].val.shape[-1:], *product.args[1].val.shape]
    assert all(n % aligned_products.ALIGNED == 0 for n in sizes)
    plain = graph_of(program, *halves)
    inputs = [example(meta_of(n), 1) for n in graph.placeholders]
    for a, b in zip(interpret(graph, inputs), interpret(plain, inputs), strict=True):
        assert a.shape == b.shape and same_bits(a, b)


# ---- switches, dumps, timings, verification ----------------------------------------------------------------


def graph_of(function, *tensors):
    return functionalize(capture(function, *tensors)).graph


def test_a_pass_can_be_turned_off_by_name():
    graph = graph_of(lambda x: end(c["mul"](x, 1)), X)
    assert names_of(decompose(graph)) == ["exp"]
    with config.patch(disabled_passes="identities, views"):
        assert names_of(decompose(graph)) == ["mul", "exp"]


@pytest.mark.parametrize("names", ["identitys", "core_bodies"])
def test_what_cannot_be_turned_off_is_an_error(names):
    with config.patch(disabled_passes=names), pytest.raises(ValueError, match=names):
        decompose(graph_of(lambda x: end(x), X))


def test_a_dump_shows_the_graph_after_the_pass(capsys):
    with config.patch(dump_passes="identities"):
        decompose(graph_of(lambda x: end(c["mul"](x, 1)), X))
    printed = capsys.readouterr().err
    assert "# ---- after identities" in printed and "core.mul(x0, 1)" in printed and "core.exp(x0)" in printed


def test_each_pass_is_timed():
    mark = events.EVENT_LOG.mark()
    decompose(graph_of(lambda x: end(x), X))
    names = [e.name for e in events.EVENT_LOG.since(mark) if e.kind == "pass"]
    assert names == [f"decompose.{p.name}" for p in PASSES]


def test_a_wrong_pass_is_named(monkeypatch):
    def plus_zero(graph):
        """x + 0.0 is x, is it not?"""
        for node in graph.calls:
            if node.target.name == "add" and node.args[1] == 0.0:
                graph.replace_all_uses_with(node, node.args[0])

    wrong = [dataclasses.replace(p, run=plus_zero) if p.name == "casts" else p for p in PASSES]
    monkeypatch.setattr(
        run_passes, "DECOMPOSE", dataclasses.replace(run_passes.DECOMPOSE, passes=tuple(wrong))
    )
    graph = graph_of(lambda x: c["copysign"](1.0, c["add"](x, 0.0)), X)
    decompose(graph)
    with (
        config.patch(verify_passes=True),
        pytest.raises(GraphError, match=r"pass casts changed output 0") as told,
    ):
        decompose(graph)
    first, *changes, last = str(told.value).splitlines()
    assert any(line.startswith("  -") and "copysign" in line for line in changes) and len(changes) < 30
    assert "config.patch(disabled_passes='casts')" in last


def test_verification_sees_a_zero_of_the_wrong_sign():
    before, after = capture(lambda x: c["add"](x, 0.0), X), capture(lambda x: c["clone"](x), X)
    with pytest.raises(GraphError, match="nobody changed output 0"):
        verify_pass("nobody", before, after)
