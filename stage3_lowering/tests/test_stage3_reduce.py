"""Reductions over any dims, dtypes, layouts and sizes, with the table's NaN rules, against NumPy.

Input: small arrays with edge values, and a few large ones for the parallel loops.
"""

import numpy as np
import pytest

from stage3_lowering.tests.graphs import CPP, assert_close, check, results, run_cpp, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.program import External

KINDS = ("sum", "prod", "amax", "amin", "any", "all")
DIMS = [(0,), (1,), (-1,), (0, 2), (2, 1), (0, 1, 2)]
SHAPE = (3, 4, 5)


def data(dtype, layout):
    rng = np.random.default_rng(7)
    x = rng.integers(-4, 5, SHAPE)
    if dtype.startswith("float"):
        x = x + rng.random(SHAPE)
    x = x.astype(dtype)
    if layout == "transposed":
        x = np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    if layout == "sliced":
        wide = np.zeros((3, 8, 5), dtype)
        wide[:, ::2] = x
        x = wide[:, ::2]
    return x


def reference(kind, x, dims, keepdim=False):
    if kind in ("sum", "prod"):
        exact = np.float64 if x.dtype == np.float32 else np.longdouble if x.dtype == np.float64 else np.int64
        out = getattr(np, kind)(x.astype(exact), axis=dims, keepdims=keepdim)
        return np.asarray(out).astype(x.dtype if x.dtype.kind == "f" else np.int64)
    return np.asarray(getattr(np, kind)(x, axis=dims, keepdims=keepdim))


# A sum of n float64 numbers in any order is off by at most n - 1 roundings of the sum of their magnitudes;
# here
# n <= 60 and the sums are of the size of their terms. float32 sums are accumulated in float64 and rounded once.
ULPS = {"float32": 2.0, "float64": 64.0}


@pytest.mark.conformance("fuse", tier="core")
@pytest.mark.conformance("lower", "emit")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("layout", ["dense", "transposed", "sliced"])
def test_every_reduction(seam, dtype, layout):
    x = data(dtype, layout)
    calls = [(kind, dims, keep) for kind in KINDS for dims in DIMS for keep in (False, True)]

    def function(c, x):
        return [getattr(c, kind)(x, dims, keep) for kind, dims, keep in calls]

    graph = trace(function, x)
    for way, outputs in run_every_way(seam, graph, [x]).items():
        for (kind, dims, keep), output in zip(calls, outputs, strict=True):
            ulps = 64.0 if kind == "prod" else ULPS.get(dtype, 0)
            assert_close(output, reference(kind, x, dims, keep), ulps, f"{kind} {dims} {keep} ({way})")


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_positions(seam, dtype):
    x = data(dtype, "dense")
    y = np.array([[1, 3, 3, 1], [0, 0, 0, 0]]).astype(dtype)
    calls = [("argmax", 0), ("argmin", 1), ("argmax", -1), ("argmin", 2)]

    def function(c, x, y):
        return [getattr(c, k)(x, d) for k, d in calls] + [c.argmax(y, 1), c.argmin(y, 1, True)]

    want = [getattr(np, k)(x, axis=d) for k, d in calls] + [y.argmax(1), y.argmin(1)[:, None]]
    check(seam, function, [x, y], want)


# (shape, dim): lanes of columns, by groups of rows and with a rest, in parts that threads share, in a middle
# dimension; lanes along rows, and rows too short for them.
IN_LANES = [((7, 40), 0), ((41, 9), 0), ((1024, 1030), 0), ((2, 13, 20), 1), ((3, 96), 1), ((3, 20), 1)]


