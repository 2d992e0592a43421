"""Views are index maps, never copies: in loop nests, and in what a library call is handed.

Input: chains of reshape, permute, expand and slice over arrays of several layouts.
"""

import numpy as np
import pytest

from stage3_lowering.tests.graphs import check, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import BufferRef, ExternCall, LoopNest, buffer_refs

F = np.float32


def loads(lowered, buffer):
    return [
        i
        for n in lowered.nodes
        if isinstance(n, LoopNest)
        for i in n.body
        if i.op == "load" and i.args[0] == buffer
    ]


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_chains_of_views(seam):
    x = np.arange(120, dtype=F).reshape(2, 3, 4, 5)
    y = np.ascontiguousarray(x.transpose(3, 1, 0, 2)).transpose(2, 1, 3, 0)[:, ::2]

    def function(c, x, y):
        a = c.permute(x, (0, 2, 1, 3))
        return (
            c.add(c.reshape(a, (2, 4, 15)), 1),  # not expressible with strides
            c.mul(c.slice(c.reshape(x, (6, 20)), 1, 3, 17, 5), 2),
            c.neg(c.expand(c.reshape(c.slice(x, 3, 0, 1), (1, 2, 3, 4)), (3, -1, -1, 4))),
            c.sub(c.reshape(c.permute(y, (3, 0, 2, 1)), (-1,)), 1),
            c.sum(c.reshape(c.permute(a, (3, 1, 0, 2)), (20, 6)), (1,)),
            c.reshape(a, (24, 5)),
            c.permute(x, (3, 2, 1, 0)),
            c.slice(x, 0, 1, None),
            c.reshape(c.slice(x, 0, 0, 0), (0, 5)),
        )

    a = x.transpose(0, 2, 1, 3)
    want = [
        a.reshape(2, 4, 15) + 1,
        x.reshape(6, 20)[:, 3:17:5] * 2,
        -np.broadcast_to(x[..., :1].reshape(1, 2, 3, 4), (3, 2, 3, 4)),
        y.transpose(3, 0, 2, 1).reshape(-1) - 1,
        a.transpose(3, 1, 0, 2).reshape(20, 6).sum(1),
        a.reshape(24, 5),
        x.transpose(3, 2, 1, 0),
        x[1:],
        np.zeros((0, 5), F),
    ]
    check(seam, function, [x, y], want)


@pytest.mark.conformance("lower", goal="good")
def test_a_library_gets_views_without_a_copy(seam):
    x, w = np.ones((6, 4), F), np.ones((5, 4), F)
    lowered = seam("lower")(trace(lambda c, x, w: c.matmul(x, c.permute(w, (1, 0))), x, w))
    (call,) = lowered.nodes
    assert isinstance(call, ExternCall) and call.target == "matmul"
    assert call.args == (BufferRef("x"), BufferRef("y", (4, 5), (1, 4), 0))


@pytest.mark.conformance("lower", goal="good")
def test_a_copy_only_where_strides_cannot_say_it(seam):
    x = np.ones((4, 6), F)

    def function(c, x):
        flat = c.reshape(c.permute(x, (1, 0)), (3, 8))
        return c.matmul(flat, c.expand(c.full((), 2.0, dt.float32, CPU), (8, 2)))

    lowered = seam("lower")(trace(function, x))
    copied, filled, call = lowered.nodes
    assert isinstance(copied, LoopNest) and isinstance(filled, LoopNest)
    assert [ref.name for ref in buffer_refs(call.args)] == [copied.name, filled.name]


