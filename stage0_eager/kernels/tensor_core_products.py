"""Products on a GPU's tensor cores: cuBLAS multiplies halves, or what TF32 keeps of float32, and adds up in float32.

Input: CuPy arrays of one dtype. CuPy's own `matmul` has no bfloat16 there; it would cost two casts and a float32
product, ten times as long. Its float32 has no switch for a single call. cuBLAS is column-major, so the product is asked
for as y' x'.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_COMPUTE_32F, _COMPUTE_32F_FAST_TF32 = 68, 77
# dtype -> (cudaDataType, cublasComputeType)
_TYPES = {
    "float16": (2, _COMPUTE_32F),
    "bfloat16": (14, _COMPUTE_32F),
    "float32": (0, _COMPUTE_32F_FAST_TF32),
    "complex64": (4, _COMPUTE_32F_FAST_TF32),
}
_DEFAULT_ALGORITHM = -1
_ONE, _ZERO = (
    (ctypes.c_float * 2)(1, 0),
    (ctypes.c_float * 2)(0, 0),
)  # with an imaginary part, for complex products


def tensor_core_matmul(cp: Any, x: Any, y: Any) -> Any:
    """`x @ y`, as numpy.matmul; the result has the operands' dtype."""
    wide = x[None, :] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y
    (m, k), n = wide[0].shape[-2:], wide[1].shape[-1]
    batch = np.broadcast_shapes(wide[0].shape[:-2], wide[1].shape[:-2])
    out = cp.empty((*batch, m, n), x.dtype)
    if k == 0 or out.size == 0:
        out.fill(0)
    else:
        _multiply(cp, _laid_out(cp, wide[0], batch), _laid_out(cp, wide[1], batch), out)
    shape = (*batch, *((m,) if x.ndim > 1 else ()), *((n,) if y.ndim > 1 else ()))
    return out.reshape(shape)


def _multiply(cp: Any, x: Any, y: Any, out: Any) -> None:
    from cupy_backends.cuda.libs import cublas

    kind, compute = _TYPES[out.dtype.name]
    (m, k), n = x.shape[-2:], y.shape[-1]
    (x_op, x_lead), (y_op, y_lead) = _operation(x), _operation(y)
    cublas.gemmStridedBatchedEx(
        cp.cuda.device.get_cublas_handle(), y_op, x_op, n, m, k, ctypes.addressof(_ONE),
        y.data.ptr, kind, y_lead, _batch_stride(y), x.data.ptr, kind, x_lead, _batch_stride(x),
        ctypes.addressof(_ZERO), out.data.ptr, kind, n, m * n,
        out.size // (m * n), compute, _DEFAULT_ALGORITHM,
    )  # fmt: skip


def _laid_out(cp: Any, a: Any, batch: tuple) -> Any:
    """The operand as cuBLAS takes it: its matrices by rows or by columns, one stride from each to the next."""
    fits = _operation(a) is not None
    if fits and not any(n != 1 for n in a.shape[:-2]):  # one matrix for the whole batch
        return a.reshape(a.shape[-2:]) if a.ndim > 2 else a
    if not fits or _batch_stride(a) is None or a.shape[:-2] != batch:
        a = cp.ascontiguousarray(cp.broadcast_to(a, (*batch, *a.shape[-2:])))
    return a


def _operation(a: Any) -> Any:
    """(transposed?, leading dimension) of matrices by rows (as they are: cuBLAS sees columns) or columns; or None."""
    rows, columns = (s // a.itemsize for s in a.strides[-2:])
    m, n = a.shape[-2:]
    if (columns == 1 or n == 1) and (rows >= n or m == 1):
        return 0, max(rows, n) if m > 1 else n
    if (rows == 1 or m == 1) and (columns >= m or n == 1):
        return 1, max(columns, m) if n > 1 else m
    return None


def _batch_stride(a: Any) -> int | None:
    """Elements from one matrix to the next; 0 for a single one; None where they do not follow one stride."""
    sizes = [(n, s // a.itemsize) for n, s in zip(a.shape[:-2], a.strides[:-2], strict=True) if n != 1]
    if any(outer != n * inner for (_, outer), (n, inner) in zip(sizes, sizes[1:], strict=False)):
        return None
    return sizes[-1][1] if sizes else 0
