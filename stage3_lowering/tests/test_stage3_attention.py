"""Attention in one kernel on a GPU: what is recognised, what stays apart, and that the kernel gives what float64 gives.

Input: softmax(f(q @ k.T)) @ v with several f, in half precision. Kernels run in Triton's interpreter, every access
checked for bounds, and are compiled to PTX for three architectures. The error may be at most that of the steps apart.
"""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.affine_masks import Bounds, bounds_of
from stage3_lowering.lowering.attention import attention
from stage3_lowering.lowering.terms import Term
from stage3_lowering.tests.graphs import CPP, TRITON, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.index_expr import symbol
from stage_contracts.program import Launch, Target
from stage_contracts.program_text import parse_program, print_program

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
H, T, S, D = 2, 100, 100, 24  # blocks of 64, the last one cut; a width that is no power of two


def halves(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def softmax(c, x):
    e = c.exp(c.sub(x, c.amax(x, (-1,), True)))
    return c.div(e, c.sum(e, (-1,), True))


def scores(c, q, k):
    return c.mul(c.matmul(q, c.permute(k, (0, 2, 1))), 0.3)


def where_seen(c, x, seen):
    return c.where(seen, x, c.full(x.val.shape, float("-inf"), dtype=dt.float16, device=CPU))


def places(c, x):
    rows, columns = x.val.shape[-2:]
    count = lambda n, shape: c.reshape(c.iota(n, 0, 1, dt.int64, CPU), shape)  # noqa: E731
    return count(rows, (1, rows, 1)), count(columns, (1, 1, columns))


def plain(c, x, bias):
    return x


def causal(c, x, bias):
    row, column = places(c, x)
    return where_seen(c, x, c.ge(row, column))


def window(c, x, bias):
    row, column = places(c, x)
    near = c.lt(c.sub(row, column), 20)
    return where_seen(c, x, c.logical_and(c.ge(row, column), near))


def not_after(c, x, bias):  # the mask as masked_fill has it
    row, column = places(c, x)
    seen = c.logical_not(c.lt(row, column))
    return where_seen(c, x, seen)


def soft_cap(c, x, bias):
    return c.mul(c.tanh(c.div(x, 2.0)), 2.0)


def biased(c, x, bias):
    return c.add(x, bias)


def biased_and_masked(c, x, bias):
    return causal(c, c.add(x, bias), bias)


RULES = {f.__name__: f for f in (plain, causal, window, not_after, soft_cap, biased, biased_and_masked)}


def in_float64(name, x, bias):
    row, column = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    seen = {"window": (row >= column) & (row - column < 20)}.get(name, row >= column)
    x = np.tanh(x / 2) * 2 if name == "soft_cap" else x
    x = x + bias if name.startswith("biased") else x
    masked = name in ("causal", "window", "not_after", "biased_and_masked")
    return np.where(seen, x, -np.inf) if masked else x


def numpy_attention(name, q, k, v, bias, scale=0.300048828125):  # of a half
    q, k, v, bias = (a.astype(np.float64) for a in (q, k, v, bias))
    x = in_float64(name, q @ k.transpose(0, 2, 1) * scale, bias)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def made(seam, function, *arrays, target=TRITON):
    program = seam("fuse")(seam("lower")(trace(function, *arrays)))
    return program, seam("schedule")(program, target).verify()


def run(seam, scheduled, arrays):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    return run_in_interpreter(seam("emit")(scheduled, TRITON), arrays)


def distance(got, want):
    got = np.asarray(got).astype(np.float64)
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def attend(rule):
    return lambda c, q, k, v, bias: c.matmul(softmax(c, rule(c, scores(c, q, k), bias)), v)


def templates(program):
    return [k.template for k in program.kernels.values() if k.template]


# ---- values --------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("name", RULES)
def test_one_kernel_no_farther_from_float64_than_the_steps_apart(seam, name):
    arrays = [halves(H, T, D), halves(H, S, D, seed=1), halves(H, S, D, seed=2), halves(H, T, S, seed=3)]
    program, scheduled = made(seam, attend(RULES[name]), *arrays)
    assert [type(step).__name__ for step in scheduled.steps] == ["Launch", "Return"]
    assert templates(scheduled) == ["attention"]
    want = numpy_attention(name, *arrays)
    (got,), (apart,) = run(seam, scheduled, arrays), interpret_program(program, arrays)
    assert distance(got, want) <= distance(apart, want)
    (meant,) = interpret_program(scheduled, arrays)  # what the kernel's nests say
    assert distance(meant, apart.astype(np.float64)) < 1e-3


@needs_triton
@pytest.mark.parametrize("name", ["plain", "soft_cap", "biased"])
def test_one_kernel_in_float32(seam, name):
    arrays = [halves(H, T, D), halves(H, S, D, seed=1), halves(H, S, D, seed=2), halves(H, T, S, seed=3)]
    wide = [a.astype(np.float32) for a in arrays]
    _, scheduled = made(seam, attend(RULES[name]), *wide)
    assert templates(scheduled) == ["attention"]
    (unit,) = seam("emit")(scheduled, TRITON).units
    exact = unit.text.count('input_precision="tf32x3"')  # one product of tf32 would lose 13 of 23 bits
    assert exact == unit.text.count("tl.dot(") >= 2
    assert distance(run(seam, scheduled, wide)[0], numpy_attention(name, *wide, scale=0.3)) < 1e-6


@needs_triton
@pytest.mark.parametrize("depth", [D, 128])
def test_where_tf32_is_allowed_each_product_is_one_of_tf32(seam, depth):
    arrays = [halves(H, T, depth), halves(H, S, depth, seed=1), halves(H, S, D, seed=2), halves(H, T, S)]
    allowed = replace(TRITON, options={"tf32": True})
    for given, words in ((arrays, 0), ([a.astype(np.float32) for a in arrays], 1)):
        _, scheduled = made(seam, attend(RULES["plain"]), *given, target=allowed)
        (unit,) = seam("emit")(scheduled, allowed).units
        assert unit.text.count('input_precision="tf32"') == words * unit.text.count("tl.dot(")
        assert unit.text.count("input_precision") == words * unit.text.count("tl.dot(")
        assert unit.text.count("tl.dot(") >= 2


@pytest.mark.parametrize(("depth", "kernels"), [(64, 1), (128, 1), (130, 0)])
def test_a_tensor_core_adds_up_few_terms_of_float32(seam, depth, kernels):
    """It cuts off what it has after each few; random program 7185 had heads of 130, and 2.7 times eager's error."""
    arrays = [halves(H, T, depth), halves(H, S, depth, seed=1), halves(H, S, D, seed=2), halves(H, T, S)]
    for given, found in (([a.astype(np.float32) for a in arrays], kernels), (arrays, 1)):
        _, scheduled = made(seam, attend(RULES["plain"]), *given)
        assert templates(scheduled).count("attention") == found


@needs_triton
@pytest.mark.parametrize(("rows", "columns", "depth", "width"), [(16, 200, 16, 40), (130, 70, 64, 64)])
def test_other_sizes_and_widths(seam, rows, columns, depth, width):
    arrays = [halves(1, rows, depth), halves(1, columns, depth, seed=1), halves(1, columns, width, seed=2)]
    function = lambda c, q, k, v: c.matmul(softmax(c, causal(c, scores(c, q, k), None)), v)  # noqa: E731
    _, scheduled = made(seam, function, *arrays)
    (got,) = run(seam, scheduled, arrays)
    bias = np.zeros((1, 1, 1), np.float16)
    assert templates(scheduled) and distance(got, numpy_attention("causal", *arrays, bias)) < 1e-3


@needs_triton
def test_a_row_that_sees_nothing_is_no_number(seam):
    def function(c, q, k, v):
        x = scores(c, q, k)
        row, column = places(c, x)
        return c.matmul(softmax(c, where_seen(c, x, c.gt(column, row))), v)

    arrays = [halves(1, 80, 16, seed=s) for s in range(3)]
    program, scheduled = made(seam, function, *arrays)
    (got,), (want,) = run(seam, scheduled, arrays), interpret_program(program, arrays)
    assert templates(scheduled)
    assert np.isnan(got[0, -1]).all() and np.isnan(want[0, -1]).all() and not np.isnan(got[0, :-1]).any()


@needs_triton
def test_the_rows_largest_scores_and_sums_for_the_backward(seam):
    def function(c, q, k, v):
        x = causal(c, scores(c, q, k), None)
        top = c.amax(x, (-1,), True)
        e = c.exp(c.sub(x, top))
        total = c.sum(e, (-1,), True)
        return c.matmul(c.div(e, total), v), top, total

    arrays = [halves(H, 80, 16, seed=s) for s in range(3)]
    program, scheduled = made(seam, function, *arrays)
    assert templates(scheduled)
    for got, want in zip(run(seam, scheduled, arrays), interpret_program(program, arrays), strict=True):
        assert got.shape == want.shape and distance(got, want.astype(np.float64)) < 2e-3


@needs_triton
def test_a_cast_of_the_users_stays(seam):
    def function(c, q, k, v):
        x = c.cast(c.mul(c.cast(scores(c, q, k), dt.float32), 8.0), dt.float16)
        return c.matmul(softmax(c, x), v)

    arrays = [halves(1, 32, 16, seed=s) for s in range(3)]
    _, scheduled = made(seam, function, *arrays)
    (unit,) = seam("emit")(scheduled, TRITON).units
    rounded = [line for line in unit.text.splitlines() if ".to(tl.float16)" in line and "weights" not in line]
    assert any("mul" in line for line in rounded), unit.text


# ---- what stays apart ----------------------------------------------------------------------------------------


def scores_returned(c, q, k, v):
    x = scores(c, q, k)
    return c.matmul(softmax(c, x), v), x


def weights_returned(c, q, k, v):
    p = softmax(c, scores(c, q, k))
    return c.matmul(p, v), p


def another_row(c, q, k, v):  # a score from another place
    x = scores(c, q, k)
    return c.matmul(softmax(c, c.add(x, c.permute(x, (0, 2, 1)))), v)


def no_softmax(c, q, k, v):
    x = scores(c, q, k)
    return c.matmul(c.div(c.exp(x), c.sum(c.exp(x), (-1,), True)), v)


def weights_changed(c, q, k, v):
    return c.matmul(c.mul(softmax(c, scores(c, q, k)), 2.0), v)


@pytest.mark.parametrize(
    "function", [scores_returned, weights_returned, another_row, no_softmax, weights_changed]
)
def test_what_is_no_attention_stays_apart(seam, function):
    arrays = [halves(1, 32, 16, seed=s) for s in range(3)]
    program, scheduled = made(seam, function, *arrays)
    assert not templates(scheduled)
    for got, want in zip(
        interpret_program(scheduled, arrays), interpret_program(program, arrays), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_float64_and_the_cpu_keep_their_steps(seam):
    function = lambda c, q, k, v: c.matmul(softmax(c, scores(c, q, k)), v)  # noqa: E731
    arrays = [halves(1, 32, 16, seed=s) for s in range(3)]
    assert not templates(made(seam, function, *[a.astype(np.float64) for a in arrays])[1])
    assert not templates(made(seam, function, *arrays, target=CPP)[1])


# ---- the artifact --------------------------------------------------------------------------------------------


def test_it_prints_and_reads_back(seam):
    arrays = [halves(1, 32, 16, seed=s) for s in range(3)]
    _, scheduled = made(seam, lambda c, q, k, v: c.matmul(softmax(c, scores(c, q, k)), v), *arrays)
    text = print_program(scheduled)
    assert 'template="attention"' in text and print_program(parse_program(text)) == text
    assert attention(scheduled, TRITON) is scheduled
    assert [s.kernel for s in scheduled.steps if isinstance(s, Launch)] == ["fused_attention_0"]


@needs_triton
@pytest.mark.parametrize(("arch", "product"), [(80, "mma.sync"), (90, "wgmma"), (100, "tcgen05.mma")])
def test_it_compiles_to_tensor_core_instructions(seam, arch, product):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    arrays = [halves(2, 256, 64, seed=s) for s in range(3)]
    function = lambda c, q, k, v: c.matmul(softmax(c, causal(c, scores(c, q, k), None)), v)  # noqa: E731
    _, scheduled = made(seam, function, *arrays)
    emitted = seam("emit")(scheduled, Target("triton", arch=f"sm_{arch}"))
    (made_ptx,) = compile_to_ptx(emitted, arch).values()
    assert product in made_ptx["ptx"] and "ld.local" not in made_ptx["ptx"]


# ---- masks ---------------------------------------------------------------------------------------------------


def place(name):
    return Term("index_expr", (symbol(name),), dt.int64, name)


def term(op, *args):
    return Term(op, args, dt.bool_ if op not in ("add", "sub") else dt.int64, op)


def whole(value):
    return Term("constant", (value,), dt.int64, "constant")


def test_bounds_of_comparisons():
    row, column = place("i1"), place("r0")
    bounds = lambda c, holds=True: bounds_of({c: holds}, "i1", "r0")  # noqa: E731
    assert bounds(term("ge", row, column)) == Bounds((), ((1, 0),))
    assert bounds(term("gt", row, column)) == Bounds((), ((1, -1),))
    assert bounds(term("lt", row, column), False) == Bounds((), ((1, 0),))
    near = term("lt", term("sub", row, column), whole(20))
    assert bounds(near) == Bounds(((1, -19),), ())
    assert bounds(term("logical_and", term("ge", row, column), near)) == Bounds(((1, -19),), ((1, 0),))
    assert bounds(term("lt", column, whole(7))) == Bounds((), ((0, 6),))
    assert bounds(term("eq", row, column)) == Bounds(exact=False)
    assert bounds(term("logical_or", near, near)) == Bounds(exact=False)
    assert bounds(term("logical_not", term("lt", row, column))) == Bounds((), ((1, 0),))
