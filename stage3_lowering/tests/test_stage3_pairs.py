"""Loops over bfloat16 by pairs, and rows' extremes: eager's bits, of every length, on any machine.

Input: one program of many lengths each, built without SIMD code, with that of every machine, and with all that this
machine has. What a loop by pairs computes is held against NumPy in float32, rounded after every operator.
"""

import platform
import subprocess

import ml_dtypes
import numpy as np
import pytest

from stage3_lowering.lowering.cpp_ops import HELPERS
from stage3_lowering.tests.cpp_runner import CLANG, CXX, run_cpp
from stage3_lowering.tests.graphs import CPP, trace
from stage3_lowering.tests.test_stage3_half import ordered, same_halves
from stage3_lowering.tests.test_stage3_row_lanes import LEVELS
from stage_contracts import dtype as dt

BF16, F = ml_dtypes.bfloat16, np.float32
RNG = np.random.default_rng(30)
# all up to two vectors of halves and a pair; around three and four; blocks of a sum
LENGTHS = [*range(35), 47, 48, 49, *range(62, 67), 95, 96, 97, 128, 254, 256, 257, 384, 1000, 1024]
# NaN of both signs and with payloads, infinities, both zeros, the largest, the smallest normal, numbers below it
SPECIAL = [
    0x7FC0,
    0xFFC1,
    0x7F81,
    0x7FFF,
    0xFFFF,
    0x7F80,
    0xFF80,
    0,
    0x8000,
    0x7F7F,
    0xFF7F,
    0x80,
    0x8080,
    1,
    0x8001,
    0x7F,
    0x55,
]


def halves(*shape):
    """Numbers near 1, of which one in four is special; their products often lie between two halves."""
    bits = RNG.standard_normal(shape).astype(BF16).view(np.uint16)
    chosen = RNG.choice(np.array(SPECIAL, np.uint16), shape)
    return np.where(RNG.random(shape) < 0.25, chosen, bits).view(BF16)


def emitted(seam, function, *arrays):
    return seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP), CPP)


def kernels(program):
    return "".join(u.text for u in program.units).partition('extern "C"')[2].partition("// ---- run")[0]


def rounded(x):
    return np.asarray(x, F).astype(BF16).astype(F)


def chain(c, x, y):
    product = c.mul(x, y)
    moved = c.add(c.div(c.sub(product, x), y), 0.3)
    chosen = c.where(c.gt(moved, y), moved, c.neg(product))
    return product, chosen, c.sqrt(c.abs(chosen)), c.add(c.maximum(x, y), 0.0)


def chain_in_numpy(x, y):
    x, y = x.astype(F), y.astype(F)
    product = rounded(x * y)
    moved = rounded(rounded(rounded(product - x) / y) + rounded(F(0.3)))
    chosen = np.where(moved > y, moved, -product)
    return [r.astype(BF16) for r in (product, chosen, np.sqrt(np.abs(chosen)), np.maximum(x, y) + F(0))]


@pytest.mark.conformance("lower", "fuse", "schedule", "emit")
def test_elements_of_every_length(seam):
    arrays = [halves(n) for n in LENGTHS for _ in range(2)]
    pairs = list(zip(arrays[::2], arrays[1::2], strict=True))

    def every(c, *given):
        return [out for x, y in zip(given[::2], given[1::2], strict=True) for out in chain(c, x, y)]

    with np.errstate(all="ignore"):
        want = [out for x, y in pairs for out in chain_in_numpy(x, y)]
    program = emitted(seam, every, *arrays)
    assert "cutaway::Pair" in kernels(program)
    for flags in LEVELS:
        for got, exact in zip(run_cpp(program, arrays, flags=flags), want, strict=True):
            same_halves(got, exact, f"{len(exact)} {flags}")


