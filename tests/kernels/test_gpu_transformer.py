"""A transformer's layer on a GPU: which kernels it is, that none only copies, and what they compute.

Input: GPT-2's layers of benchmarks/gpu/transformer.py, said to be on a GPU, forward and backward as two programs. The
oracle is float64; a gradient may be no farther from it than eager's, which rounds after every operator.
"""

import importlib.util
import math
from collections import Counter
from dataclasses import replace

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from benchmarks.gpu import transformer
from stage3_lowering.interpret import interpret_program
from stage_contracts.program import Launch, step_accesses
from tests.kernels.gpu_programs import (
    TARGET,
    emitted,
    inference_graph,
    launched,
    program_of,
    training_graphs,
)

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)


def gpt2(layers, batch, length, width, heads, vocabulary, dtype=cutaway.bfloat16, loss=True, draw=False):
    """(function, its parameters, tokens and targets)."""
    random = np.random.default_rng(0)
    shapes = transformer.parameters(layers, width, vocabulary, length)
    if draw:
        made = [
            cutaway.tensor((random.standard_normal(s) * 0.3).astype(np.float32)).to(dtype) for s in shapes
        ]
    else:
        made = [cutaway.empty(s, dtype=dtype) for s in shapes]
    weights = [w.requires_grad_(loss) for w in made]
    words = [cutaway.tensor(random.integers(0, vocabulary, (batch, length))) for _ in range(2)]
    run = transformer.transformer(layers, heads, True, loss)
    return lambda *given: run(cutaway, F, *given), weights, words


def kernels(program):
    return [program.kernels[s.kernel] for s in program.steps if isinstance(s, Launch)]


def test_the_kernels_of_two_layers():
    """Each of them costs a launch: a layer is one kernel for its attention, one for each norm, one for the
    activation."""
    function, weights, words = gpt2(2, 8, 512, 768, 12, 1000, loss=False)
    graph, _ = inference_graph(function, [*weights, *words])
    assert Counter(launched(program_of(graph))) == {
        "loops": 7,
        "attention": 2,
        "matmul": 7,
        "matmul_add_row": 2,
    }
    function, weights, words = gpt2(2, 8, 512, 768, 12, 1000)
    cut, _ = training_graphs(function, [*weights, *words])
    forward, backward = program_of(cut.forward), program_of(cut.backward)
    assert Counter(launched(forward)) == {"loops": 9, "attention": 2, "matmul": 7, "matmul_add_row": 2}
    made = Counter(launched(backward))
    assert (made["attention_by_rows"], made["attention_by_columns"], made["matmul"]) == (2, 2, 18)
    assert sum(made.values()) - made["matmul"] <= 33  # 52 before 2026-11-26


def test_a_sum_comes_right_after_what_it_adds_up():
    function, weights, words = gpt2(2, 8, 512, 768, 12, 1000)
    cut, _ = training_graphs(function, [*weights, *words])
    program = program_of(cut.backward)
    accesses = [step_accesses(step, program.kernels) for step in program.steps]
    written = {name: n for n, (_, writes) in enumerate(accesses) for name in writes}
    first_levels = [n for n, s in enumerate(program.steps) if getattr(s, "kernel", "").endswith("_in_parts")]
    assert len(first_levels) >= 8
    for n in first_levels:
        between = program.steps[max(written.get(name, -1) for name in accesses[n][0]) + 1 : n]
        assert all(
            isinstance(s, Launch) and program.kernels[s.kernel].nests[0].reduction_ranges for s in between
        )


def test_words_that_are_weights_too_have_one_gradient():
    """The product of the logits' gradient writes it, and rows are added where it is."""
    function, weights, words = gpt2(1, 8, 512, 768, 12, 1000)
    cut, _ = training_graphs(function, [*weights, *words])
    program = cutaway.DEFAULT_PIPELINE.plan_memory(program_of(cut.backward))
    *_, rows = (step for step in program.steps if getattr(step, "target", "") == "scatter_add")
    (gradient,) = rows.outputs
    assert rows.args[0].name == gradient
    (maker,) = (
        s for s in program.steps if s is not rows and gradient in step_accesses(s, program.kernels)[1]
    )
    assert maker.target == "matmul" and maker.into