@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("shape, dim", IN_LANES)
def test_positions_in_lanes(seam, shape, dim, dtype):
    rng = np.random.default_rng(len(dtype))
    x = rng.integers(0, 6, shape).astype(dtype)  # many are equal: the first wins
    if x.dtype.kind == "f":
        x[rng.random(shape) < 0.02] = np.nan
        x[..., :3], x[..., 3:5] = -np.inf, np.inf

    def function(c, x):
        return [c.argmax(x, dim), c.argmin(x, dim), *([c.amax(x, (dim,))] * (x.val.dtype is dt.float32))]

    emitted = seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(trace(function, x))), CPP), CPP)
    for kind, output in zip(("argmax", "argmin", "max"), run_cpp(emitted, [x]), strict=False):
        np.testing.assert_array_equal(output, getattr(np, kind)(x, axis=dim), kind)


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_infinities_and_signed_zeros(seam, dtype):
    nan, inf = np.nan, np.inf
    x = np.array([[1, nan, 3, inf], [-inf, 2, 1, 0], [-0.0, -0.0, -0.0, -0.0], [-3, inf, -inf, 1]], dtype)

    def function(c, x):
        kinds = ("amax", "amin", "sum", "prod", "any", "all")
        return [getattr(c, k)(x, (1,)) for k in kinds] + [c.argmax(x, 1), c.argmin(x, 1), c.amax(x, (0, 1))]

    with np.errstate(all="ignore"):
        want = [
            x.max(1),
            x.min(1),
            x.sum(1),
            x.prod(1),
            x.any(1),
            x.all(1),
            x.argmax(1),
            x.argmin(1),
            np.asarray(x.max()),
        ]
    graph = trace(function, x)
    for way, outputs in run_every_way(seam, graph, [x]).items():
        for k, (output, wanted) in enumerate(zip(outputs, want, strict=True)):
            assert_close(output, wanted, 0, f"output {k} ({way})", signed_zeros=False)


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_nothing_and_almost_nothing(seam):
    empty, point = np.zeros((0, 3), np.float32), np.array(2.5, np.float32)

    def function(c, x, y):
        return (
            c.sum(x, (0,)), c.prod(x, (0,)), c.any(x, (0, 1)), c.all(x, (0,)), c.sum(x, (1,)),
            c.amax(x, (1,)),
            c.sum(y, (0,)), c.amax(y, (-1,), True), c.argmax(y, 0), c.any(y, ()), c.sum(y, ()),
        )  # fmt: skip

    f = np.float32
    want = [np.zeros(3, f), np.ones(3, f), np.asarray(False), np.ones(3, bool), np.zeros(0, f),
        np.zeros(0, f),
            point, point, np.asarray(0), np.asarray(True), point]  # fmt: skip
    check(seam, function, [empty, point], want)


@pytest.mark.conformance("lower", "fuse", "emit")
def test_integer_sums_are_exact_and_wrap(seam):
    x = np.array([2**62, 2**62, 2**62, 3], np.int64)
    y = np.full(300, 200, np.uint8)

    def function(c, x, y):
        return c.sum(x, (0,)), c.prod(x, (0,)), c.sum(y, (0,)), c.sum(c.gt(y, 3), (0,))

    with np.errstate(all="ignore"):
        want = [np.asarray(x.sum()), np.asarray(x.prod()), np.asarray(60000), np.asarray(300)]
    check(seam, function, [x, y], want)


@pytest.mark.conformance("lower", "fuse", "emit")
def test_large_reductions_in_parallel(seam):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((700, 600)).astype(np.float32)
    x[13, 17] = np.nan
    y = rng.standard_normal((700, 600)).astype(np.float32)

    def function(c, x, y):
        return (
            c.sum(y, (0, 1)),
            c.amax(x, (0, 1)),
            c.amax(y, (0, 1)),
            c.sum(y, (0,)),
            c.amin(x, (1,)),
            c.sum(c.mul(y, y), (1,)),
        )

    exact = y.astype(np.float64)
    want = [
        np.float32(exact.sum()), np.float32(np.nan), y.max(), exact.sum(0).astype(np.float32), x.min(1),
        (y * y).astype(np.float64).sum(1).astype(np.float32),
    ]  # fmt: skip
    graph = trace(function, x, y)
    for way, outputs in run_every_way(seam, graph, [x, y]).items():
        for k, (output, wanted) in enumerate(zip(outputs, want, strict=True)):
            if k == 3:  # over rows: floats of four rows
                assert (np.abs(output - wanted) <= 2.0**-24 * np.abs(exact).sum(0)).all(), way
            else:
                assert_close(output, wanted, 2, f"output {k} ({way})")  # float lanes within a block


