"""Convolutions as columns and a product: forward and both gradients against sums written out, and what stays a call.

Input: a table of shapes and a seeded draw of more. The reference adds up x[n, c, place] * w[o, c, k] over every
window in float64, one place of the kernel at a time; it knows no columns and no BLAS.
"""

import itertools
import math
import random

import ml_dtypes
import numpy as np
import pytest

from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_lowered
from stage3_lowering.lowering import convolution, convolution_tiles, matrices_in_blocks
from stage3_lowering.tests.graphs import CPP, meta_of_array, run_every_way, trace
from stage_contracts import config, events
from stage_contracts import dtype as dt
from stage_contracts.convolution_metas import convolved_size, transposed_size
from stage_contracts.device import Device
from stage_contracts.loop_ir import BufferRef, ExternCall, LoopNest
from stage_contracts.memory_format import FORMATS, laid_out
from stage_contracts.program import Launch, Product, RowBlocks

RNG = np.random.default_rng(5)


def places(kernel):
    return itertools.product(*map(range, kernel))


def window(x, place, sizes, stride, padding, dilation):
    """x[:, :, o * stride + place * dilation - padding] for each o, zero outside."""
    wide = np.pad(
        x, [(0, 0), (0, 0), *((p, p + s * d) for p, s, d in zip(padding, stride, dilation, strict=True))]
    )
    at = tuple(
        slice(k * d, k * d + (size - 1) * s + 1, s)
        for k, d, s, size in zip(place, dilation, stride, sizes, strict=True)
    )
    return wide[(slice(None), slice(None), *at)]


