"""float16 and bfloat16 are computed in float32, in one kernel, and rounded after every operator: eager's bits.

Input: graphs of half tensors. Conversions: every half, and float32 values around each tie, against ml_dtypes and
NumPy. Arithmetic: NumPy in float32, each operand a half, the result rounded once.
"""

import ml_dtypes
import numpy as np
import pytest

from stage0_eager.kernels.eager import eager_kernel
from stage3_lowering.interpret import interpret_lowered
from stage3_lowering.tests import references
from stage3_lowering.tests import test_stage3_pointwise as pointwise
from stage3_lowering.tests.graphs import TRITON, meta_of_array, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.loop_ir import ExternCall

F = np.float32
ULPS = {*references.TRANSCENDENTAL, *references.TRANSCENDENTAL_2}
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
RNG = np.random.default_rng(3)


def bits(array):
    return np.asarray(array).view(np.uint16)


def same_halves(got, want, what=""):
    """Equal bits; any NaN for a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, what
    nan = np.isnan(want.astype(F))
    np.testing.assert_array_equal(np.isnan(got.astype(F)), nan, err_msg=what)
    np.testing.assert_array_equal(bits(got)[~nan], bits(want)[~nan], err_msg=what)


def floats_around(half):
    """Every half as float32, and what lies on and beside the middle between it and the next."""
    with np.errstate(all="ignore"):
        exact = np.arange(1 << 16, dtype=np.uint16).view(half).astype(F)
        exact = exact[np.isfinite(exact)]
        middle = (exact.astype(np.float64) + np.append(exact[1:], exact[:1])).astype(np.float64) / 2
        near = middle.astype(F)
        more = np.array([np.inf, -np.inf, np.nan, 65519.0, 65520.0, 3.4e38, -3.4e38, 1e-45, -1e-45], F)
        return np.concatenate(
            [exact, near, np.nextafter(near, F(np.inf)), np.nextafter(near, F(-np.inf)), more]
        )


@pytest.mark.conformance("lower", "fuse", "emit")
@pytest.mark.parametrize("name", HALVES)
def test_conversions(seam, name):
    half, dtype = HALVES[name], dt.DTYPES[name]
    every = np.arange(1 << 16, dtype=np.uint16).view(half)
    wide = floats_around(half)

    def function(c, x, y):
        there = c.cast(y, dtype)
        return c.cast(x, dt.float32), there, c.cast(there, dt.float32)

    with np.errstate(all="ignore"):
        wants = every.astype(F), wide.astype(half), wide.astype(half).astype(F)
        for way, outputs in run_every_way(seam, trace(function, every, wide), [every, wide]).items():
            np.testing.assert_array_equal(outputs[0], wants[0], err_msg=way)
            same_halves(outputs[1], wants[1], way)
            np.testing.assert_array_equal(outputs[2], wants[2], err_msg=way)


X = RNG.standard_normal((5, 300)).astype(F)
PROGRAMS = {  # in c; the same in float32, of which the result is rounded; kernels
    "product": (lambda c, x, y: c.mul(x, y), lambda x, y: x * y),
    "rows": (lambda c, x, y: c.sub(x, c.amax(x, (1,), True)), lambda x, y: x - x.max(1, keepdims=True)),
    "sums": (lambda c, x, y: c.sum(c.abs(x), (0,)), lambda x, y: np.abs(x).sum(0, dtype=np.float64)),
    "joined": (lambda c, x, y: c.cat([c.neg(x), y], 1), lambda x, y: np.concatenate([-x, y], 1)),
    "padded": (lambda c, x, y: c.constant_pad(x, ((1, 0), (0, 3)), 2.0),
               lambda x, y: np.pad(x, ((1, 0), (0, 3)), constant_values=2.0)),
    "picked": (lambda c, x, y: c.gather(x, 1, c.cast(c.gt(y, 0.0), dt.int64)),
               lambda x, y: np.take_along_axis(x, (y > 0).astype(int), 1)),
    "transposed": (lambda c, x, y: c.reshape(c.permute(x, (1, 0)), (20, 75)), lambda x, y: x.T.reshape(20, 75)),
    "filled": (lambda c, x, y: c.where(c.gt(x, y), x, 0.25), lambda x, y: np.where(x > y, x, F(0.25))),
}  # fmt: skip


@pytest.mark.conformance("lower", "fuse", "emit")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rounded_once(seam, name, half):
    function, in_float32 = PROGRAMS[name]
    x, y = X.astype(HALVES[half]), X[::-1].astype(HALVES[half])
    want = in_float32(x.astype(F), y.astype(F)).astype(F).astype(HALVES[half])
    graph = trace(function, x, y)
    for way, outputs in run_every_way(seam, graph, [x, y]).items():
        same_halves(outputs[0], want, way)
    program = seam("fuse")(seam("lower")(graph))
    assert len(program.kernels) == 1 and not [s for s in program.steps if hasattr(s, "target")]
    seam("emit")(program, TRITON)


def operators(dtype):
    """Every operator that nests compute in halves, on halves; of pairs, all with all."""
    for name in pointwise.UNARY:
        if pointwise.legal(name, "float32") and name != "rsqrt":  # eager rounds its root as well
            yield name, ("x",)
    for name in pointwise.BINARY:
        if pointwise.legal(name, "float32"):
            yield name, ("x", "y")
            yield name, ("x", 0.3)


@pytest.mark.conformance("lower", "fuse", "emit")
@pytest.mark.parametrize("half", HALVES)
def test_every_operator_gives_eagers_bits(seam, half):
    """Computed in float32 and rounded; where float32 functions differ in their last bits, one bit of a half at most."""
    from stage0_eager.kernels.eager import eager_kernel

    values = np.array(
        [0.0, -0.0, 1, -1, 0.5, -2.5, 3.1, 700, -700, 1e-3, 3e4, np.inf, -np.inf, np.nan, 1e-7], F
    )
    values = values.astype(HALVES[half])
    arrays = {"x": np.repeat(values, len(values)), "y": np.tile(values, len(values))}
    calls = list(operators(half))

    def function(c, x, y):
        nodes = {"x": x, "y": y}
        return [getattr(c, name)(*[nodes.get(o, o) for o in operands]) for name, operands in calls]

    every = run_every_way(seam, trace(function, *arrays.values()), list(arrays.values()))
    with np.errstate(all="ignore"):
        for k, (name, operands) in enumerate(calls):
            want = np.asarray(eager_kernel(name)(np, *[arrays.get(o, o) for o in operands]))
            for way, outputs in every.items():
                got = np.asarray(outputs[k])
                if name in ("maximum", "minimum"):  # which of two zeros is not said
                    got, want = got + got.dtype.type(0), want + want.dtype.type(0)
                if name in ULPS or want.dtype.kind == "b":
                    far = np.abs(ordered(got) - ordered(want)) if want.dtype.kind != "b" else got ^ want
                    nan = np.isnan(want.astype(F))
                    np.testing.assert_array_equal(np.isnan(got.astype(F)), nan, err_msg=f"{name} {way}")
                    assert far[~nan].max() <= 1 - (want.dtype.kind == "b"), f"{name} {operands} {way}"
                else:
                    same_halves(got, want, f"{name} {operands} {way}")


def ordered(half):
    """The number of the half, counted from the smallest: neighbours differ by 1."""
    number = bits(half).astype(int)
    return np.where(number < 1 << 15, number, (1 << 15) - number)


def test_a_nan_stays_one(seam):
    """Of float32's NaNs, those whose rounding would carry into the sign: casts of them, and what is made of casts."""
    x = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7FFF8000, 0x7FC00000], np.uint32).view(F)

    def function(c, x):
        y = c.cast(x, dt.bfloat16)
        return y, c.mul(c.add(y, 1.0), 2.0), c.cast(c.cast(c.mul(x, 2.0), dt.bfloat16), dt.float32)

    for way, outputs in run_every_way(seam, trace(function, x), [x]).items():
        assert all(np.isnan(np.asarray(o).astype(F)).all() for o in outputs), way


