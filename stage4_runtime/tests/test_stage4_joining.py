"""cat by one launch: the table that the kernel gets, carried out here, gives what NumPy's concatenate gives.

Input: parts of whole buffers and pieces of them, empty ones, and what is no copy of whole pieces. test_stage0_copies.py
runs the kernel itself.
"""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager.kernels.copies import CHUNK
from stage4_runtime.runtime import joining
from stage_contracts.device import Device
from stage_contracts.dtype import float16, float32
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Program, Return
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda", 0)


def program(parts, out, dim=0, dtype=float32):
    """`parts`: (shape of the buffer, what of it is taken as (shape, strides, offset) or None)."""
    metas = {f"x{k}": TensorMeta(shape, dtype, None, CUDA) for k, (shape, _) in enumerate(parts)}
    refs = [BufferRef(f"x{k}", *(taken or (None, None, 0))) for k, (_, taken) in enumerate(parts)]
    buffers = {name: Buffer(name, meta, "input") for name, meta in metas.items()}
    buffers["out"] = Buffer("out", TensorMeta(out, float32, None, CUDA), "output")
    step = External("cat", (refs, dim), {}, ("out",), True)
    return step, Program("p", CUDA, tuple(metas), buffers, {}, (step, Return((BufferRef("out"),))))


def carried_out(table, blocks, pairs):
    """What the kernel does: each block a chunk of its pair."""
    first, to, source, nbytes = np.asarray(table).reshape(4, pairs)
    for block in range(blocks):
        pair = np.searchsorted(first, block, side="right") - 1
        begin = (block - first[pair]) * CHUNK
        size = min(CHUNK, nbytes[pair] - begin)
        ctypes.memmove(int(to[pair] + begin), int(source[pair] + begin), int(size))


@pytest.mark.parametrize("dim", [0, -1])
def test_parts_lie_one_behind_the_other(monkeypatch, dim):
    uploads = []
    monkeypatch.setattr(joining, "copy_table", carried_out)
    cp = SimpleNamespace(asarray=lambda table: uploads.append(table) or table)
    parts = [((5000,), None), ((7,), ((3,), (1,), 2)), ((0,), None), ((90, 100), ((9000,), (1,), 0))]
    step, whole = program(parts, (14003,), dim)
    call = joining.cat_call(step, whole, cp)
    arrays = [np.random.default_rng(k).random(shape).astype(np.float32) for k, (shape, _) in enumerate(parts)]
    out = np.zeros(14003, np.float32)
    places = [a.ctypes.data for a in (*arrays, out)]
    for _ in range(2):
        call(0, *places)
    want = np.concatenate([arrays[0], arrays[1][2:5], arrays[2], arrays[3].reshape(-1)])
    np.testing.assert_array_equal(out, want)
    assert len(uploads) == 1  # the second call has the same addresses


TURNED = ((4, 3), (1, 4), 0)


@pytest.mark.parametrize(
    ("parts", "out", "dim", "dtype"),
    [
        ([((3, 4), None), ((3, 4), None)], (3, 8), 1, float32),  # rows alternate
        ([((3, 4), TURNED), ((4, 3), None)], (8, 3), 0, float32),  # no piece of memory
        ([((4,), None), ((4,), None)], (8,), 0, float16),  # another dtype than the result's
    ],
)
def test_what_is_no_copy_of_pieces_is_left_to_the_eager_kernel(parts, out, dim, dtype):
    assert joining.cat_call(*program(parts, out, dim, dtype), None) is None


def test_leading_dimensions_of_one_do_not_matter():
    step, whole = program([((1, 3, 2), None), ((1, 1, 2), None)], (1, 4, 2), 1)
    assert joining.parts_of(step, whole) == [(0, 24), (0, 8)]
