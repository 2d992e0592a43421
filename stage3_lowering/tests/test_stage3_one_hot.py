"""Sums of one class and comparisons with class numbers: equal to NumPy's for any target, in any layout.

Input: `where(target == iota, x, 0)` and its sums, over each dimension; targets that are no class, and that equal one
in 32 bits; and the graphs that look alike and must stay as they are.
"""

import numpy as np
import pytest

from stage3_lowering.lowering.one_hot import one_hot, picks
from stage3_lowering.tests import programs
from stage3_lowering.tests.graphs import run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4, 5, 3)).astype(np.float32)
STRANGE = np.array([-1, 5, 2 + (1 << 32), -(1 << 63), (1 << 63) - 1, 1, 4, 0, 2, 3, 3, 1])  # few are classes


def ids_along(c, shape, dim, start=0, step=1):
    sizes = tuple(n if d == dim else 1 for d, n in enumerate(shape))
    return c.reshape(c.iota(shape[dim], start, step, dt.int64, CPU), sizes)


def numpy_hot(shape, dim, target):
    ids = np.arange(shape[dim]).reshape([n if d == dim else 1 for d, n in enumerate(shape)])
    return target == ids


def compare(seam, function, want, *arrays):
    graph = trace(function, *arrays)
    for way, outputs in run_every_way(seam, graph, arrays).items():
        for output, expected in zip(outputs, want, strict=True):
            np.testing.assert_array_equal(output, expected, err_msg=way)
            np.testing.assert_array_equal(np.signbit(output * 1.0), np.signbit(expected * 1.0), err_msg=way)
            assert output.dtype == np.asarray(expected).dtype
    return graph


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int16, np.bool_])
def test_a_sum_over_classes_is_one_element(seam, dim, keepdim, dtype):
    x = (X * 3).astype(dtype)
    if dtype in (np.float32, np.float64):
        x[::2, ::2], x[0, 0, 0], x[1, 1, 1] = -0.0, np.nan, np.inf
    target = np.resize(STRANGE, [1 if d == dim else n for d, n in enumerate(X.shape)])
    hot = numpy_hot(X.shape, dim, target)
    zero = np.zeros((), x.dtype if dtype is not np.bool_ else np.int64)
    wanted_dtype = dtype if dtype in (np.float32, np.float64) else np.int64
    want = np.where(hot, x, zero).sum(dim, keepdims=keepdim, dtype=wanted_dtype)

    def function(c, x, t):
        return c.sum(c.where(c.eq(t, ids_along(c, X.shape, dim)), x, 0), (dim,), keepdim)

    graph = compare(seam, function, [want], x, target)
    assert picks(graph.calls[-1]) is not None


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_comparison_alone_is_exact_in_32_bits(seam, dim, swapped):
    target = np.resize(STRANGE, [1 if d == dim else n for d, n in enumerate(X.shape)])

    def function(c, x, t):
        ids = ids_along(c, X.shape, dim)
        hit = c.eq(ids, t) if swapped else c.eq(t, ids)
        return c.where(hit, x, -1.0), hit

    hot = numpy_hot(X.shape, dim, target)
    compare(seam, function, [np.where(hot, X, np.float32(-1)), hot], X, target)


@pytest.mark.conformance("lower", tier="core")
@pytest.mark.conformance("fuse", goal="good")
@pytest.mark.conformance("emit")
def test_a_value_with_other_readers_is_not_stored_for_the_sum(seam):
    x, target = X[:, :, 0].copy(), np.array([[1], [4], [0], [7]])

    def function(c, x, t):
        logp = programs.log_softmax(c, x)
        return c.sum(c.where(c.eq(t, ids_along(c, x.val.shape, 1)), logp, 0), (1,), False), c.exp(logp)

    logp = programs.numpy_log_softmax(x.astype(np.float64))
    want = np.where(numpy_hot(x.shape, 1, target), logp, 0).sum(1)
    graph = trace(function, x, target)
    for outputs in run_every_way(seam, graph, [x, target]).values():
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs[1], np.exp(logp), rtol=1e-5, atol=1e-6)
    assert len(seam("fuse")(seam("lower")(graph)).kernels) == 1


T = np.array([[1], [4], [0], [2]])
LOOK_ALIKES = {
    "counts from one": lambda c, x, t: c.sum(c.where(c.eq(t, ids_along(c, (4, 5), 1, 1)), x, 0), (1,), False),
    "in steps of two": lambda c, x, t: c.sum(c.where(c.eq(t, ids_along(c, (4, 5), 1, 0, 2)), x, 0), (1,), False),
    "other than zero": lambda c, x, t: c.sum(c.where(c.eq(t, ids_along(c, (4, 5), 1)), x, 1.0), (1,), False),
    "over targets": lambda c, x, t: c.sum(c.where(c.eq(t, ids_along(c, (4, 5), 1)), x, 0), (0,), False),
    "over both": lambda c, x, t: c.sum(c.where(c.eq(t, ids_along(c, (4, 5), 1)), x, 0), (0, 1), False),
    "a maximum": lambda c, x, t: c.amax(c.where(c.eq(t, ids_along(c, (4, 5), 1)), x, 0), (1,), False),
    "varies": lambda c, x, t: c.sum(
        c.where(c.eq(c.mul(t, ids_along(c, (4, 5), 1)), ids_along(c, (4, 5), 1)), x, 0), (1,), False
    ),
}  # fmt: skip


def by_numpy(kind, x):
    ids = np.arange(5)[None]
    ids = {"counts from one": ids + 1, "in steps of two": ids * 2}.get(kind, ids)
    hot = (T * ids if kind == "varies" else T) == ids
    chosen = np.where(hot, x, 1.0 if kind == "other than zero" else 0).astype(np.float64)
    if kind == "a maximum":
        return chosen.max(1)
    return chosen.sum({"over targets": 0, "over both": None}.get(kind, 1))


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_look_alikes_stay_sums(seam, kind):
    x = X[:, :, 0].copy()
    graph = trace(LOOK_ALIKES[kind], x, T)
    assert picks(graph.calls[-1]) is None
    for way, outputs in run_every_way(seam, graph, [x, T]).items():
        np.testing.assert_allclose(outputs[0], by_numpy(kind, x), rtol=1e-5, atol=1e-6, err_msg=way)
    if kind == "varies":
        assert not any(one_hot(node) for node in graph.calls)