def test_what_is_left_to_eager(seam):
    x, wide = X.astype(np.float16), X.astype(np.float64)
    graph = trace(lambda c, x, y: (c.remainder(x, 0.3), c.cast(y, dt.float16)), x, wide)
    for outputs in run_every_way(seam, graph, [x, wide]).values():
        same_halves(outputs[1], wide.astype(np.float16))


def near_ties(half):
    """float64 numbers a hair above, below and on the middle between a half and the next."""
    x = X.astype(HALVES[half]).astype(np.float64)
    x = x[np.isfinite(x) & (x != 0)][:40]
    middle = x * (1 + 2.0 ** (-11 if half == "float16" else -8) / 2)
    return np.concatenate([x * (1 + 1e-3), middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40)])


@pytest.mark.parametrize("half", HALVES)
def test_a_float64_number_meets_halves_in_a_kernel(seam, half):
    """An optimizer's step size and momentum: eager's bits. A product reads the number itself; where needs it as a half."""
    x = X.astype(HALVES[half])

    def step(c, p, m, g, momentum, lr):
        moved = c.add(c.mul(m, momentum), g)
        return c.sub(p, c.mul(moved, lr)), moved, c.where(c.lt(p, 0.0), momentum, g)

    def eager(node, args, kwargs):
        return eager_kernel(node.target.name)(np, *args, **kwargs)

    for number, momentum in enumerate(near_ties(half)):
        arrays = [x, x[::-1].copy(), x * x, np.array(momentum), np.array(momentum / 3)]
        if not number:
            graph = trace(step, *arrays)
            lowered = seam("lower")(graph)
        found = {"nests": interpret_lowered(lowered, arrays)}
        for way, outputs in (found if number else run_every_way(seam, graph, arrays)).items():
            for got, exact in zip(outputs, graph.interpret(arrays, eager), strict=True):
                same_halves(got, exact, way)
    called = [n.target for n in lowered.nodes if isinstance(n, ExternCall)]
    assert called == ["cast"] * (1 if half == "float16" else 0)


