"""Fusion: what must become one kernel does, what must not does not, every answer has a reason, and cheats are
caught.

Input: the functions of programs.py, and small graphs that each make one refusal.
"""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.lowering import why_not_fused
from stage3_lowering.tests import programs
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, check, run_every_way, trace
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.device import CPU, Device
from stage_contracts.events import EVENT_LOG
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import parse_nest, print_nest
from stage_contracts.program import External, Launch, Return
from stage_contracts.scheduler_ir import REFUSALS

RNG = np.random.default_rng(11)
X = RNG.standard_normal((6, 10)).astype(np.float32)


def fused(seam, function, *arrays):
    return seam("fuse")(seam("lower")(trace(function, *arrays))).verify()


def ops_of(kernel):
    return [instr.op for nest in kernel.nests for instr in nest.body]


@pytest.mark.conformance("lower", "fuse", goal="good")
@pytest.mark.parametrize("layout", ["dense", "transposed", "one row"])
def test_sin_cos_is_one_kernel_with_one_load_and_one_store(seam, layout):
    x = {"dense": X, "transposed": X.T, "one row": X[:1]}[layout]
    program = fused(seam, programs.sin_cos, x)
    (kernel,) = program.kernels.values()
    assert ops_of(kernel) == ["load", "cos", "sin", "store"]
    assert kernel.internal == () and len(kernel.params) == 2
    assert [type(step) for step in program.steps] == [Launch, Return]
    assert {b.role for b in program.buffers.values()} == {"input", "output"}


@pytest.mark.conformance("lower", "fuse", goal="good")
@pytest.mark.parametrize("shape", [(6, 10), (1, 10), (6, 1), (3, 700), (2, 5000)])
def test_softmax_is_one_kernel(seam, shape):
    x = RNG.standard_normal(shape).astype(np.float32) * 3
    program = check(seam, programs.softmax, [x], [programs.numpy_softmax(x.astype(np.float64))], ulps=24)
    assert len(program.kernels) == 1
    (kernel,) = program.kernels.values()
    assert all(name not in program.buffers for name in kernel.internal)


@pytest.mark.conformance("lower", "fuse", goal="good")
def test_layer_norm_is_one_kernel(seam):
    w, b = RNG.standard_normal((2, 10)).astype(np.float32)
    want = programs.numpy_layer_norm(*[a.astype(np.float64) for a in (X, w, b)])
    graph = trace(programs.layer_norm, X, w, b)
    for outputs in run_every_way(seam, graph, [X, w, b]).values():
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-6)
    assert len(fused(seam, programs.layer_norm, X, w, b).kernels) == 1


@pytest.mark.conformance("lower", "fuse", goal="good")
def test_cross_entropy_is_one_kernel_and_a_gathering_one(seam):
    at = np.array([[1], [2], [0], [9], [4], [4]])

    def function(c, x, at):
        picked = c.gather(programs.log_softmax(c, x), 1, at)
        return c.div(c.neg(c.sum(picked, (0, 1))), 6)

    graph = trace(function, X, at)
    want = -np.take_along_axis(programs.numpy_log_softmax(X.astype(np.float64)), at, 1).mean()
    for outputs in run_every_way(seam, graph, [X, at]).values():
        np.testing.assert_allclose(outputs[0], want, rtol=1e-6)
    assert len(fused(seam, function, X, at).kernels) == 2


@pytest.mark.conformance("fuse", goal="good")
def test_nests_of_other_shapes_over_the_same_memory_fuse(seam):
    def function(c, x):
        return c.neg(c.reshape(c.exp(x), (60,))), c.sin(c.reshape(x, (3, 20)))

    assert len(fused(seam, function, X).kernels) == 1


@pytest.mark.conformance("fuse", goal="good")
def test_siblings_read_once(seam):
    (kernel,) = fused(
        seam, lambda c, x: (c.sin(x), c.cos(x), c.amax(x, (1,)), c.sum(x, (1,))), X
    ).kernels.values()
    assert ops_of(kernel).count("load") == 1


@pytest.mark.conformance("fuse", goal="good")
def test_equal_work_is_done_once(seam):
    (kernel,) = fused(seam, lambda c, x: c.add(c.sin(c.neg(x)), c.cos(c.neg(x))), X).kernels.values()
    assert ops_of(kernel).count("neg") == 1


def reasons(program):
    return [d.reason for d in program.decisions if not d.fused]


