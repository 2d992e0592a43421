"""Rows of open or uneven length in lanes: right at every length, no lane counts that is not active, the same bits.

Input: graphs over rows of an open size, each compiled once: without SIMD code, with that of every machine, and with all
that this machine has. And over rows of lengths that are known.
"""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_program
from stage3_lowering.tests import programs
from stage3_lowering.tests.cpp_runner import CLANG, FLAGS, build, run_cpp
from stage3_lowering.tests.graphs import CPP, assert_close, trace
from stage3_lowering.tests.test_stage3_open_sizes import SETTINGS
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

LEVELS = [FLAGS, FLAGS.replace("-O1", "-O3"), FLAGS.replace("-O1", "-O3 -march=native")]
LENGTHS = range(1, 201)
SPECIAL = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -3e38])


def open_rows(seam, function, *shapes, dtypes=(dt.float32,) * 9):
    """The program of a function of inputs whose shapes name the open sizes s and t."""
    env = ShapeEnv()
    sizes = {"s": env.dimension("s0", 5), "t": env.dimension("s1", 7, low=1)}
    metas = [TensorMeta([sizes[n] for n in shape], of) for shape, of in zip(shapes, dtypes, strict=False)]
    graph = trace(function, *metas)
    return graph, seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP), CPP)


def kernel_of(program):
    return (
        "".join(u.text for u in program.units).partition('extern "C" int64_t')[2].partition("// ---- run")[0]
    )


def reductions(c, x, y):
    """Each reduction that lanes run, alone and of what is computed, with a choice by a comparison."""
    chosen = c.where(c.gt(x, y), x, c.neg(y))
    return [
        c.sum(x, (1,), False), c.amax(x, (1,), False), c.amin(y, (1,), False), c.prod(x, (1,), False),
        c.sum(c.mul(x, y), (1,), False), c.sub(chosen, c.amax(chosen, (1,), True)),
    ]  # fmt: skip


def answers(x, y):
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        chosen = np.where(x > y, x, -y)
        return [
            wide.sum(1), x.max(1), y.min(1), wide.prod(1),
            (x * y).astype(np.float64).sum(1), chosen - chosen.max(1, keepdims=True),
        ]  # fmt: skip