def norm_gradient(c, x, y, z, w):
    """As batch norm's backward behind a residual sum: a half that several readers want wide, and a small tensor."""
    g = c.where(c.le(x, 0.0), 0.0, c.add(y, z))
    wide = c.cast(g, dt.float32)
    unit = c.mul(c.sub(c.cast(x, dt.float32), c.cast(w, dt.float32)), c.rsqrt(c.cast(c.abs(w), dt.float32)))
    plain, along = c.sum(wide, (0,), True), c.sum(c.mul(wide, unit), (0,), True)
    rest = c.add(c.mul(plain, 0.125), c.mul(unit, c.mul(along, 0.125)))
    return c.cast(c.mul(c.sub(wide, rest), 2.0), x.val.dtype)


@pytest.mark.parametrize("half", HALVES)
def test_on_a_gpu_memory_holds_halves_and_not_their_float32(seam, half):
    arrays = [RNG.standard_normal((8, 40)).astype(HALVES[half]) for _ in range(3)]
    arrays.append(np.linspace(0.5, 2, 40).astype(HALVES[half]))
    lowered = {}
    for device in (Device("cpu"), Device("cuda", 0)):
        lowered[device.type] = seam("lower")(
            trace(norm_gradient, *(meta_of_array(a).with_(device=device) for a in arrays))
        )
    wide = {kind: [m for n, m in made.buffers.items() if m.dtype is dt.float32 and m.numel == 320]
            for kind, made in lowered.items()}  # fmt: skip
    assert not wide["cuda"]
    found = [interpret_lowered(made, arrays) for made in lowered.values()]
    for got, want in zip(*found, strict=True):
        same_halves(got, want)


@pytest.mark.parametrize("half", HALVES)
def test_in_triton(seam, half):
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    x, y = X.astype(HALVES[half]), X[::-1].astype(HALVES[half])
    for name in ("product", "rows", "padded"):
        function, in_float32 = PROGRAMS[name]
        program = seam("emit")(seam("fuse")(seam("lower")(trace(function, x, y))), TRITON)
        assert all("ld.global" in made["ptx"] for made in compile_to_ptx(program).values())
        want = in_float32(x.astype(F), y.astype(F)).astype(HALVES[half])
        got = run_in_interpreter(program, [x, y])[0]
        if half == "float16":
            same_halves(got, want, name)
        else:  # the interpreter cuts a float32's lower bits off where a GPU rounds
            assert np.abs(bits(got).astype(int) - bits(want).astype(int)).max() <= 1


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("number", [70_001.0, 1e-9, 1.00047, -0.33341, 70_001, 1e39])
def test_a_number_that_no_half_holds_stays_as_it_is(seam, half, number):
    """In every way a graph is run: the product and the quotient are rounded once. Another cast is not written."""
    x = X.astype(HALVES[half])

    def function(c, x):
        return c.mul(x, number), c.mul(number, x), c.div(x, number), c.div(number, x), c.add(x, number)

    with np.errstate(all="ignore"):
        wide, n = x.astype(F), F(number)
        exact = [wide * n, wide * n, wide / n, n / wide, wide + F(HALVES[half](number))]
        exact = [e.astype(HALVES[half]) for e in exact]
    graph = trace(function, x)
    for way, outputs in run_every_way(seam, graph, [x]).items():
        for got, want in zip(outputs, exact, strict=True):
            same_halves(got, want, way)
    casts = []
    for factor in (number, 0.5):
        (nest,) = seam("lower")(trace(lambda c, x, n=factor: c.mul(x, n), x)).nodes
        casts.append(sum(i.op == "cast" for i in nest.body))
    assert casts[0] == casts[1]