@pytest.mark.conformance("fuse", goal="good")
@pytest.mark.parametrize(
    ("function", "kernels", "words"),
    [
        (lambda c, x: c.neg(c.permute(c.reshape(c.exp(x), (6, 10)), (1, 0))), 1, None),
        (lambda c, x: c.add(c.exp(x), c.permute(c.reshape(c.exp(x), (10, 6)), (1, 0))), 2, "but buf"),
        (lambda c, x: c.sub(x, c.amax(x, (0, 1))), 1, None),
        (
            lambda c, x: c.add(c.amax(x, (0,)), c.expand(c.reshape(c.amax(x, (0, 1)), (1,)), (10,))),
            2,
            "loops differ",
        ),
        (lambda c, x: c.add(c.exp(x), c.reshape(c.sum(c.neg(x), (1,)), (6, 1))), 1, None),
        (lambda c, x: c.neg(c.flip(c.exp(x), (1,))), 2, "is a call"),
        (lambda c, x: c.add(c.exp(x), c.flip(c.exp(x), (1,))), 2, "has to run between them"),
    ],
)
def test_what_may_not_fuse_says_why(seam, function, kernels, words):
    program = fused(seam, function, X)
    assert len(program.kernels) == kernels, "\n".join(map(str, program.decisions))
    if words is not None:
        assert any(words in reason for reason in reasons(program)), reasons(program)
    graph = trace(function, X)
    outputs = run_every_way(seam, graph, [X])
    for way in ("program", "cpp"):
        np.testing.assert_allclose(outputs[way][0], outputs["nests"][0], rtol=1e-5, atol=1e-6)


@pytest.mark.conformance("fuse", goal="good")
def test_every_decision_is_in_the_event_log(seam):
    start = EVENT_LOG.mark()
    program = fused(seam, programs.softmax, X)
    events = EVENT_LOG.since(start, "fusion")
    assert [e.details["reason"] for e in events] == [d.reason for d in program.decisions]
    assert all(d.reason and d.score > 0 for d in program.decisions)
    assert str(program.decisions[0]).startswith("buf0 + buf1: fused, ")


@pytest.mark.conformance("lower", goal="good")
@pytest.mark.conformance("fuse", "emit")
def test_without_fusion_every_nest_is_a_kernel(seam):
    with config.patch(fusion=False):
        program = check(seam, programs.softmax, [X], [programs.numpy_softmax(X.astype(np.float64))], ulps=8)
    assert len(program.kernels) == 4 and not program.decisions


@pytest.mark.conformance("lower", "fuse")
def test_fused_nests_print_and_read_back(seam):
    for function in (programs.softmax, programs.log_softmax, programs.sin_cos, programs.gelu):
        for kernel in fused(seam, function, X).kernels.values():
            for nest in kernel.nests:
                text = print_nest(nest.verify())
                again = parse_nest(text)
                assert print_nest(again) == text
                assert again.body == nest.body or any(i.origins == nest.origins for i in nest.body)


@pytest.mark.conformance("lower")
def test_nests_and_calls_print(seam):
    lowered = seam("lower")(trace(lambda c, x: c.sum(c.matmul(x, c.permute(x, (1, 0))), (0,)), X))
    text = str(lowered)
    assert "buf0 = extern.matmul(x, view(x, (10, 6), (1, 10), 0))" in text and "ops.reduction('sum'" in text
    for nest in lowered.nodes:
        if isinstance(nest, LoopNest):
            assert parse_nest(print_nest(nest)) == nest


@pytest.mark.conformance("lower", "fuse")
def test_origins_are_kept(seam):
    (kernel,) = fused(seam, programs.softmax, X).kernels.values()
    assert [o.text.split("(")[0] for o in kernel.origins] == ["amax", "sub", "exp", "sum", "div"]


# ---- wrong alternatives: what the checks exist for ---------------------------------------------------


def two_kernels(seam):
    """A reduction over more points than a kernel keeps, then its use: two kernels that must run in this order."""
    return fused(seam, lambda c, x: c.sub(x, c.sum(c.exp(x), (0,))), np.zeros(5000, np.float32))


def test_steps_out_of_order_are_caught(seam):
    program = two_kernels(seam)
    *launches, end = program.steps
    with pytest.raises(GraphError, match="which no earlier step writes"):
        program.with_(steps=(*reversed(launches), end)).verify()


def test_a_dropped_step_is_caught(seam):
    program = two_kernels(seam)
    with pytest.raises(GraphError, match="which no earlier step writes"):
        program.with_(steps=program.steps[1:]).verify()


def test_an_unknown_buffer_is_caught(seam):
    program = two_kernels(seam)
    launch = program.steps[0]
    wrong = replace(launch, buffers=("nowhere", *launch.buffers[1:]))
    with pytest.raises(GraphError, match="unknown buffer 'nowhere'"):
        program.with_(steps=(wrong, *program.steps[1:])).verify()


def test_a_merge_across_a_dependency_is_caught(seam, monkeypatch):
    """A fuse that does not look where its nests read what they write."""
    module = importlib.import_module("stage3_lowering.lowering.schedule")
    square = X[:, :6].copy()
    lowered = seam("lower")(trace(lambda c, x: (lambda e: c.sub(e, c.permute(e, (1, 0))))(c.exp(x)), square))
    seam("fuse")(lowered)
    monkeypatch.setattr(module, "clash", lambda nodes: None)
    with pytest.raises(GraphError, match=r"reads buf\d\[.*\], but buf\d is written at"):
        importlib.import_module("stage3_lowering.lowering").fuse(lowered)


