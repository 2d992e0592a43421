"""Transpositions whose tiles are turned in registers: NumPy's bits, whatever the dtype, the tails and the open sizes.

Input: programs of one kernel that read a matrix across its rows, at sizes around a tile's and a register's. The contents
are random bits of a fixed seed, so that what is only copied may be a NaN of any kind.
"""

import ml_dtypes
import numpy as np
import pytest

from stage3_lowering.lowering import emit, fuse, lower, schedule
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, trace
from stage3_lowering.tests.test_stage3_open_sizes import open_metas

RNG = np.random.default_rng(14)
DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float32", "float64", "float16", ml_dtypes.bfloat16)


def filled(dtype, *shape):
    """An array of random bits; of bools, of 0 and 1."""
    of = np.dtype(dtype)
    if of.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.integers(0, 256, (*shape[:-1], shape[-1] * of.itemsize), np.uint8).view(of).reshape(shape)


def numbers(*shape):
    return RNG.integers(-50, 50, shape).astype(np.float32)


def result_of(function, *arrays):
    """The kernel's schedule, its text and what it gives."""
    program = emit(schedule(fuse(lower(trace(function, *arrays))), CPP).verify(), CPP)
    (kernel,), (unit,) = program.kernels.values(), program.units
    return kernel.schedule, unit.text, run_cpp(program, arrays)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda of: np.dtype(of).name)
def test_a_copy_keeps_every_bit(dtype):
    for shape in ((32, 32), (33, 47), (64, 128), (150, 131)):
        x = filled(dtype, *shape)
        how, text, (got,) = result_of(lambda c, x: c.contiguous(c.permute(x, (1, 0))), x)
        assert how.turned and "cutaway::Turned<" in text
        assert got.tobytes() == np.ascontiguousarray(x.T).tobytes()


A, B, C = numbers(70, 90), numbers(90, 70), numbers(70, 90)
FOUR = numbers(413, 4)
BATCH, NHWC = numbers(3, 40, 5, 36), numbers(2, 6, 34, 37)
# name: program, inputs, what NumPy gives, how many loads are turned
CASES = {
    "with one that lies straight": (lambda c, x, y: c.add(c.permute(x, (1, 0)), y), [A, B], A.T + B, 1),
    "two of them": (lambda c, x, y: c.contiguous(c.add(c.permute(x, (1, 0)), c.permute(y, (1, 0)))), [A, C], (A + C).T, 2),
    "a matrix with itself": (lambda c, x: c.sub(c.permute(x, (1, 0)), x), [A[:, :70]], A[:, :70].T - A[:, :70], 1),
    "channels innermost": (lambda c, x: c.contiguous(c.permute(x, (0, 2, 3, 1))), [BATCH], BATCH.transpose(0, 2, 3, 1), 1),
    "channels outermost": (lambda c, x: c.contiguous(c.permute(x, (0, 3, 1, 2))), [NHWC], NHWC.transpose(0, 3, 1, 2), 1),
    "rows backwards": (lambda c, x: c.contiguous(c.permute(c.flip(x, (0,)), (1, 0))), [A], A[::-1].T, 1),
    "a part of it": (lambda c, x: c.contiguous(c.permute(c.slice(x, 0, 1, 68), (1, 0))), [A], A[1:68].T, 1),
    "every second column": (lambda c, x: c.contiguous(c.permute(c.slice(x, 1, 0, 90, 2), (1, 0))), [A], A[:, ::2].T, 0),
    "a row of it": (lambda c, x, y: c.add(c.permute(c.expand(c.slice(x, 0, 0, 1), (70, 90)), (1, 0)), y), [A, B], A[:1].T + B, 0),
    "behind a pad": (lambda c, x: c.constant_pad(c.permute(x, (1, 0)), ((0, 3), (1, 2)), 4.0), [A],
                     np.pad(A.T, ((0, 3), (1, 2)), constant_values=4.0), 0),
    "beside a pad": (lambda c, x, y: c.add(c.permute(x, (1, 0)), c.constant_pad(y, ((20, 0), (3, 17)), 4.0)),
                     [A, B[:70, :50]], A.T + np.pad(B[:70, :50], ((20, 0), (3, 17)), constant_values=4.0), 1),
    "short rows": (lambda c, x: c.contiguous(c.permute(x, (1, 0))), [A[:, :20]], A[:, :20].T, 1),
    "four channels": (lambda c, x: c.contiguous(c.permute(x, (1, 0))), [FOUR], FOUR.T, 1),
    "four channels, back": (lambda c, x: c.contiguous(c.permute(x, (1, 0))), [FOUR.T.copy()], FOUR, 1),
    "three channels": (lambda c, x: c.contiguous(c.permute(x, (1, 0))), [FOUR[:, :3]], FOUR[:, :3].T, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operands(name):
    function, arrays, wanted, turned = CASES[name]
    how, text, (got,) = result_of(function, *arrays)
    assert len(how.turned) == turned, how
    assert text.count("const cutaway::Turned<") == turned * (len(how.pieces[1]) - 1 if how.pieces else 1)
    np.testing.assert_array_equal(got, wanted)


def test_open_sizes_have_one_text():
    env, metas = open_metas("st", "ts")
    program = schedule(
        fuse(lower(trace(lambda c, x, y: c.add(c.permute(x, (1, 0)), y), *metas))), CPP
    ).verify()
    with_sizes = emit(program, CPP)
    assert with_sizes.units[-1].text.count("const cutaway::Turned<") == 1
    for s, t in ((1, 1), (0, 3), (64, 64), (65, 3), (7, 130), (129, 66)):
        x, y = numbers(s, t), numbers(t, s)
        (got,) = run_cpp(with_sizes, (x, y))
        np.testing.assert_array_equal(got, x.T + y)


def test_rows_of_a_table_turn_their_tiles_too():
    program = schedule(
        fuse(lower(trace(lambda c, *xs: tuple(c.contiguous(c.permute(x, (1, 0))) for x in xs), A, C, A))), CPP
    )
    (kernel,) = program.verify().kernels.values()
    assert kernel.rows == 3 and kernel.schedule.turned
    for got, x in zip(run_cpp(emit(program, CPP), (A, C, A)), (A, C, A), strict=True):
        np.testing.assert_array_equal(got, x.T)
