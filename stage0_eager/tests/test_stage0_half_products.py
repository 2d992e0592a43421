"""Products of halves on a GPU: the call that cuBLAS gets, played on host memory from cuBLAS's own definition.

Input: random shapes, layouts and batches. The stand-in reads operands by address, operation, leading dimension and
stride, column-major, as the library does; so a wrong one of these is a wrong product.
"""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from stage0_eager.kernels.half_products import half_matmul

DTYPES = {2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
F = np.float32


def strided_batched(handle, a_op, b_op, m, n, k, alpha, a, a_type, a_lead, a_step, b, b_type, b_lead, b_step,
                    beta, c, c_type, c_lead, c_step, count, compute, algorithm):  # fmt: skip
    """cublasGemmStridedBatchedEx with alpha 1 and beta 0."""
    assert (compute, algorithm) == (68, -1)
    assert ctypes.c_float.from_address(alpha).value == 1 and ctypes.c_float.from_address(beta).value == 0

    def matrix(at, kind, lead, step, number, rows, columns):
        assert lead >= rows
        size = lead * (columns - 1) + rows
        raw = (ctypes.c_uint16 * size).from_address(at + 2 * step * number)
        flat = np.frombuffer(raw, np.uint16).view(DTYPES[kind])
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (2, 2 * lead))

    for number in range(count):
        left = matrix(a, a_type, a_lead, a_step, number, *((k, m) if a_op else (m, k)))
        right = matrix(b, b_type, b_lead, b_step, number, *((n, k) if b_op else (k, n)))
        left, right = (left.T if a_op else left), (right.T if b_op else right)
        out = matrix(c, c_type, c_lead, c_step, number, m, n)
        out[...] = (left.astype(F) @ right.astype(F)).astype(DTYPES[c_type])


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
    a = rng.standard_normal([10] * len(shape)).astype(F).astype(dtype).transpose(rng.permutation(len(shape)))
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
        dtype = DTYPES[rng.choice([2, 14])]
        batch = rng.integers(1, 4, rng.integers(0, 3))
        m, k, n = rng.integers(rng.choice([0, 1, 1, 1]), 5, 3)
        left = [*(b if rng.random() < 0.8 else 1 for b in batch), m, k][
            int(rng.random() < 0.1) * (len(batch) + 1) :
        ]
        right = [*(b if rng.random() < 0.8 else 1 for b in batch[rng.integers(0, len(batch) + 1) :]), k, n]
        right = right[-2:-1] if rng.random() < 0.1 else right
        x, y = operand(rng, left, dtype), operand(rng, right, dtype)
        want = np.matmul(x.astype(F), y.astype(F)).astype(dtype)
        got = half_matmul(cupy, x, y)
        assert got.shape == want.shape and got.dtype == dtype
        np.testing.assert_allclose(got.astype(F), want.astype(F), rtol=2e-2, atol=2e-2)