@pytest.mark.conformance("lower", "fuse", "schedule", "emit")
def test_every_product_of_two_halves_is_rounded_to_even(seam):
    """All mantissas with all, at exponents whose product is normal, below normal, lost, and infinite."""
    mantissas = np.arange(128, dtype=np.uint16)
    x = np.concatenate([mantissas | e << 7 for e in (0, 1, 60, 127, 254)]).astype(np.uint16)
    y = np.concatenate([mantissas | e << 7 for e in (1, 63, 66, 127, 190)]).astype(np.uint16)
    arrays = [np.repeat(x, len(y)).view(BF16), np.tile(y, len(x)).view(BF16)]
    with np.errstate(all="ignore"):
        want = (arrays[0].astype(F) * arrays[1].astype(F)).astype(BF16)
    program = emitted(seam, lambda c, x, y: c.mul(x, y), *arrays)
    for flags in LEVELS:
        same_halves(run_cpp(program, arrays, flags=flags)[0], want, flags)


def rows(c, x, w):
    """A row's extremes, and a sum of what the maximum is taken from."""
    kept = c.mul(c.sub(x, c.amax(x, (1,), True)), w)
    total = c.sum(kept, (1,), True)
    return c.div(kept, total), c.amin(x, (1,), False)


@pytest.mark.conformance("lower", "fuse", "schedule", "emit")
def test_rows_of_every_length(seam):
    """Whole numbers, so that every sum is exact; two rows of each length, of which one holds a NaN or infinities."""
    arrays = []
    for n in LENGTHS[1:]:
        x = RNG.integers(-8, 9, (3, n)).astype(BF16)
        x[1, RNG.integers(n)] = np.array(RNG.choice(SPECIAL[:7]), np.uint16).view(BF16)
        arrays += [x, RNG.integers(0, 2, n).astype(BF16)]

    def every(c, *given):
        return [out for x, w in zip(given[::2], given[1::2], strict=True) for out in rows(c, x, w)]

    want = []
    with np.errstate(all="ignore"):
        for x, w in zip(arrays[::2], arrays[1::2], strict=True):
            wide = x.astype(F)
            kept = rounded(rounded(wide - wide.max(1, keepdims=True)) * w.astype(F))
            total = rounded(kept.astype(np.float64).sum(1, keepdims=True))
            want += [(kept / total).astype(BF16), wide.min(1).astype(BF16)]
    program = emitted(seam, every, *arrays)
    for flags in LEVELS:
        for got, exact in zip(run_cpp(program, arrays, flags=flags), want, strict=True):
            same_halves(got, exact, f"{exact.shape} {flags}")


@pytest.mark.conformance("lower", "fuse", "schedule", "emit")
def test_a_row_between_two_passes_is_kept_as_halves(seam):
    """Softmax, of a length whose sums have no accumulators of 32. Exponentials may differ by their last bit of a float32, so what is made of them by one bit of a half."""
    x = (RNG.standard_normal((5, 110)) * 3).astype(BF16)
    x[3, 7], x[4, 9] = -np.inf, np.nan

    def softmax(c, x):
        e = c.exp(c.sub(x, c.amax(x, (1,), True)))
        return c.div(e, c.sum(e, (1,), True))

    with np.errstate(all="ignore"):
        wide = x.astype(F)
        e = rounded(np.exp(rounded(wide - wide.max(1, keepdims=True))))
        want = (e / rounded(e.astype(np.float64).sum(1, keepdims=True))).astype(BF16)
    program = emitted(seam, softmax, x)
    assert "uint16_t exp_bfloat16_row[110]" in kernels(program)
    for flags in LEVELS:
        (got,) = run_cpp(program, [x], flags=flags)
        assert np.isnan(got[4].astype(F)).all() and got[3, 7] == 0
        assert np.abs(ordered(got[:4]) - ordered(want[:4])).max() <= 1


