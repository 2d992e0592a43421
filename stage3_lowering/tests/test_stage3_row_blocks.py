"""Blocks of rows: which steps join one, and that every way to run them gives what float64 NumPy gives.

Input: attention with several rules for the scores, products with what follows by rows, and the programs that look alike
and must stay apart. SIZES are small; the pass is told that any work is worth it.
"""

import numpy as np
import pytest

from stage3_lowering.lowering import row_blocks
from stage3_lowering.tests.graphs import CPP, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.program import RowBlocks
from stage_contracts.program_text import parse_program, print_program

RNG = np.random.default_rng(3)
B, T, S, D = 3, 70, 40, 8  # 70 rows: blocks of 32, the last one of 6


@pytest.fixture(autouse=True)
def any_work(monkeypatch):
    monkeypatch.setitem(
        globals(), "RNG", np.random.default_rng(3)
    )  # the same numbers, whichever tests ran before
    monkeypatch.setattr(row_blocks, "SMALLEST_WORK", 0)
    monkeypatch.setattr(row_blocks, "BLOCKS", (32,))


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(c, x):
    e = c.exp(c.sub(x, c.amax(x, (-1,), True)))
    return c.div(e, c.sum(e, (-1,), True))


def scores(c, q, k):
    axes = (*range(len(k.val.shape) - 2), len(k.val.shape) - 1, len(k.val.shape) - 2)
    return c.matmul(q, c.permute(k, axes))


def rows_before(c, *shape):
    """Whether a column is not after its row."""
    rows = c.reshape(c.iota(shape[0], 0, 1, dt.int64, CPU), (shape[0], 1))
    return c.ge(rows, c.iota(shape[1], 0, 1, dt.int64, CPU))


def plain(c, q, k, v):
    return c.matmul(softmax(c, c.mul(scores(c, q, k), 0.3)), v)


def causal(c, q, k, v):
    return c.matmul(softmax(c, c.where(rows_before(c, T, S), scores(c, q, k), -1e9)), v)


def capped(c, q, k, v, mask):
    capped = c.mul(c.tanh(c.div(scores(c, q, k), 5.0)), 5.0)
    return c.matmul(softmax(c, c.add(capped, mask)), v)


def gated(c, q, k, v):
    return c.matmul(c.sigmoid(scores(c, q, k)), v)


def in_numpy(rule, q, k, v, *mask):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ np.swapaxes(k, -1, -2)
    if rule is gated:
        return (1 / (1 + np.exp(-s))) @ v
    if rule is plain:
        s = s * 0.3
    if rule is causal:
        s = np.where(np.arange(T)[:, None] >= np.arange(S), s, -1e9)
    if rule is capped:
        s = np.tanh(s / 5) * 5 + mask[0]
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def blocks_of(seam, graph):
    program = seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP).verify()
    assert print_program(parse_program(print_program(program))) == print_program(program)
    return [step for step in program.steps if isinstance(step, RowBlocks)]


@pytest.mark.parametrize(
    "rule, batch",
    [
        (plain, ()),
        (plain, (B,)),
        (causal, (2, B)),
        (causal, (1, 2)),
        (capped, (2, 1)),
        (capped, (2, B)),
        (gated, (B,)),
    ],
)
def test_attention_is_one_step_that_keeps_the_scores_of_a_block(seam, rule, batch):
    q, k, v = floats(*batch, T, D), floats(*batch, S, D), floats(*batch, S, D)
    masks = [floats(*batch[:1], *[1] * (len(batch) > 1), T, S)] if rule is capped else []
    graph = trace(rule, q, k, v, *masks)
    want = in_numpy(rule, q, k, v, *masks)
    for way, (output,) in run_every_way(seam, graph, (q, k, v, *masks)).items():
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5, err_msg=way)
    (block,) = blocks_of(seam, graph)
    # weights are written over the scores; the results are divided by the rows' sums, where there are sums
    assert (len(block.steps), len(block.local)) == ((3, 1) if rule is gated else (4, 2))


def test_a_bias_and_what_is_not_linear_join_the_product_before_and_after(seam):
    def mlp(c, x, w, b, u):
        return c.add(c.matmul(c.tanh(c.add(c.matmul(x, w), b)), u), x)

    x, w, b, u = floats(T, D), floats(D, S), floats(S), floats(S, D)
    graph = trace(mlp, x, w, b, u)
    a = [array.astype(np.float64) for array in (x, w, b, u)]
    want = np.tanh(a[0] @ a[1] + a[2]) @ a[3] + a[0]
    for way, (output,) in run_every_way(seam, graph, (x, w, b, u)).items():
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5, err_msg=way)
    (block,) = blocks_of(seam, graph)
    assert len(block.steps) == 4