@pytest.mark.conformance("lower", "fuse", "schedule", "emit", tier="full")
@pytest.mark.parametrize("flags", LEVELS)
@pytest.mark.parametrize("function", [programs.softmax, programs.layer_norm])
def test_every_length(seam, function, flags):
    """Also with NaN, infinities and zeros of both signs in some rows: in those alone."""
    rows = function is programs.layer_norm
    shapes = [("s", "t"), *[("t",)] * 2 * rows]
    graph, program = open_rows(seam, function, *shapes)
    assert kernel_of(program).count("in_lanes(") == 3
    of_numpy = programs.numpy_layer_norm if rows else programs.numpy_softmax
    for n in LENGTHS:
        rng = np.random.default_rng(n)
        arrays = [rng.standard_normal([{"s": 4, "t": n}[d] for d in shape], np.float32) for shape in shapes]
        arrays[0][1, n // 2] = SPECIAL[n % len(SPECIAL)]
        arrays[0][2, -1] = SPECIAL[n // 7 % len(SPECIAL)]
        with np.errstate(all="ignore"):
            want = of_numpy(*(a.astype(np.float64) for a in arrays))
            (eager,) = interpreter(graph)(*arrays)
        (got,) = run_cpp(program, arrays, flags=flags)
        np.testing.assert_allclose(got[[0, 3]], want[[0, 3]], rtol=1e-5, atol=1e-5, err_msg=str(n))
        np.testing.assert_allclose(got, eager, rtol=1e-5, atol=1e-5, err_msg=str(n))


@pytest.mark.conformance("lower", "fuse", "schedule", "emit", tier="full")
@pytest.mark.parametrize("flags", LEVELS)
@settings(max_examples=40, **SETTINGS)
@given(data=st.data())
def test_reductions(seam, flags, data):
    """Small integers and special values, so that NumPy's answer and the interpreter's are exact."""
    _, program = open_rows(seam, reductions, ("s", "t"), ("s", "t"))
    assert "in_lanes(" in kernel_of(program)
    s, n = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 200))
    values = st.sampled_from([np.nan, np.inf, -np.inf, -0.0, *[0.0, 1.0, -1.0, 2.0, -2.0] * 8])
    seed, places = data.draw(st.integers(0, 99)), data.draw(st.lists(st.integers(0, s * n - 1), max_size=3))
    arrays = np.random.default_rng(seed).choice(np.float32([1, -1, 2, 0.5]), (2, s, n))
    for place in places:
        arrays[data.draw(st.integers(0, 1)), place // n, place % n] = data.draw(values)
    got = run_cpp(program, list(arrays), flags=flags)
    for way in (answers(*arrays), interpret_program(program, list(arrays))):
        for found, wanted in zip(got, way, strict=True):
            assert_close(found, wanted, 4, str((s, n)), signed_zeros=False)


@pytest.mark.parametrize("flags", LEVELS)
def test_a_row_alone_is_read_and_written(seam, flags):
    """NaN stands on both sides of the row that is read, and of the one that is written nothing changes."""
    _, program = open_rows(seam, programs.softmax, ("s", "t"))
    ((name, kernel),) = program.kernels.items()
    call = getattr(build("".join(u.text for u in program.units), flags), name)
    call.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2
    for n in LENGTHS:
        given_, written = np.full(n + 64, np.nan, np.float32), np.full(n + 64, 7, np.float32)
        given_[32 : 32 + n] = np.random.default_rng(n).standard_normal(n)
        assert kernel.sizes == ("s0", "s1")
        call(given_[32:].ctypes.data, written[32:].ctypes.data, 1, n)
        assert (written[:32] == 7).all() and (written[32 + n :] == 7).all()
        np.testing.assert_allclose(written[32 : 32 + n].sum(), 1, rtol=1e-5)


@pytest.mark.skipif(CLANG, reason="clang's lanes call libmvec, the end of a loop the C library")
@pytest.mark.parametrize("name", ["exp", "tanh", "log", "erf", "sin", "sqrt"])
def test_an_element_has_the_same_bits_at_every_place(seam, name):
    """What is left of a row is computed as a whole vector is."""
    _, program = open_rows(seam, lambda c, x: c.sub(getattr(c, name)(x), c.amax(x, (1,), True)), ("s", "t"))
    assert "in_lanes(" in kernel_of(program)
    row = np.random.default_rng(0).uniform(0.1, 4, 64).astype(np.float32)
    row[0] = 4.5  # the largest, in each part of the row that begins with it
    (whole,) = run_cpp(program, [row[None]], flags=LEVELS[-1])
    for n in range(1, 64):
        (part,) = run_cpp(program, [row[None, :n].copy()], flags=LEVELS[-1])
        assert part.tobytes() == whole[:, :n].tobytes(), n


def test_a_sum_is_the_same_number_in_registers_of_every_width(seam):
    _, program = open_rows(seam, lambda c, x: c.sum(c.mul(x, x), (1,), False), ("s", "t"))
    for n in (1, 15, 69, 96, 200, 1000):
        x = np.random.default_rng(n).standard_normal((50, n), np.float32)
        bits = {run_cpp(program, [x], flags=flags)[0].tobytes() for flags in LEVELS}
        assert len(bits) == 1, n


# Calls a kernel with a denormal number in each register, and says whether the processor met one as an operand.
AFTER_DENORMALS = """
#define FILL(k) "vbroadcastss %0, %%zmm" #k "\\n"
#define TEN(k) FILL(k##0) FILL(k##1) FILL(k##2) FILL(k##3) FILL(k##4) FILL(k##5) FILL(k##6) FILL(k##7) FILL(k##8) FILL(k##9)
extern "C" int meets_denormals(float* const* buffers, int64_t s, int64_t t) {
    const float denormal = 1e-39f;
    unsigned flags = 0x1F80;  // none met, and none is an exception
    asm volatile("ldmxcsr %1\\n" TEN() TEN(1) TEN(2) FILL(30) FILL(31) : : "m"(denormal), "m"(flags));
    KERNEL(BUFFERS, s, t);
    asm volatile("stmxcsr %0" : "=m"(flags));
    return flags >> 1 & 1;
}
"""
CPUS = Path("/proc/cpuinfo")


def products(c, x, y):
    return c.mul(c.mul(x, c.sum(c.mul(x, y), (1,), True)), c.mul(y, c.amax(x, (1,), True)))


@pytest.mark.skipif(not CPUS.exists() or "avx512f" not in CPUS.read_text(), reason="sets AVX-512's registers")
@pytest.mark.parametrize("function", [programs.softmax, programs.layer_norm, products])
def test_lanes_that_are_not_active_compute_with_zeros(seam, function):
    """Not with what other kernels left in the registers: a denormal number there takes a hundred cycles."""
    shapes = {programs.softmax: "m", programs.layer_norm: "mvv", products: "mm"}[function]
    _, program = open_rows(seam, function, *({"m": ("s", "t"), "v": ("t",)}[kind] for kind in shapes))
    ((name, kernel),) = program.kernels.items()
    words = {"KERNEL": name, "BUFFERS": ", ".join(f"buffers[{k}]" for k in range(len(kernel.params)))}
    text = "".join([*(u.text for u in program.units), *(f"#define {n} {w}\n" for n, w in words.items())])
    assert "in_lanes(" in kernel_of(program) and kernel.sizes == ("s0", "s1")
    call = build(text + AFTER_DENORMALS, LEVELS[-1]).meets_denormals
    call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    for n in (1, 15, 69, 145, 300):
        arrays = [np.random.default_rng(n).uniform(1, 2, (4, n)).astype(np.float32) for _ in kernel.params]
        buffers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        assert not call(buffers, 4, n), n


def padded(c, x, chosen):
    """The rows that are added are outside the memory of x."""
    rows = c.constant_pad(x, ((2, 1), (0, 0)), 0.5)
    return c.sub(rows, c.amax(rows, (1,), True))


def selected(c, x, chosen):
    return c.sub(c.where(chosen, x, c.neg(x)), c.amax(x, (1,), True))


@pytest.mark.parametrize("flags", LEVELS)
@pytest.mark.parametrize("function, loads", [(padded, "active[lane] && "), (selected, "active[lane] ? y[")])
def test_elements_under_a_mask_and_elements_that_are_one(seam, function, loads, flags):
    graph, program = open_rows(seam, function, ("s", "t"), ("s", "t"), dtypes=(dt.float32, dt.bool_))
    assert loads in kernel_of(program)
    for n in (1, 16, 45):
        x = np.random.default_rng(n).standard_normal((3, n), np.float32)
        (found,), (wanted,) = run_cpp(program, [x, x > 0.2], flags=flags), interpreter(graph)(x, x > 0.2)
        np.testing.assert_array_equal(found, wanted)


REFUSED = {
    "argmax": lambda c, x: c.argmax(x, 1, False),
    "positions": lambda c, x: c.sum(
        c.mul(x, c.cast(c.iota(x.val.shape[1], 0, 1, dt.int64, CPU), dt.float32)), (1,), False
    ),
    "fmod": lambda c, x: c.sum(c.fmod(x, 3.0), (1,), False),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_lanes_do_not_run_is_left_to_the_compiler(seam, case):
    graph, program = open_rows(seam, REFUSED[case], ("s", "t"))
    text = kernel_of(program)
    assert "in_lanes(" not in text
    for n in (1, 7, 33):
        x = (np.arange(3 * n, dtype=np.float32) * 7 % 11 - 5).reshape(3, n)
        for found, wanted in zip(run_cpp(program, [x]), interpreter(graph)(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("of", [dt.float64, dt.bfloat16, dt.float16, dt.int64], ids=lambda of: of.name)
def test_other_types_are_left_to_the_compiler(seam, of):
    def function(c, x):
        wide = c.cast(x, dt.float32) if of.itemsize == 2 else x
        return c.cast(c.sub(wide, c.amax(wide, (1,), True)), of)

    graph, program = open_rows(seam, function, ("s", "t"), dtypes=(of,))
    assert "in_lanes(" not in kernel_of(program)
    for n in (1, 7, 33):
        x = (np.arange(3 * n) * 7 % 11 - 5).reshape(3, n).astype(of.numpy)
        for found, wanted in zip(run_cpp(program, [x]), interpreter(graph)(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def fixed_rows(seam, function, *arrays):
    program = seam("lower")(trace(function, *arrays))
    return seam("emit")(seam("schedule")(seam("fuse")(program), CPP), CPP)


@pytest.mark.parametrize("flags", LEVELS[1:])
@pytest.mark.parametrize("n", [16, 17, 31, 32, 33, 63, 69, 100, 127, 129, 300])
def test_a_length_that_is_known(seam, n, flags):
    """Each place in a row has a special value once: what is left of a row counts as all of it does."""
    x, y = np.random.default_rng(n).choice(np.float32([1, -1, 2, 0.5]), (2, n + 3, n))
    for row in range(n):  # NaN, infinities, zeros: the answers are exact
        x[row, row] = y[row, -row] = SPECIAL[row % 5]
    program = fixed_rows(seam, reductions, x, y)
    assert "in_lanes(" in kernel_of(program)
    for found, wanted in zip(run_cpp(program, [x, y], flags=flags), answers(x, y), strict=True):
        assert_close(found, wanted, 4, str(n), signed_zeros=False)


@pytest.mark.parametrize(
    "n, lanes", [(8, False), (15, False), (64, False), (96, False), (4096, False), (80, True)]
)
def test_a_short_or_even_row_is_a_plain_loop(seam, n, lanes):
    program = fixed_rows(seam, programs.softmax, np.zeros((5, n), np.float32))
    assert ("in_lanes(" in kernel_of(program)) is lanes