ROWS = {
    "added": (lambda x, w, b: x @ w + b, ["matmul_add_row"]),
    "added in three dimensions": (lambda x, w, b: x.reshape(4, 12, 16) @ w + b, ["matmul_add_row"]),
    "with more": (lambda x, w, b: F.gelu(x @ w + b), ["matmul", "loops"]),
    "to a part": (lambda x, w, b: (x @ w)[:8] + b, ["matmul", "loops"]),
    "read twice": (lambda x, w, b: (lambda y: (y + b, y * 2))(x @ w), ["matmul", "loops"]),
    "a column": (lambda x, w, b: x @ w + b[:, None], ["matmul", "loops"]),
    "a number": (lambda x, w, b: x @ w + b[3], ["matmul", "loops"]),
    "in a batch": (lambda x, w, b: x.reshape(4, 12, 16) @ w.expand(4, 16, 48) + b, ["matmul", "loops"]),
}


@pytest.mark.parametrize(("dtype", "tf32"), [("bfloat16", False), ("float32", False), ("float32", True)])
@pytest.mark.parametrize("kind", ROWS)
def test_a_product_adds_a_row(kind, dtype, tf32):
    """In halves, and in TF32: cuBLASLt adds nothing to a product of float32 that keeps its bits."""
    function, steps = ROWS[kind]
    random = np.random.default_rng(4)
    shapes = (48, 16), (16, 48), (48,)
    given = [cutaway.tensor(random.integers(-2, 3, s)).to(getattr(cutaway, dtype)) for s in shapes]
    graph, inputs = inference_graph(function, given)
    program = program_of(graph, replace(TARGET, options={"tf32": tf32}))
    assert launched(program) == (["matmul", "loops"] if dtype == "float32" and not tf32 else steps)
    wanted = function(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for ours, want in zip(interpret_program(program, [t.numpy() for t in inputs]), wanted, strict=True):
        assert np.allclose(ours.astype(np.float64), want.double().numpy(), rtol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_of_a_table_have_one_place_each(dtype):
    """The gradient of an embedding: a place is read once for its row, not written for each element. Rows of floats are
    added by the kernel that computes them."""
    table = cutaway.randn(50, 24).to(getattr(cutaway, dtype)).requires_grad_(True)
    places = cutaway.tensor([3, 7, 3, 0, 49])
    cut, inputs = training_graphs(lambda w, t: F.embedding(t, w) * 2, [table, places])
    program = program_of(cut.backward)
    if dtype == "float32":
        assert launched(program) == ["loops", "loops"]
        _, kernel = program.kernels.values()
        assert [
            str(i.args[1]) for i in kernel.nests[0].body if i.op == "load" and i.dtype is cutaway.int64
        ] == ["i0"]
    else:
        (rows,) = (step for step in program.steps if getattr(step, "target", "") == "scatter_add")
        assert program.buffers[rows.args[2].name].meta.numel == 5 and rows.args[2].strides[1] == 0
    saved = [i.detach().numpy() for i in inputs if i is places]
    made = interpret_program(program, [*saved, np.ones((5, 24), table.detach().numpy().dtype)])
    (got,) = (array for array in made if array is not None)
    want = np.zeros((50, 24))
    np.add.at(want, places.numpy(), 2.0)
    np.testing.assert_array_equal(got.astype(np.float64), want)


def alibi(q, k, v):
    places = cutaway.arange(q.shape[-2])
    row, column = places[:, None], places[None, :]
    slopes = 2.0 ** (-0.5 * (cutaway.arange(q.shape[1]) + 1))
    scores = (q @ k.transpose(-1, -2)) * 0.25 + slopes[:, None, None] * (column - row)
    return F.softmax(cutaway.where(row >= column, scores, float("-inf")), -1).to(v.dtype) @ v


@needs_triton
def test_a_bias_of_places_and_slopes_is_never_written():
    """The slopes are computed once, a number for each head; the bias is made of them in the attention kernel."""
    from stage3_lowering.triton_interpreter import run_in_interpreter

    random = np.random.default_rng(5)
    given = [cutaway.tensor(random.standard_normal((2, 3, 70, 16))).bfloat16() for _ in range(3)]
    graph, inputs = inference_graph(alibi, given)
    program = emitted(program_of(graph))
    assert launched(program) == ["loops", "attention"]
    (slopes,) = (b for b in program.buffers.values() if b.role == "temporary")
    assert slopes.meta.numel == 3
    (got,) = run_in_interpreter(program, [t.numpy() for t in inputs])
    exact = alibi(*(t.double() for t in given)).numpy()
    assert distance(got, exact) <= 1.02 * distance(alibi(*given).numpy(), exact)


def column_sums(a, b, c):
    return a.sum(0), b.sum(0), c.sum(0), (a * 2).sum(1), a.amax(0), b.amax(0)


def test_short_reductions_of_one_kind_are_one_launch():
    given = [
        cutaway.tensor(np.random.default_rng(k).standard_normal((512, 40 + 8 * (k == 2)))) for k in range(3)
    ]
    graph, inputs = inference_graph(column_sums, given)
    program = program_of(graph)
    together = [k for k in kernels(program) if k.template == "together"]
    assert [len(k.nests) for k in together] == [
        2
    ]  # of equal sizes: the maxima and the sum of `a` are one kernel
    for ours, want in zip(
        interpret_program(program, [t.numpy() for t in inputs]), column_sums(*given), strict=True
    ):
        assert np.allclose(ours, want.numpy())


@needs_triton
def test_reductions_of_one_launch_in_triton_s_interpreter():
    from stage3_lowering.triton_interpreter import run_in_interpreter

    given = [cutaway.tensor(np.random.default_rng(k).standard_normal((512, 24))).bfloat16() for k in range(3)]
    sums = lambda a, b, c: (a.sum(0), b.sum(0), c.sum(0))  # noqa: E731
    graph, inputs = inference_graph(sums, given)
    program = emitted(program_of(graph))
    assert launched(program)[-1] == "together"
    got = run_in_interpreter(program, [t.numpy() for t in inputs])
    for ours, want in zip(got, sums(*given), strict=True):
        assert np.array_equal(ours, want.numpy())


PLACES = {"load", "store", "cast", "constant", "index_expr", "where", "mul", "logical_and", "lt", "ge", "add"}


def test_no_kernel_only_places_attention_s_operands_or_results():
    """Their bias, scale and places are those of the products and of attention's own kernels."""
    function, weights, words = gpt2(1, 8, 512, 768, 12, 1000)
    cut, _ = training_graphs(function, [*weights, *words])
    for graph in (cut.forward, cut.backward):
        program = program_of(graph)
        made = {b for k in kernels(program) if k.template.startswith("attention") for b in k.params}
        for kernel in (k for k in kernels(program) if not k.template and made & {*k.params}):
            assert {i.op for n in kernel.nests for i in n.body} - PLACES, kernel


def both_ways(cut, inputs, weights, run):
    """The loss, and the gradients of the weights."""
    forward, backward = (
        cutaway.DEFAULT_PIPELINE.plan_memory(program_of(g)) for g in (cut.forward, cut.backward)
    )
    by_name = dict(zip((p.name for p in cut.forward.placeholders), inputs, strict=True))
    out = run(forward, [by_name[n].detach().numpy() for n in forward.inputs])
    saved = {n.name: array for n, array in zip(cut.forward.outputs, out, strict=True)}
    made = run(backward, [*(saved[s.name] for s in cut.saved), np.ones((), np.float32)])
    grads = {id(t): grad for t, grad in zip(inputs, made, strict=True)}
    return out[0], [grads[id(w)] for w in weights]


def distance(got, want):
    got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def eager(function, weights, words):
    loss = function(*weights, *words)
    return loss.detach().numpy(), [g.numpy() for g in cutaway.autograd.grad(loss, weights)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_layer_computes_what_float64_does(dtype):
    function, weights, words = gpt2(1, 2, 48, 32, 2, 40, getattr(cutaway, dtype), draw=True)
    cut, inputs = training_graphs(function, [*weights, *words])
    loss, grads = both_ways(cut, inputs, weights, interpret_program)
    _, theirs = eager(function, weights, words)
    wide = [w.detach().double().requires_grad_(True) for w in weights]
    exact, wanted = eager(function, wide, words)
    assert abs(float(loss) - float(exact)) <= {"bfloat16": 2e-2, "float32": 1e-5}[dtype] * abs(float(exact))
    for ours, beside, want in zip(grads, theirs, wanted, strict=True):
        assert distance(ours, want) <= max(1.4 * distance(beside, want), 1e-5)


def rounding_each_step(q, k, v):
    """Causal attention written out: of halves, every operator rounds."""
    rows = cutaway.arange(q.shape[-2])
    seen = rows[:, None] >= rows
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
    return F.softmax(cutaway.where(seen, scores, float("-inf")), -1) @ v


def projected(
    heads, width, attention=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
):
    """Attention of one projection, its result joined again: queries, keys and values are views of one tensor."""

    def run(x, w):
        batch, length, _ = x.shape
        q, k, v = x.reshape(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4)
        return attention(q, k, v).transpose(1, 2).reshape(batch, length, heads * width) @ w

    return run


@needs_triton
@pytest.mark.parametrize("length", [80, 20])  # 20: fewer columns than a head is wide
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_attention_of_one_projection_is_three_kernels_and_its_row_sums(dtype, length):
    """In Triton's interpreter: one kernel forward; backward the rows' sums and two kernels that write one gradient."""
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function = projected(2, 24)  # a scale that is no power of two
    x = cutaway.tensor(np.random.default_rng(1).standard_normal((1, length, 144)).astype(np.float32))
    x = x.to(getattr(cutaway, dtype)).requires_grad_(True)
    w = cutaway.eye(48).to(x.dtype)
    cut, inputs = training_graphs(function, [x, w])
    forward, backward = (emitted(program_of(g)) for g in (cut.forward, cut.backward))
    assert launched(forward) == ["attention", "matmul"]
    assert launched(backward) == ["matmul", "loops", "attention_by_rows", "attention_by_columns"]
    out = run_in_interpreter(forward, [t.detach().numpy() for t in inputs])
    saved = {n.name: array for n, array in zip(cut.forward.outputs, out, strict=True)}
    tangent = np.random.default_rng(2).standard_normal(out[0].shape).astype(out[0].dtype)
    grad, *_ = run_in_interpreter(backward, [*(saved[s.name] for s in cut.saved), tangent])
    wide = x.detach().double().requires_grad_(True)
    steps = projected(2, 24, rounding_each_step)
    results = [(t, f(t, w.to(t.dtype))) for t, f in ((x, steps), (wide, function))]
    (_, theirs), (_, exact) = results
    grads = [
        cutaway.autograd.grad(o, [t], cutaway.tensor(tangent).to(o.dtype))[0].numpy() for t, o in results
    ]
    assert distance(out[0], exact.detach().numpy()) <= max(
        1.02 * distance(theirs.detach().numpy(), exact.detach().numpy()), 1e-6
    )
    assert distance(grad, grads[1]) <= max(1.02 * distance(grads[0], grads[1]), 1e-6)


@pytest.mark.parametrize(
    "attention", [F.scaled_dot_product_attention, rounding_each_step], ids=["sdpa", "plain"]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradients_lie_as_queries_keys_and_values(dtype, attention):
    """A leaf's gradient that is turned would be copied by eager: 83 us of the 535 that a large attention takes."""
    given = [cutaway.randn(2, 2, 96, 32).to(getattr(cutaway, dtype)).requires_grad_() for _ in range(3)]
    cut, _ = training_graphs(attention, given)
    program = program_of(cut.backward)
    assert launched(program)[-2:] == ["attention_by_rows", "attention_by_columns"]
    assert all(program.buffers[ref.name].meta.is_contiguous for ref in program.return_step.values)
    assert [n.val.strides for n in cut.backward.outputs] == [(6144, 3072, 32, 1)] * 3


@needs_triton
def test_its_kernels_compile():
    from stage3_lowering.triton_interpreter import compile_to_ptx

    x = cutaway.empty((2, 256, 384), dtype=cutaway.bfloat16).requires_grad_(True)
    cut, _ = training_graphs(projected(2, 64), [x, cutaway.empty((128, 128), dtype=cutaway.bfloat16)])
    for name, made in compile_to_ptx(emitted(program_of(cut.backward)), 90).items():
        assert ("wgmma" in made["ptx"]) is ("attention" in name) and "ld.local" not in made["ptx"]


def rejoined(kind):
    """Attention's result placed in ways that its kernel may not write itself."""

    def run(q, k, v):
        seen = F.softmax(q @ k.transpose(-1, -2), -1) @ v
        turned = seen.transpose(0, 1)
        if kind == "part":
            return turned[:40].contiguous()
        if kind == "twice":
            return turned.contiguous(), seen + 1
        return turned.contiguous() + q.transpose(0, 1)

    return run


@pytest.mark.parametrize("kind", ["part", "twice", "with another"])
def test_what_attention_does_not_write_itself(kind):
    random = np.random.default_rng(3)
    given = [cutaway.tensor(random.standard_normal((4, 64, 16)).astype(np.float32)) for _ in range(3)]
    function = rejoined(kind)
    graph, inputs = inference_graph(function, given)
    program = program_of(graph)
    assert launched(program)[0] == "attention" and len(launched(program)) > 1
    wanted = function(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    got = interpret_program(program, [t.numpy() for t in inputs])
    for ours, want in zip(got, wanted, strict=True):
        assert np.allclose(ours, want.numpy(), atol=1e-5)