def test_a_lowering_that_reads_before_it_writes_is_caught(seam):
    lowered = seam("lower")(trace(programs.softmax, X))
    with pytest.raises(GraphError, match="which is not computed before it"):
        replace(lowered, nodes=tuple(reversed(lowered.nodes))).verify()


def test_externals_keep_their_place(seam):
    program = fused(seam, lambda c, x: c.exp(c.flip(c.exp(x), (1,))), X)
    assert [type(s) for s in program.steps] == [Launch, External, Launch, Return]


# code of the refusal: a program in which it keeps two buffers apart
REFUSED = {
    "call": (lambda c, x: c.neg(c.flip(c.exp(x), (1,))), "buf0", "buf1"),
    "between": (lambda c, x: c.add(c.exp(x), c.flip(c.exp(x), (1,))), "buf0", "buf2"),
    "index": (
        lambda c, x: (lambda e: c.add(e, c.permute(e, (1, 0))))(c.exp(c.slice(x, 1, 0, 6))),
        "buf0",
        "buf1",
    ),
    "loops": (lambda c, x: (c.sum(x, (1,)), c.amax(x, (0,))), "buf0", "buf1"),
    "nothing_shared": (
        lambda c, x: (c.exp(c.slice(x, 1, 0, 5)), c.exp(c.slice(x, 1, 5, 10))),
        "buf0",
        "buf1",
    ),
    "no_shared_buffer": (lambda c, x: (c.exp(x), c.iota(7, 0, 1, dt.int64, CPU)), "buf0", "buf1"),
    "long_reduction": (lambda c, x: c.sub(x, c.amax(x, (0, 1), True)), "buf0", "buf1"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_why_not_fused(seam, code):
    """Each refusal by its code; that of devices needs a GPU, and one lost unit stride has a test of its own."""
    function, a, b = REFUSED[code]
    program = fused(seam, function, np.zeros((100, 90), np.float32) if code == "long_reduction" else X)
    assert why_not_fused(program, a, b) == code and code in REFUSALS
    assert why_not_fused(program, a, a) == ""


def test_a_merge_that_loses_unit_stride_is_refused(seam):
    """A square matrix read by rows and by columns, and a row that both read: each walks through memory alone."""
    square = X[:, :6].copy()

    def function(c, x, v):
        turned = c.permute(x, (1, 0))
        return c.sum(c.mul(x, v), (1,)), c.sum(c.mul(turned, v), (1,))

    program = fused(seam, function, square, square[0].copy())
    assert why_not_fused(program, "buf0", "buf1") == "unit_stride"


@pytest.mark.parametrize(("device", "code"), [(CPU, ""), (Device("cuda", 0), "little_shared")])
def test_on_a_gpu_what_shares_only_row_values_stays_apart(seam, device, code):
    """One matrix makes a number for each row, and another one reads it."""

    def function(c, x, y):
        rows = c.amax(x, (1,), True)
        return c.sub(x, rows), c.sub(y, rows)

    wide = [RNG.standard_normal((64, 200)).astype(np.float32) for _ in range(2)]
    lowered = seam("lower")(trace(function, *wide))
    moved = {name: meta.with_(device=device) for name, meta in lowered.buffers.items()}
    program = seam("fuse")(replace(lowered, buffers=moved))
    *_, own, others = (n.name for n in lowered.nodes)
    assert why_not_fused(program, own, others) == code


def test_a_run_repeats_bit_for_bit(seam):
    """Sums over everything, rows and columns, in threads: 100 runs give the same bits."""
    x = np.random.default_rng(5).standard_normal((1500, 1500)).astype(np.float32)
    program = fused(seam, lambda c, x: (c.sum(x, (0, 1)), c.sum(c.exp(x), (1,)), c.sum(c.exp(x), (0,))), x)
    emitted = seam("emit")(seam("schedule")(program, CPP), CPP)
    assert "#pragma omp parallel for" in emitted.units[0].text
    first = [r.tobytes() for r in run_cpp(emitted, [x])]
    for _ in range(99):
        assert [r.tobytes() for r in run_cpp(emitted, [x])] == first


@pytest.mark.conformance("lower", "fuse", tier="full")
def test_a_long_chain_is_a_few_kernels(seam):
    """1,500 operators: expressions end where realize.py says, kernels where a compiler would take too long."""

    def function(c, x):
        for k in range(1500):
            x = c.mul(x, 0.5) if k % 2 else c.sin(x)
        return x

    program = fused(seam, function, X)
    assert "large" in {d.code for d in program.decisions} and 1 < len(program.kernels) <= 4