X, W = halves(6, 64), halves(64)
WIDE = np.ones((6, 64), F)
# name: program, arrays, how many loops of its kernels run by pairs
LOOPS = {
    "elements": (lambda c, x: c.mul(x, 2.0), [X], 1),
    "two passes": (lambda c, x: c.sub(x, c.amax(x, (1,), True)), [X[:, :62].copy()], 2),
    "two passes, one with accumulators of 32": (lambda c, x: c.sub(x, c.amax(x, (1,), True)), [X], 1),
    "the exponential, which is inline": (lambda c, x: c.exp(x), [X], 1),
    "a function that is called": (lambda c, x: c.log(x), [X], 0),
    "an odd length": (lambda c, x: c.mul(x, 2.0), [X[:, :63].reshape(-1)[:63].copy()], 0),
    "float32 beside": (lambda c, x, y: c.add(c.cast(x, dt.float32), y), [X, WIDE], 0),
    "every second one": (lambda c, x: c.mul(c.slice(x, 0, 0, 64, 2), 2.0), [W], 0),
    "turned": (lambda c, x, y: c.mul(c.permute(x, (1, 0)), y), [halves(64, 6), X], 0),
    "sums over columns": (lambda c, x: c.sum(x, (0,), False), [X], 0),
    "float16": (lambda c, x: c.mul(x, 2.0), [WIDE.astype(np.float16)], 0),
    "running": (lambda c, x: c.cumsum(x, 1), [X], 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_which_loops_run_by_pairs(seam, name):
    function, arrays, count = LOOPS[name]
    assert kernels(emitted(seam, function, *arrays)).count("+= 2) {") == count


FLOATS = np.concatenate(
    [np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0xFF800001, 0xFFFFFFFF], np.uint32).view(F),
     F([np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 1e-38, 0.0, 1.5, -1.5])]
)  # fmt: skip


@pytest.mark.conformance("lower", "fuse", "schedule", "emit")
def test_a_rows_extremes(seam):
    """Of every length, with NaN of both signs anywhere and without; a row of negative zeros stays negative."""
    arrays = []
    for n in LENGTHS[1:]:
        some, numbers = RNG.choice(FLOATS, (6, n)), RNG.choice(FLOATS[5:], (6, n))
        arrays.append(
            np.concatenate([some, numbers, RNG.standard_normal((3, n)).astype(F), np.full((1, n), F(-0.0))])
        )

    def every(c, *given):
        return [e for x in given for e in (c.amax(x, (1,), False), c.amin(x, (1,), False))]

    program = emitted(seam, every, *arrays)
    for flags in LEVELS:
        found = run_cpp(program, arrays, flags=flags)
        for k, x in enumerate(arrays):
            for got, want in ((found[2 * k], x.max(1)), (found[2 * k + 1], x.min(1))):
                np.testing.assert_array_equal(got, want)
                assert np.signbit(got[-1])


NORM = """\
extern "C" void norm(const float* x, float* to) {
    for (long line = 0; line < 1024; line += 16) {
        float lines[16];
        #pragma omp simd
        for (long k = line; k < line + 16; ++k) lines[k - line] = x[k] * 2 + 1;
        cutaway::stream_lines(&to[line], lines);
    }
}
"""


@pytest.mark.skipif(CLANG or platform.machine() != "x86_64", reason="the instructions are x86's")
@pytest.mark.parametrize(("cpu", "register"), [("skylake-avx512", "zmm"), ("haswell", "ymm")])
def test_a_line_is_never_in_memory_before_it_is_written(tmp_path, cpu, register):
    """What the loop made is written from its registers: the only plain stores are of a result that no line begins."""
    helpers = f"#include <stdint.h>\nnamespace cutaway {{\n{HELPERS['stream_lines']}\n}}\n"
    (tmp_path / "norm.cpp").write_text(helpers + NORM)
    command = f"{CXX} -O3 -fopenmp -march={cpu} -mprefer-vector-width=512 -S -o - norm.cpp".split()
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert f"vmovntps\t%{register}" in text
    assert not [line for line in text.splitlines() if "vmov" in line and "(%rsp)" in line]
