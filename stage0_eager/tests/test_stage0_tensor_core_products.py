"""Products on tensor cores of a GPU: the call that cuBLAS gets, played on host memory from cuBLAS's own definition.

Input: random shapes, layouts and batches. The stand-in reads operands by address, operation, leading dimension and
stride, column-major, as the library does; so a wrong one of these is a wrong product.
"""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from stage0_eager.kernels.tensor_core_products import tensor_core_matmul

DTYPES = {
    2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16), 0: np.dtype(np.float32), 4: np.dtype(np.complex64),
}  # fmt: skip
F = np.float32
COMPUTE = {2: 68, 14: 68, 0: 77, 4: 77}  # halves in float32; float32 and its pairs as TF32


def strided_batched(handle, a_op, b_op, m, n, k, alpha, a, a_type, a_lead, a_step, b, b_type, b_lead, b_step,
                    beta, c, c_type, c_lead, c_step, count, compute, algorithm):  # fmt: skip
    """cublasGemmStridedBatchedEx with alpha 1 and beta 0."""
    assert {a_type, b_type} == {c_type} and (compute, algorithm) == (COMPUTE[c_type], -1)
    number = ctypes.c_float * (2 if c_type == 4 else 1)  # of the type of what is added up
    assert number.from_address(alpha)[0] == 1 and not any([*number.from_address(alpha)][1:])
    assert not any(number.from_address(beta))
    wide = np.complex64 if c_type == 4 else F

    def matrix(at, kind, lead, step, number, rows, columns):
        assert lead >= rows
        size = lead * (columns - 1) + rows
        itemsize = DTYPES[kind].itemsize
        raw = (ctypes.c_uint8 * (itemsize * size)).from_address(at + itemsize * step * number)
        flat = np.frombuffer(raw, np.uint8).view(DTYPES[kind])
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (itemsize, itemsize * lead))

    for number in range(count):
        left = matrix(a, a_type, a_lead, a_step, number, *((k, m) if a_op else (m, k)))
        right = matrix(b, b_type, b_lead, b_step, number, *((n, k) if b_op else (k, n)))
        left, right = (left.T if a_op else left), (right.T if b_op else right)
        out = matrix(c, c_type, c_lead, c_step, number, m, n)
        out[...] = (left.astype(wide) @ right.astype(wide)).astype(DTYPES[c_type])


class Array(np.ndarray):
    @property
    def data(self):
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


@pytest.fixture
def cupy(monkeypatch):
    for name in ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["cupy_backends.cuda.libs"].cublas = SimpleNamespace(gemmStridedBatchedEx=strided_batched)
    return SimpleNamespace(
        empty=lambda shape, dtype: np.empty(shape, dtype).view(Array),
        ascontiguousarray=lambda a: np.ascontiguousarray(a).view(Array),
        broadcast_to=np.broadcast_to,
        cuda=SimpleNamespace(device=SimpleNamespace(get_cublas_handle=lambda: 0)),
    )


def operand(rng, shape, dtype):
    """Random values in a random layout: dense, permuted, with gaps, by columns."""
    a = rng.standard_normal([10] * len(shape)).astype(F)
    a = (a * (1 + 2j) if dtype == np.complex64 else a).astype(dtype).transpose(rng.permutation(len(shape)))
    a = a[
        tuple(
            slice(0, n * step, step) for n, step in zip(shape, rng.choice([1, 1, 2], len(shape)), strict=True)
        )
    ]
    if rng.random() < 0.5:
        a = np.ascontiguousarray(a)
    elif a.ndim > 1 and rng.random() < 0.5:
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    return a.view(Array)


@pytest.mark.parametrize("seed", range(4))
def test_random_products(cupy, seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        dtype = DTYPES[rng.choice([2, 14, 0, 4])]
        batch = rng.integers(1, 4, rng.integers(0, 3))
        m, k, n = rng.integers(rng.choice([0, 1, 1, 1]), 5, 3)
        left = [*(b if rng.random() < 0.8 else 1 for b in batch), m, k][
            int(rng.random() < 0.1) * (len(batch) + 1) :
        ]
        right = [*(b if rng.random() < 0.8 else 1 for b in batch[rng.integers(0, len(batch) + 1) :]), k, n]
        right = right[-2:-1] if rng.random() < 0.1 else right
        x, y = operand(rng, left, dtype), operand(rng, right, dtype)
        wide = np.complex64 if dtype == np.complex64 else F
        want = np.matmul(x.astype(wide), y.astype(wide)).astype(dtype)
        got = tensor_core_matmul(cupy, x, y)
        assert got.shape == want.shape and got.dtype == dtype
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=2e-2, atol=2e-2)
