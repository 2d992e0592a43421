"""The blocks of Triton kernels: rows, columns, tiles, two levels; each right in the interpreter, and compiled for GPUs.

Input: a table of programs at sizes where each rule applies, and random programs with small blocks (triton_fuzz.py).
On the tree before there were such blocks `triton_fuzz --seed 0 --programs 60` finds a running sum along a row longer
than a block (seeds 8, 38, 45 and 51: GraphError, "not written for Triton"). Beside the blocks, before a kernel that
keeps rows inside had to hold them whole, `--seed 0 --programs 60` found one that did not (seed 27 of that day).
"""

import importlib.util

import numpy as np
import pytest

from stage3_lowering.lowering.triton_blocks import COLUMN_BLOCK, COLUMNS, TILE, blocks_of
from stage3_lowering.lowering.triton_ops import LONG_CODE
from stage3_lowering.tests import programs
from stage3_lowering.tests.graphs import TRITON, results, trace
from stage3_lowering.tests.triton_fuzz import run_one
from stage_contracts.dtype import float32
from stage_contracts.tensor_meta import TensorMeta

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
F = np.float32
RNG = np.random.default_rng(5)


def values(*shape):
    return RNG.standard_normal(shape).astype(F)


def best_of_row(c, x, at):
    """What a cross entropy is made of: a row's largest, the sum of what is left, and one element of the row."""
    low = c.sub(x, c.amax(x, (1,), True))
    total = c.log(c.sum(c.exp(low), (1,), True))
    return c.sub(c.gather(low, 1, at), total)


def numpy_best_of_row(x, at):
    low = x - x.max(1, keepdims=True)
    return np.take_along_axis(low, at, 1) - np.log(np.exp(low).sum(1, keepdims=True))


SIGNS = np.where(values(2, 33000) < 0, F(-1), F(1))
FALLING = (
    np.round(values(2, 33000) * 4) - np.arange(33000, dtype=F) // 100
)  # equal ones, and NaN from a place on
FALLING[1, 20000:20002] = np.nan

# name: (function, arrays, NumPy's answer in float64, (kernels, XBLOCK, RBLOCK, whether rows are whole) of the first)
ROWS = {
    "a row in registers": (programs.softmax, [values(2, 8192)], programs.numpy_softmax, (1, 1, 8192, True)),
    "a row in parts": (programs.softmax, [values(2, 40000)], programs.numpy_softmax, (1, 1, 4096, False)),
    "a gather beside a row in parts": (
        best_of_row, [values(2, 40000), np.array([[39999], [-1]])], numpy_best_of_row, (1, 1, 4096, False),
    ),
    "columns": (
        lambda c, x: c.sum(x, (0,)), [values(40, 8704)], lambda x: x.sum(0), (1, COLUMNS, COLUMN_BLOCK, False)
    ),
    "few columns": (lambda c, x: c.sum(x, (0,)), [values(100, 96)], lambda x: x.sum(0), (1, 8, 128, True)),
    "columns in two levels": (
        lambda c, x: c.mul(c.sum(c.mul(x, x), (0,)), 0.5), [values(1024, 96)], lambda x: (x * x).sum(0) / 2,
        (2, 8, 128, True),
    ),
    "everything, in two levels": (
        lambda c, x: c.sum(c.mul(x, x), (0, 1)), [values(64, 1024)], lambda x: (x * x).sum(), (2, 1, 2048, True)
    ),
    "an outer product's sum": (
        lambda c, x, y: c.sum(c.mul(c.reshape(x, (37, 8, 1)), c.reshape(y, (37, 1, 16))), (1, 2)),
        [values(37, 8), values(37, 16)], lambda x, y: x.sum(1) * y.sum(1), (1, 8, 128, True),
    ),
    "many outer products' sums": (
        lambda c, x, y: c.sum(c.mul(c.reshape(x, (4096, 4, 1)), c.reshape(y, (4096, 1, 8))), (1, 2)),
        [values(4096, 4), values(4096, 8)], lambda x, y: x.sum(1) * y.sum(1), (1, 2, 32, True),
    ),
    "three axes, each value along one": (
        lambda c, x, y, z: c.sum(c.mul(c.mul(c.reshape(x, (5, 4, 1, 1)), c.reshape(y, (1, 1, 2, 1))), z), (1, 2, 3)),
        [values(5, 4), values(2), values(8)], lambda x, y, z: x.sum(1) * y.sum() * z.sum(), (1, 8, 64, True),
    ),
    "a transposition": (
        lambda c, x, y: c.add(c.permute(x, (1, 0)), y), [values(100, 130), values(130, 100)],
        lambda x, y: x.T + y, (1, TILE, TILE, False),
    ),
    "a transposition inside": (
        lambda c, x, y: c.add(c.permute(x, (0, 2, 1)), y), [values(3, 64, 128), values(3, 128, 64)],
        lambda x, y: x.transpose(0, 2, 1) + y, (1, TILE, TILE, False),
    ),
    "a running sum in registers": (
        lambda c, x: c.cumsum(x, 1), [values(3, 1000)], lambda x: x.cumsum(1), (1, 1, 1024, True)
    ),
    "a running sum in parts": (
        lambda c, x: c.cumsum(x, 1), [values(2, 33000)], lambda x: x.cumsum(1), (1, 1, 4096, False)
    ),
    "running sums of columns": (
        lambda c, x: c.cumsum(x, 0), [values(130, 70)], lambda x: x.cumsum(0), (1, 8, 256, True)
    ),
    "a running product in registers": (
        lambda c, x: c.cumprod(x, 1), [SIGNS[:, :1000]], lambda x: x.cumprod(1), (1, 1, 1024, True)
    ),
    "a running product in parts": (
        lambda c, x: c.cumprod(x, 1), [SIGNS], lambda x: x.cumprod(1), (1, 1, 4096, False)
    ),
    "a running minimum in registers": (
        lambda c, x: results(c.cummin(x, 1))[0], [FALLING[:, :1000]], lambda x: np.minimum.accumulate(x, 1), (1, 1, 1024, True)
    ),
    "a running minimum in parts": (
        lambda c, x: results(c.cummin(x, 1))[0], [FALLING], lambda x: np.minimum.accumulate(x, 1), (1, 1, 4096, False)
    ),
    "places of a running maximum in parts": (
        lambda c, x: results(c.cummax(x, 1))[1], [-FALLING], lambda x: np.maximum.accumulate(np.where(
            (x >= np.maximum.accumulate(x, 1)) | np.isnan(x), np.arange(x.shape[1]), 0), 1), (1, 1, 4096, False)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_each_way_to_cut_a_kernel(seam, name):
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    function, arrays, numpy, (kernels, *blocks) = ROWS[name]
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), TRITON)
    made = blocks_of(next(iter(program.kernels.values())))
    assert len(program.kernels) == kernels
    assert [made.xblock, made.rblock, made.whole_row] == blocks
    program = seam("emit")(program, TRITON)
    assert ("_alone" in program.units[0].text) == ("outer product" in name or "along one" in name)
    (got,) = run_in_interpreter(program, arrays)
    wide = [a.astype(np.float64) if a.dtype == F else a for a in arrays]
    np.testing.assert_allclose(got, numpy(*wide), rtol=2e-5, atol=5e-4)
    for arch in (
        (80, 90, 100) if name in ("columns in two levels", "a gather beside a row in parts") else (90,)
    ):
        assert all(f".target sm_{arch}" in made["ptx"] for made in compile_to_ptx(program, arch).values())