@pytest.mark.parametrize("length", [512, 1024, 4096, 100_000])
def test_float_sums_are_as_exact_as_numpys(seam, length):
    """Blocks summed in float lanes, added up in double: against float64, no worse than NumPy's sums of pairs."""
    x = (np.random.default_rng(length).standard_normal((64, length)) ** 2).astype(np.float32)
    graph = trace(lambda c, x: c.sum(x, (1,)), x)
    exact = x.astype(np.float64).sum(1)
    ours, theirs = (np.abs(s - exact).mean() for s in (run_every_way(seam, graph, [x])["cpp"][0], x.sum(1)))
    assert ours <= 1.1 * theirs


@pytest.mark.conformance("lower", "fuse", "emit", tier="full")
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_running_folds(seam, dim, dtype):
    """Along any dimension, of any layout, with what reads and feeds it in the same loops."""
    x = (np.arange(5 * 9 * 12).reshape(5, 9, 12) * 7 % 23 - 11).astype(dtype)
    turned = np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    wide = np.int64 if dtype in (np.int64, np.bool_) else dtype
    total, product = np.cumsum(x, dim, dtype=wide), np.cumprod(x, dim, dtype=wide)
    want = [total, total + 1, total.sum(dim), product, product - 1]

    def function(c, x):
        total, product = c.cumsum(x, dim), c.cumprod(x, dim)
        return total, c.add(total, 1), c.sum(total, (dim,)), product, c.sub(product, 1)

    for array in (x, turned):
        check(seam, function, [array], want)


def last_places(x, running, dim):
    """Of each running extremum: the last place where it was met; of NaN, the last NaN."""
    places = np.broadcast_to(np.moveaxis(np.arange(x.shape[dim])[:, None, None], 0, dim), x.shape)
    return np.maximum.accumulate(np.where((x == running) | (x != x), places, 0), dim)


LOW = {np.bool_: False, np.uint8: 0, np.int64: -(2**63), np.float32: -np.inf, np.float64: -np.inf}


@pytest.mark.conformance("lower", "fuse", "emit", tier="full")
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", LOW)
def test_running_extrema(seam, dim, dtype):
    """Rows with equal elements, that begin with the lowest there is, and with NaN inside."""
    x = (np.arange(5 * 9 * 40).reshape(5, 9, 40) * 7 % 23).astype(dtype)
    x[:, 4], x[0] = LOW[dtype], LOW[dtype]
    if dtype in (np.float32, np.float64):
        x[3, 3, 7:9] = np.nan
    largest, smallest = np.maximum.accumulate(x, dim), np.minimum.accumulate(x, dim)
    places = last_places(x, largest, dim), last_places(x, smallest, dim)
    both = check(
        seam,
        lambda c, x: (*results(c.cummax(x, dim)), *results(c.cummin(x, dim))),
        [x],
        [largest, places[0], smallest, places[1]],
    )
    one = check(seam, lambda c, x: results(c.cummax(x, dim))[:1], [x], [largest])
    check(seam, lambda c, x: results(c.cummin(x, dim))[1:], [x], [places[1]])
    assert not any(isinstance(step, External) for step in both.steps)
    assert len(one.kernels) == 1 and [scanned(one), scanned(both)] == [1, 4]


def scanned(program):
    """How many scans there are: of places, too."""
    nests = [nest for kernel in program.kernels.values() for nest in kernel.nests]
    return sum(i.op == "scan" for nest in nests for i in nest.body)


def test_running_folds_of_nothing(seam):
    for shape, dim in (((0, 3), 0), ((0, 3), 1), ((3, 0), 1)):
        x = np.zeros(shape, np.float32)
        found = [x, x, np.zeros(shape, np.int64)]
        check(seam, lambda c, x, dim=dim: (c.cumprod(x, dim), *results(c.cummax(x, dim))), [x], found)