def forward(x, w, sizes, stride, padding, dilation, groups):
    n, outs, per = x.shape[0], w.shape[0], w.shape[1]
    out = np.zeros((n, groups, outs // groups, *sizes))
    for place in places(w.shape[2:]):
        seen = window(x, place, sizes, stride, padding, dilation).reshape(n, groups, per, *sizes)
        taps = w[(slice(None), slice(None), *place)].reshape(groups, outs // groups, per)
        out += np.einsum("ngc...,goc->ngo...", seen, taps)
    return out.reshape(n, outs, *sizes)


def of_weight(x, g, kernel, stride, padding, dilation, groups):
    n, outs, per = x.shape[0], g.shape[1], x.shape[1] // groups
    made = np.zeros((groups, outs // groups, per, *kernel))
    gs = g.reshape(n, groups, outs // groups, -1)
    for place in places(kernel):
        seen = window(x, place, g.shape[2:], stride, padding, dilation).reshape(n, groups, per, -1)
        made[(slice(None),) * 3 + place] = np.einsum("ngcp,ngop->goc", seen, gs)
    return made.reshape(outs, per, *kernel)


def transposed(x, w, sizes, stride, padding, dilation, groups):
    """The adjoint of `forward`: each element of x added to where its window was."""
    n, per = x.shape[0], w.shape[1]
    xs = x.reshape(n, groups, -1, *x.shape[2:])
    big = tuple(s + 2 * p + 64 for s, p in zip(sizes, padding, strict=True))
    out = np.zeros((n, groups * per, *big))
    for place in places(w.shape[2:]):
        taps = w[(slice(None), slice(None), *place)].reshape(groups, -1, per)
        at = tuple(
            slice(k * d, k * d + (size - 1) * s + 1, s)
            for k, d, s, size in zip(place, dilation, stride, x.shape[2:], strict=True)
        )
        out[(slice(None), slice(None), *at)] += np.einsum("ngc...,gco->ngo...", xs, taps).reshape(
            n, groups * per, *x.shape[2:]
        )
    inside = tuple(slice(p, p + s) for p, s in zip(padding, sizes, strict=True))
    return out[(slice(None), slice(None), *inside)]


# (N, C per group, O per group, groups, sizes, kernel, stride, padding, dilation)
TABLE = [
    (1, 3, 8, 1, (9, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 3, 8, 1, (9, 8), (3, 3), (2, 1), (1, 1), (1, 1)),  # the images share one product
    (2, 4, 9, 1, (17, 16), (1, 1), (1, 1), (0, 0), (1, 1)),  # the input is the columns
    (2, 4, 9, 1, (5, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 4, 9, 1, (5, 5), (1, 1), (2, 2), (0, 0), (1, 1)),
    (1, 2, 8, 3, (11,), (3,), (3,), (2,), (2,)),
    (2, 2, 8, 2, (4, 5, 6), (2, 1, 3), (1, 2, 1), (1, 0, 2), (1, 1, 1)),
    (1, 1, 8, 1, (1,), (3,), (1,), (1,), (1,)),  # one window
    (2, 3, 8, 1, (7, 7), (3, 2), (2, 2), (0, 0), (2, 3)),  # windows that leave a rest of the input unseen
    (1, 3, 8, 1, (20, 20), (7, 7), (2, 2), (3, 3), (1, 1)),
    # narrow groups: no product
    (2, 1, 1, 5, (9, 19), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 1, 1, 5, (9, 19), (3, 3), (2, 2), (1, 1), (1, 1)),
    (1, 1, 2, 3, (18, 7), (5, 2), (1, 3), (4, 0), (2, 1)),
    (2, 4, 3, 2, (6, 17), (3, 3), (1, 1), (0, 0), (1, 2)),
    (2, 1, 1, 4, (33,), (4,), (1,), (3,), (1,)),
    (1, 2, 2, 2, (4, 5, 6), (2, 1, 3), (1, 2, 1), (1, 0, 2), (1, 1, 1)),
    (1, 1, 1, 3, (9, 9), (7, 7), (1, 1), (3, 3), (1, 1)),
]


def drawn(seed):
    rng = random.Random(seed)
    d = rng.choice([1, 2, 3])
    pick = lambda *of: tuple(rng.choice(of) for _ in range(d))  # noqa: E731
    kernel, stride, padding, dilation = pick(1, 2, 3), pick(1, 1, 2, 3), pick(0, 1, 2), pick(1, 1, 2)
    reach = [e * (k - 1) + 1 - 2 * p for e, k, p in zip(dilation, kernel, padding, strict=True)]
    sizes = tuple(max(rng.randrange(1, 12), least) for least in reach)
    return (rng.choice([1, 2, 3]), rng.choice([1, 3]), rng.choice([8, 11, 1]), rng.choice([1, 2]), sizes,
            kernel, stride, padding, dilation)  # fmt: skip


def calls(seam, graph):
    return [n.target for n in seam("lower")(graph).nodes if isinstance(n, ExternCall)]


def holds(seam, function, arrays, want, expected_calls=("matmul",)):
    graph = trace(function, *arrays)
    assert set(calls(seam, graph)) == set(expected_calls)
    tolerance = 1e-5 if arrays[0].dtype == np.float32 else 1e-12
    for way, (output,) in run_every_way(seam, graph, arrays).items():
        assert output.dtype == arrays[0].dtype and output.flags.c_contiguous, way
        np.testing.assert_allclose(
            output, want, rtol=tolerance, atol=tolerance * np.abs(want).max(), err_msg=way
        )


@pytest.mark.parametrize("number, case", [*enumerate([*TABLE, *map(drawn, range(8))])], ids=str)
def test_forward_and_gradients_are_the_sums_over_windows(seam, number, case):
    dtype = "float64" if number % 3 == 2 else "float32"
    n, channels, outs, groups, sizes, kernel, *how = case
    made = tuple(convolved_size(*a) for a in zip(sizes, kernel, *how, strict=True))
    x = RNG.standard_normal((n, groups * channels, *sizes)).astype(dtype)
    w = RNG.standard_normal((groups * outs, channels, *kernel)).astype(dtype)
    g = RNG.standard_normal((n, groups * outs, *made)).astype(dtype)
    none, products = (0,) * len(sizes), [] if groups > 1 and outs < convolution.FEWEST else ["matmul"]
    x8, w8, g8 = (a.astype(np.float64) for a in (x, w, g))
    want = forward(x8, w8, made, *how, groups)
    holds(seam, lambda c, x, w: c.convolution(x, w, *how, False, none, groups), (x, w), want, products)
    want = of_weight(x8, g8, kernel, *how, groups)
    holds(
        seam,
        lambda c, x, g: c.convolution_weight_gradient(x, g, kernel, *how, groups),
        (x, g),
        want,
        products,
    )
    extra = tuple(max(0, s - 1) * (number % 2) for s in how[0])  # output_padding
    back = tuple(transposed_size(*a) for a in zip(made, kernel, *how, extra, strict=True))
    if min(back) > 0:
        w = RNG.standard_normal((groups * outs, 8 if products else channels, *kernel)).astype(dtype)
        want = transposed(g8, w.astype(np.float64), back, *how, groups)
        backward = lambda c, g, w: c.convolution(g, w, *how, True, extra, groups)  # noqa: E731
        holds(seam, backward, (g, w), want, products if want.any() else [])


def test_a_place_of_a_narrow_weight_gradient_is_read(seam):
    """The sums of several places are made in one loop; what reads one of them gets that one."""
    x, g = RNG.standard_normal((2, 3, 6, 6)), RNG.standard_normal((2, 3, 6, 6))
    how = ((3, 3), (1, 1), (1, 1), (1, 1), 3)

    def function(c, x, g):
        made = c.convolution_weight_gradient(x, g, *how)
        return c.mul(c.slice(c.slice(made, 2, 1, 2, 1), 3, 2, 3, 1), 2.0), made

    want = of_weight(x, g, *how)
    for way, (place, made) in run_every_way(seam, trace(function, x, g), (x, g)).items():
        np.testing.assert_allclose(made, want, rtol=1e-12, atol=1e-12, err_msg=way)
        np.testing.assert_allclose(place, 2 * want[:, :, 1:2, 2:3], rtol=1e-12, atol=1e-12, err_msg=way)


def test_what_stays_a_call_says_why(seam, monkeypatch):
    """Each code of EXTERNAL by a program that gets it; `open_size` needs an open one."""
    monkeypatch.setattr(convolution, "LARGEST", 4096)
    plain = ((1,), (0,), (1,), False, (0,), 1)
    phases = ((10,), (0,), (1,), True, (0,), 1)
    depthwise = ((1,), (0,), (1,), False, (0,), 4)
    reasons = {
        "integers": (plain, np.int64, (1, 2, 8), (8, 2, 3)),
        "empty": (plain, np.float32, (0, 2, 8), (8, 2, 3)),
        "narrow_groups": (depthwise, np.float32, (1, 4, 80), (4, 1, 65)),
        "large": (plain, np.float32, (1, 9, 80), (8, 9, 3)),
        "many_phases": (phases, np.float32, (1, 2, 8), (2, 8, 3)),
    }
    for reason, (how, dtype, x, w) in reasons.items():
        arrays = np.ones(x, dtype), np.ones(w, dtype)
        before = events.EVENT_LOG.mark()
        graph = trace(lambda c, x, w, how=how: c.convolution(x, w, *how), *arrays)
        assert calls(seam, graph) == ["convolution"]
        assert [e.details["reason"] for e in events.EVENT_LOG.since(before, "fallback")] == [reason]
    assert {*reasons, "open_size"} == {*convolution.EXTERNAL}


@pytest.mark.parametrize("of", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("how", [(False, 1), (False, 4), (True, 1)], ids=["plain", "depthwise", "transposed"])
def test_halves_are_multiplied_in_float32_and_rounded_once(seam, of, how):
    """Both are exact in float32, so that the last bit of every half is told."""
    turned, groups = how
    plain = ((1, 1), (1, 1), (1, 1), turned, (0, 0), groups)
    x = RNG.integers(-8, 9, (2, 4, 6, 7)).astype(of)
    w = RNG.integers(-8, 9, (4, 8, 3, 3) if turned else (4 * (groups > 1) or 8, 4 // groups, 3, 3)).astype(of)

    def function(c, x, w):
        y = c.convolution(x, w, *plain)
        return (y,) if turned else (y, c.convolution_weight_gradient(x, c.sin(y), (3, 3), *plain[:3], groups))

    graph = trace(function, x, w)
    assert not {"convolution", "convolution_weight_gradient"} & {*calls(seam, graph)}
    eager = interpreter(graph)(x, w)
    for way, found in run_every_way(seam, graph, (x, w)).items():
        assert all(output.dtype == of for output in found), way
        np.testing.assert_array_equal(found[0], eager[0], err_msg=way)
        for got, want in zip(found[1:], eager[1:], strict=True):
            np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), rtol=0.02, atol=0.05, err_msg=way)


def test_what_follows_joins_the_product(seam, monkeypatch):
    """A batch norm in eval mode, a residual and relu run in the blocks of the product's rows."""
    from stage3_lowering.lowering import row_blocks

    monkeypatch.setattr(row_blocks, "SMALLEST_WORK", 0)

    def block(c, x, w, scale, shift, short):
        y = c.convolution(x, w, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)
        return c.maximum(c.add(c.add(c.mul(y, scale), shift), short), 0.0)

    arrays = [
        RNG.standard_normal(s).astype("f4")
        for s in [(1, 8, 9, 9), (40, 8, 3, 3), *[(1, 40, 1, 1)] * 2, (1, 40, 9, 9)]
    ]
    graph = trace(block, *arrays)
    x, w, scale, shift, short = (a.astype(np.float64) for a in arrays)
    want = np.maximum(forward(x, w, (9, 9), (1, 1), (1, 1), (1, 1), 1) * scale + shift + short, 0)
    for way, (output,) in run_every_way(seam, graph, arrays).items():
        np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-5, err_msg=way)
    program = seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP)
    assert [len(step.steps) for step in program.steps if isinstance(step, RowBlocks)] == [2]


@pytest.fixture
def tiles_of_two_rows(monkeypatch):
    """A function that makes a case one of tiles of two rows of windows, and gives the sizes of its result."""

    def cut(case):
        _, channels, _, _, sizes, kernel, *how = case
        made = tuple(convolved_size(*a) for a in zip(sizes, kernel, *how, strict=True))
        two = 2 * 8 * channels * math.prod((*kernel, *made[1:]))  # bytes
        limits = {
            matrices_in_blocks: {"SMALLEST": 1, "SMALLEST_WORK": 1, "FEWEST": 1},
            convolution: {"NARROW": 1},
            convolution_tiles: {"TILE": two, "NARROWEST": 1, "DEEP": 0, "WASTED": 1, "FEWEST_TILES": 1},
        }
        for module, own in limits.items():
            for name, limit in own.items():
                monkeypatch.setattr(module, name, limit)
        return made

    return cut


def blocks_of(seam, function, *arrays):
    """The one step that multiplies block by block, of a kernel and a product."""
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP)
    (blocks,) = (step for step in program.steps if isinstance(step, RowBlocks))
    assert [type(step) for step in blocks.steps] == [Launch, Product]
    return blocks


@pytest.mark.parametrize("case", [TABLE[0], TABLE[5], TABLE[6], TABLE[8], (2, 3, 8, 1, (6, 7), (2, 2), (1, 1), (0, 0), (1, 1))],
                         ids=str)  # fmt: skip
def test_columns_are_made_tile_by_tile(seam, tiles_of_two_rows, case):
    """A tile's columns are made right before its product, in memory of the thread's own; a last tile may be too long."""
    made, (n, channels, outs, groups, sizes, kernel, *how) = tiles_of_two_rows(case), case
    x = RNG.standard_normal((n, groups * channels, *sizes))
    w = RNG.standard_normal((groups * outs, channels, *kernel))
    function = lambda c, x, w: c.maximum(c.convolution(x, w, *how, False, (0,) * len(sizes), groups), 0.0)  # noqa: E731
    holds(seam, function, (x, w), np.maximum(forward(x, w, made, *how, groups), 0))
    blocks = blocks_of(seam, function, x, w)
    assert blocks.local == (blocks.steps[1].b.name,)
    assert math.prod(size for _, size in blocks.batch) == n * groups * math.ceil(made[0] / 2)


@pytest.mark.parametrize("case", [
    (3, 3, 8, 1, (12, 8), (3, 3), (1, 1), (1, 1), (1, 1)), (2, 2, 9, 2, (16, 11), (3, 2), (2, 1), (1, 0), (1, 2)),
    (2, 2, 8, 1, (4, 9, 10), (2, 1, 3), (1, 2, 1), (1, 0, 1), (1, 1, 1)),
], ids=str)  # fmt: skip
def test_the_gradient_of_a_kernel_is_a_sum_over_tiles(seam, tiles_of_two_rows, case):
    """Its columns are the rows of a product; threads may share the rows of each."""
    made, (n, channels, outs, groups, sizes, kernel, *how) = tiles_of_two_rows(case), case
    x = RNG.standard_normal((n, groups * channels, *sizes))
    g = RNG.standard_normal((n, groups * outs, *made))
    function = lambda c, x, g: c.convolution_weight_gradient(x, g, kernel, *how, groups)  # noqa: E731
    holds(seam, function, (x, g), of_weight(x, g, kernel, *how, groups))
    blocks = blocks_of(seam, function, x, g)
    assert blocks.local == (blocks.steps[1].a.name,)


# ---- on a GPU: a call of the library ------------------------------------------------------------------------------

CUDA = Device("cuda", 0)


def on_gpu(array):
    return meta_of_array(array).with_(device=CUDA)


def channels_last(array):
    order = (0, *range(2, array.ndim), 1)
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def layouts_of(lowered):
    """For each convolution, the layouts of its operands and of its result: "rows", "last", or "both"."""
    found = []
    for call in lowered.nodes:
        if not isinstance(call, ExternCall) or "convolution" not in call.target:
            continue
        seen = []
        for ref in (*(a for a in call.args if isinstance(a, BufferRef)), BufferRef(call.outputs[0])):
            meta = lowered.buffers[ref.name]
            meta = meta if ref.shape is None else meta.with_(shape=ref.shape, strides=ref.strides)
            rows, last = meta.is_contiguous, laid_out(meta, FORMATS["channels_last"])
            seen.append("both" if rows and last else "rows" if rows else "last" if last else "neither")
        found.append(seen)
    return found


def test_a_call_on_a_gpu_gets_operands_in_one_layout(seam):
    """Turned, sliced, expanded and computed operands; the copy of one that two calls read is made once."""
    how = ((1, 1), (1, 1), (1, 1))

    def function(c, x, w):
        turned = c.permute(w, (1, 0, 3, 2))
        x = c.slice(x, 3, 1, 7, 1)
        y = c.convolution(x, turned, *how, False, (0, 0), 1)
        g = c.expand(c.sin(c.slice(y, 0, 0, 1, 1)), y.val.shape)
        back = c.convolution(g, turned, *how, True, (0, 0), 1)
        return y, back, c.convolution_weight_gradient(x, g, (3, 3), *how, 1)

    x, w = RNG.standard_normal((2, 4, 5, 8)), RNG.standard_normal((4, 6, 3, 3))
    want = interpret_lowered(seam("lower")(trace(function, x, w)), (x, w))
    lowered = seam("lower")(trace(function, on_gpu(x), on_gpu(w)))
    assert layouts_of(lowered) == [["rows"] * 3] * 3
    assert len([n for n in lowered.nodes if isinstance(n, LoopNest)]) == 4  # of w, x, sin and g
    for got, exact in zip(interpret_lowered(lowered, (x, w)), want, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-12)


def test_channels_last_goes_through(seam):
    """Where an operand lies so, the call is in that layout, and what is returned lies as its meta says."""
    how = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)

    def function(c, x, w):
        return c.convolution(c.convolution(x, w, *how), w, *how)

    x, w = RNG.standard_normal((2, 4, 6, 5)), RNG.standard_normal((4, 4, 2, 2))
    (want,) = interpret_lowered(seam("lower")(trace(function, x, w)), (x, w))
    lowered = seam("lower")(trace(function, on_gpu(channels_last(x)), on_gpu(w)))
    assert layouts_of(lowered) == [["last"] * 3] * 2
    (got,) = interpret_lowered(lowered, (channels_last(x), w))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert got.flags.c_contiguous


def test_halves_have_their_channels_innermost_until_they_leave(seam):
    """A block with a norm, a shortcut and a pool, and its gradients: the input and each kernel are turned once."""
    how = ((1, 1), (1, 1), (1, 1))
    x, w = RNG.standard_normal((2, 8, 6, 6)), RNG.standard_normal((8, 8, 3, 3)) / 8
    g = RNG.standard_normal((2, 8, 1, 1))
    x, w, g = (a.astype(ml_dtypes.bfloat16) for a in (x, w, g))

    def function(c, x, w, g):
        y = c.convolution(x, w, *how, False, (0, 0), 1)
        wide = c.cast(y, dt.float32)
        mean = c.div(c.sum(wide, (0, 2, 3), True), 72)
        z = c.maximum(c.cast(c.sub(wide, mean), dt.bfloat16), 0.0)
        z = c.add(z, c.convolution(z, w, *how, False, (0, 0), 1))
        back = c.where(c.le(z, 0.0), 0.0, c.expand(g, z.val.shape))
        on_x = c.convolution(back, w, *how, True, (0, 0), 1)
        return z, c.add(on_x, y), c.sub(w, c.convolution_weight_gradient(z, back, (3, 3), *how, 1))

    plain = interpret_lowered(seam("lower")(trace(function, x, w, g)), (x, w, g))
    lowered = seam("lower")(trace(function, *map(on_gpu, (x, w, g))))
    assert layouts_of(lowered) == [["last"] * 3] * 4
    given = [n for n in lowered.nodes if isinstance(n, LoopNest) and n.reads in (("x",), ("y",))]
    assert len(given) == 2  # x is called x and w is called y: one copy of each
    for got, want in zip(interpret_lowered(lowered, (x, w, g)), plain, strict=True):
        assert got.flags.c_contiguous
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=1e-2, atol=2e-2)
    with config.patch({"lowering.layout_optimization": False}):
        lowered = seam("lower")(trace(function, *map(on_gpu, (x, w, g))))
    assert layouts_of(lowered) == [["rows"] * 3] * 4


@pytest.mark.parametrize("makes", ["y", "x", "w"])
def test_a_kernel_of_size_1_is_a_product_on_a_gpu(seam, makes):
    """Forward, both gradients, on operands that are views, expanded, or lie row by row."""
    how = ((1, 1), (0, 0), (1, 1))
    x, g = (RNG.standard_normal((2, channels, 3, 5)) for channels in (8, 4))
    w = RNG.standard_normal((4, 8, 1, 1))
    x, w, g = (a.astype(ml_dtypes.bfloat16) for a in (x, w, g))
    functions = {
        "y": (lambda c, x, w: c.convolution(x, w, *how, False, (0, 0), 1), (x, w)),
        "x": (lambda c, g, w: c.convolution(g, w, *how, True, (0, 0), 1), (g, w)),
        "w": (lambda c, x, g: c.convolution_weight_gradient(x, g, (1, 1), *how, 1), (x, g)),
    }
    function, arrays = functions[makes]
    for views in (lambda c, a: a, lambda c, a: c.slice(c.expand(a, (2, *a.val.shape[1:])), 0, 1, 2, 1)):

        def wrapped(c, a, b, views=views):
            return function(c, views(c, a), views(c, b)) if makes == "w" else function(c, views(c, a), b)

        (want,) = interpret_lowered(seam("lower")(trace(wrapped, *arrays)), arrays)
        lowered = seam("lower")(trace(wrapped, *map(on_gpu, arrays)))
        assert [n.target for n in lowered.nodes if isinstance(n, ExternCall)] == ["matmul"]
        (got,) = interpret_lowered(lowered, arrays)
        assert got.shape == want.shape and got.flags.c_contiguous
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=1e-2, atol=2e-2)