@pytest.mark.conformance("lower", "fuse", "emit", tier="core")
def test_outputs_are_buffers_of_their_own(seam):
    x = np.arange(6, dtype=F).reshape(2, 3)

    def function(c, x):
        y = c.add(x, 1)
        return (
            x,
            y,
            y,
            c.permute(y, (1, 0)),
            None,
            3,
            c.detach(y),
            c.expand(c.reshape(y, (1, 2, 3)), (4, -1, -1)),
        )

    y = x + 1
    graph = trace(function, x)
    lowered = seam("lower")(graph)
    refs = buffer_refs(lowered.outputs)
    assert len({r.name for r in refs}) == len(refs) == 6
    returned = {r.name for r in refs} & set(lowered.inputs)
    assert len(returned) == 1, "only an input that is returned is an input"
    for outputs in run_every_way(seam, graph, [x]).values():
        assert outputs[4:6] == (None, 3)
        want = [x, y, y, y.T, y, np.broadcast_to(y, (4, 2, 3))]
        for output, wanted in zip([*outputs[:4], *outputs[6:]], want, strict=True):
            np.testing.assert_array_equal(output, wanted)
        assert outputs[3].strides == (4, 12)


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_everything_else_is_an_external_call(seam):
    """One core operator of each kind that has no loop nest here: lowering never refuses."""
    x = np.arange(12, dtype=F).reshape(3, 4)
    at = np.array([[0, 2, -1, 1]])

    def function(c, x, at):
        return (
            c.cumsum(x, 1), c.flip(x, (0,)), c.cat([x, c.neg(x)], 1),
            c.constant_pad(x, ((1, 0), (0, 2)), 7.0),
            c.scatter(x, 0, c.add(at, 0), c.slice(x, 0, 0, 1)),
            c.slice_scatter(x, c.slice(x, 1, 0, 2), 1, 2, 4),
            c.cast(x, dt.bfloat16), c.add(c.cast(x, dt.float16), c.cast(x, dt.float16)),
            c.reshape(c.permute(c.cast(x, dt.float16), (1, 0)), (12,)),
            c.floor_divide(c.cast(x, dt.int64), c.add(c.cast(x, dt.int64), 1)),
            c.clone(c.permute(x, (1, 0))), c.contiguous(c.permute(x, (1, 0))),
        )  # fmt: skip

    import ml_dtypes

    written = x.copy()
    written[at, np.arange(4)[None, :]] = x[:1]
    i = x.astype(np.int64)
    want = [
        x.cumsum(1), x[::-1], np.concatenate([x, -x], 1), np.pad(x, ((1, 0), (0, 2)), constant_values=7),
        written,
        np.concatenate([x[:, :2], x[:, :2]], 1), x.astype(ml_dtypes.bfloat16), (x + x).astype(np.float16),
        x.T.reshape(-1).astype(np.float16), i // (i + 1), x.T, x.T,
    ]  # fmt: skip
    graph = trace(function, x, at)
    for way, outputs in run_every_way(seam, graph, [x, at]).items():
        for k, (output, wanted) in enumerate(zip(outputs, want, strict=True)):
            assert output.dtype == wanted.dtype, (way, k)
            np.testing.assert_array_equal(
                output.astype(F), np.asarray(wanted).astype(F), err_msg=f"{k} ({way})"
            )


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_what_eager_raises_is_raised(seam):
    x = np.array([4, 6])
    graph = trace(lambda c, x, y: c.floor_divide(x, y), x, x)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_every_way(seam, graph, [x, np.array([1, 0])])
    graph = trace(lambda c, x, i: c.gather(x, 0, i), x, x)
    for bad in (2, -3):
        with pytest.raises(IndexError, match="out of (range|bounds)"):
            run_every_way(seam, graph, [x, np.array([0, bad])])


def test_a_bad_index_is_told_by_the_kernel(seam):
    from stage3_lowering.tests.cpp_runner import run_cpp
    from stage3_lowering.tests.graphs import CPP

    x = np.arange(5, dtype=F)
    graph = trace(lambda c, x, i: c.neg(c.gather(x, 0, i)), x, np.array([0]))
    program = seam("emit")(seam("fuse")(seam("lower")(graph)), CPP)
    np.testing.assert_array_equal(run_cpp(program, [x, np.array([-1])])[0], [-4])
    with pytest.raises(IndexError, match="out of range"):
        run_cpp(program, [x, np.array([5])])


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_gather_full_iota(seam):
    x = np.arange(20, dtype=F).reshape(4, 5)
    at = np.array([[0, -1], [3, 2]])

    def function(c, x, at):
        return (
            c.gather(x, 1, at), c.gather(c.permute(x, (1, 0)), 0, at),
            c.full((2, 2), True, dt.bool_, CPU), c.full((3,), float("inf"), dt.float32, CPU),
            c.iota(5, 2, 3, dt.int64, CPU), c.iota(4, 10, -3, dt.float32, CPU),
            c.iota(3, 0.5, 0.25, dt.float32, CPU),
            c.add(x, c.iota(5, 0, 1, dt.int64, CPU)), c.iota(0, 0, 1, dt.int64, CPU),
        )  # fmt: skip

    want = [
        np.take_along_axis(x[:2], at, 1), np.take_along_axis(x.T[:, :2], at, 0), np.ones((2, 2), bool),
        np.full(3, np.inf, F), np.arange(2, 17, 3), np.array([10, 7, 4, 1], F), np.array([0.5, 0.75, 1], F),
        x + np.arange(5, dtype=F), np.zeros(0, np.int64),
    ]  # fmt: skip
    check(seam, function, [x, at], want)


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_random_bits_are_eagers(seam):
    from stage0_eager.random.philox import philox_words

    rng = np.array([2**40 + 12345, 2**33 + 6])

    def function(c, rng):
        bits = c.random_bits(rng, 3, (5, 7))
        return (
            bits,
            c.lt(bits, 2**31),
            c.permute(c.random_bits(rng, 0, (2, 3)), (1, 0)),
            c.random_bits(rng, 1, (0,)),
        )

    bits = philox_words(np, rng, 3, (5, 7))
    other = philox_words(np, rng, 0, (2, 3)).T
    check(seam, function, [rng], [bits, bits < 2**31, other, np.zeros(0, np.int64)])