def test_two_products_of_the_same_rows_may_meet_in_a_kernel(seam):
    def gate(c, x, w, u):
        return c.mul(c.matmul(x, w), c.sigmoid(c.matmul(x, u)))

    x, w, u = floats(T, D), floats(D, S), floats(D, S)
    graph = trace(gate, x, w, u)
    a = [array.astype(np.float64) for array in (x, w, u)]
    want = (a[0] @ a[1]) / (1 + np.exp(-(a[0] @ a[2])))
    for way, (output,) in run_every_way(seam, graph, (x, w, u)).items():
        np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5, err_msg=way)
    (block,) = blocks_of(seam, graph)
    assert len(block.steps) == 3


# What needs other rows than its own: after each, what the group's rows become.
APART = {
    "columns": lambda c, s: c.sum(s, (0,), False),
    "transposed": lambda c, s: c.mul(s, c.permute(s, (1, 0))),
    "everything": lambda c, s: c.sum(s, (0, 1), False),
    "rows turned round": lambda c, s: c.add(s, c.flip(s, (0,))),
    "a row of another": lambda c, s: c.add(s, c.slice(s, 0, 3, 4, 1)),
}


@pytest.mark.parametrize("name", APART)
def test_what_reads_other_rows_waits_for_all_of_them(seam, name):
    def function(c, x, w):
        return APART[name](c, c.matmul(x, w))

    x, w = floats(T, D), floats(D, T)
    graph = trace(function, x, w)
    assert blocks_of(seam, graph) == []
    found = run_every_way(seam, graph, (x, w))
    for way, (output,) in found.items():
        # a sum of 4,900 numbers that nearly cancel: its error is that of the sum of their magnitudes
        np.testing.assert_allclose(output, found["nests"][0], rtol=2e-5, atol=1e-3, err_msg=way)


def test_scores_that_are_returned_are_written_whole(seam):
    def function(c, q, k, v):
        s = scores(c, q, k)
        return s, c.matmul(softmax(c, s), v), c.sum(s, (0,), False)

    q, k, v = floats(T, D), floats(S, D), floats(S, D)
    graph = trace(function, q, k, v)
    found = run_every_way(seam, graph, (q, k, v))
    for way, outputs in found.items():
        for output, want in zip(outputs, found["nests"], strict=True):
            np.testing.assert_allclose(output, want, rtol=2e-5, atol=2e-5, err_msg=way)
    (block,) = blocks_of(seam, graph)
    assert len(block.steps) == 4


def test_sums_over_the_rows_are_added_up_block_by_block(seam):
    def function(c, x, w, y):
        s = c.tanh(c.matmul(x, w))
        turned = lambda t: c.permute(t, (0, 2, 1))  # noqa: E731
        return c.matmul(turned(s), y), c.matmul(turned(x), s)

    x, w, y = floats(5, T, D), floats(5, D, S), floats(5, T, 3)
    graph = trace(function, x, w, y)
    a = [array.astype(np.float64) for array in (x, w, y)]
    s = np.tanh(a[0] @ a[1])
    want = np.swapaxes(s, 1, 2) @ a[2], np.swapaxes(a[0], 1, 2) @ s
    for way, outputs in run_every_way(seam, graph, (x, w, y)).items():
        for output, wanted in zip(outputs, want, strict=True):
            np.testing.assert_allclose(output, wanted, rtol=2e-5, atol=2e-5, err_msg=way)
    (block,) = blocks_of(seam, graph)
    assert block.in_order and len(block.steps) == 4 and len(block.local) == 1


def test_without_a_batch_a_sum_over_rows_stays_one_product(seam):
    def function(c, x, w):
        s = c.tanh(c.matmul(x, w))
        return c.matmul(c.permute(s, (1, 0)), x)

    x, w = floats(T, D), floats(D, S)
    graph = trace(function, x, w)
    (block,) = blocks_of(seam, graph)
    assert not block.in_order and len(block.steps) == 2 and not block.local[1:]


def test_blocks_that_share_a_weight_have_many_rows_and_attention_has_what_fits_the_cache(seam, monkeypatch):
    """BLAS packs a weight again for each block: blocks of 32 rows took twice the time of a whole vision transformer."""
    monkeypatch.setattr(row_blocks, "BLOCKS", (512, 256, 128, 64, 32))

    def mlp(c, x, w, u):
        return c.matmul(c.tanh(c.matmul(x, w)), u)

    (few,) = blocks_of(seam, trace(mlp, floats(197, D), floats(D, 3000), floats(3000, D)))
    (many,) = blocks_of(seam, trace(mlp, floats(2000, D), floats(D, 3000), floats(3000, D)))
    q, k, v = floats(B, 2000, D), floats(B, 3000, D), floats(B, 3000, D)
    (attention,) = blocks_of(seam, trace(plain, q, k, v))
    assert (few.block, many.block, attention.block) == (256, 512, 128)