LONG_ROWS = {
    "a sine of a held row": (lambda c, x: c.sum(c.sin(x), (1,)), (8, 5000)),
    "a longer one": (lambda c, x: c.sum(c.sin(x), (1,)), (8, 12000)),
    "a power of everything": (lambda c, x: c.sum(c.pow(x, x), (0, 1)), (90, 90)),
    "a cosine across": (lambda c, x: c.add(c.cos(x), c.permute(x, (1, 0))), (300, 300)),
    "sums of columns": (lambda c, x: c.sum(c.tan(x), (0,)), (5000, 64)),
}


@pytest.mark.parametrize("name", LONG_ROWS)
def test_a_lane_takes_few_elements_of_long_code(seam, name):
    """Written out 32 times in a lane, such a function made ptxas give wrong code (random program 7467 on an H200)."""
    function, shape = LONG_ROWS[name]
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, values(*shape)))), TRITON)
    long = [k for k in program.kernels.values() if any(LONG_CODE.intersection(n.ops) for n in k.nests)]
    assert long
    for blocks in map(blocks_of, long):
        assert blocks.xblock * max(blocks.rblock, 1) <= 16 * 32 * blocks.warps


@pytest.mark.parametrize(("rows", "columns", "wide"), [(4096, 1 << 20, True), (4096, 1 << 10, False)])
def test_a_row_across_a_tensor_of_more_than_32_bits(seam, rows, columns, wide):
    """`1048576*r0` overflowed where r0 had 32 bits, though the place of the columns had 64."""
    program = trace(lambda c, x: c.sum(x, (0,)), TensorMeta((rows, columns), float32))
    program = seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(program)), TRITON), TRITON)
    lines = [line for unit in program.units for line in unit.text.splitlines() if "r0 = " in line]
    assert lines and all((".to(tl.int64)" in line) is wide for line in lines if "RBLOCK" in line)


def test_a_bad_index_stops_the_device(seam):
    """In the kernel's PTX: the call that a failed assertion makes."""
    from stage3_lowering.triton_interpreter import compile_to_ptx

    x, at = values(4, 8), np.zeros((4, 1), np.int64)
    program = seam("emit")(
        seam("fuse")(seam("lower")(trace(lambda c, x, at: c.gather(x, 1, at), x, at))), TRITON
    )
    (made,) = compile_to_ptx(program).values()
    assert "__assertfail" in made["ptx"]


def test_blocks_that_fit_need_no_mask(seam):
    program = seam("emit")(seam("fuse")(seam("lower")(trace(programs.softmax, values(64, 128)))), TRITON)
    assert "mask" not in program.units[0].text


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_random_programs_with_small_blocks(seed):
    found = [said for said in map(run_one, range(seed, seed + 12)) if said]
    assert not found, "\n".join(found)