def test_constants_of_the_graph(seam):
    from stage0_eager.table.core import core
    from stage3_lowering.tests.graphs import meta_of_array

    x, k = np.ones((2, 3), F), np.arange(3, dtype=F)
    graph = trace(lambda c, x: c.neg(x), x)
    (neg,) = graph.calls
    with graph.inserting_before(neg):
        constant = graph.get_attr("weights", k, meta_of_array(k))
    added = graph.call_function(core.add, (neg, constant), val=neg.val)
    graph._nodes.remove(added)
    graph._nodes.insert(-1, added)
    graph.set_args(graph.output_node, ((added,),))
    for outputs in run_every_way(seam, graph.verify(), [x]).values():
        np.testing.assert_array_equal(outputs[0], -x + k)


def test_a_turned_expression_is_written_once_in_its_turned_order(seam):
    """As the gradients of queries, keys and values are: turned, and reshaped for a product and for a sum."""
    x, y = np.arange(120, dtype=F).reshape(2, 3, 4, 5), np.ones((2, 3, 4, 5), F)
    w = np.arange(30, dtype=F).reshape(15, 2)

    def function(c, x, y, w):
        turned = c.permute(c.add(x, y), (0, 2, 1, 3))
        return c.matmul(c.reshape(turned, (8, 15)), w), c.sum(c.reshape(turned, (2, 4, 15)), (0, 1))

    wanted = (x + y).transpose(0, 2, 1, 3).reshape(8, 15)
    program = check(seam, function, [x, y, w], [wanted @ w, wanted.sum(0)], 4)
    written = [n for k in program.kernels.values() for n in k.nests if not n.reduction_ranges]
    assert [n.ranges for n in written] == [(2, 4, 3, 5)]  # not once more as (8, 15)


@pytest.mark.parametrize("count", [2, 12])
def test_a_mask_of_indices_alone_stays_an_expression(seam, count):
    """However many read it: as a buffer it would draw kernels together that share nothing else."""
    arrays = [np.arange(36, dtype=F).reshape(6, 6) + k for k in range(count)]

    def function(c, *values):
        rows, columns = c.reshape(c.iota(6, 0, 1, dt.int64, CPU), (6, 1)), c.iota(6, 0, 1, dt.int64, CPU)
        seen = c.ge(rows, columns)
        return tuple(c.where(seen, c.exp(c.mul(v, 0.01)), 0.0) for v in values)

    lowered = seam("lower")(trace(function, *arrays))
    assert not [n for n in lowered.nodes if lowered.buffers[n.name].dtype is dt.bool_]
    seen = np.tri(6, dtype=bool)
    check(seam, function, arrays, [np.where(seen, np.exp(v * F(0.01)), 0) for v in arrays], 2)


# (the shape that is expanded, to what, and reshaped to what): a copy runs over the points before the reshape where
# its rows are long (repeat), else its indices have one division for each of their dimensions (nearest pixels)
COPIES = {
    "repeat": ((1, 6, 1, 20), (3, 6, 4, 20), (18, 80), 0),
    "flat": ((1, 6, 1, 20), (3, 6, 4, 20), (-1,), 0),
    "pixels": ((5, 7, 1, 8, 1), (5, 7, 2, 8, 2), (5, 14, 16), 2),
    "three times": ((4, 1, 6, 1), (4, 3, 6, 3), (12, 18), 2),
}


@pytest.mark.parametrize("case", COPIES)
def test_divisions_in_the_index_of_a_reshaped_copy(seam, case):
    shape, wide, out, divisions = COPIES[case]
    x = np.arange(np.prod(shape), dtype=F).reshape(shape)

    def function(c, x):
        return c.reshape(c.expand(x, wide), out)

    check(seam, function, [x], [np.broadcast_to(x, wide).reshape(out)])
    lowered = seam("lower")(trace(function, x))
    (load,) = loads(lowered, "x")
    assert print_index(load.args[1]).count("//") + print_index(load.args[1]).count("%") == divisions


def test_a_reshape_of_repeated_pixels_cancels_what_the_next_one_divides_by(seam):
    x = np.arange(5 * 7 * 8, dtype=F).reshape(5, 7, 1, 8, 1)

    def function(c, x):
        flat = c.reshape(c.expand(x, (5, 7, 2, 8, 2)), (5, 14 * 16))
        return c.add(c.slice(c.reshape(flat, (5, 14, 16)), 1, 0, 14, 1), 1)

    check(seam, function, [x], [np.broadcast_to(x, (5, 7, 2, 8, 2)).reshape(5, 14, 16) + 1])
    (load,) = loads(seam("lower")(trace(function, x)), "x")
    assert print_index(load.args[1]) == "56*i0 + 8*(i1 // 2) + (i2 // 2)"
