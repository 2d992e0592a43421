"""Products of float32 matrices as a GPU rounds them, in NumPy, whose own add up in blocks and show less.

Input: two matrices, and one to add to. A worker process that interprets Triton kernels (triton_worker.py) multiplies
with one of these, by its name; tests multiply with it what eager would.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
AT_ONCE = 8  # terms that a tensor core adds up exactly, before it cuts the sum off


def fma_chain(a: Array, b: Array, start: Array | float = 0.0) -> Array:
    """Term after term: one rounding for each, as a core's fused multiplication and addition has it."""
    return _in_parts(a, b, start, 1, lambda exact: exact.astype(np.float32))


def tensor_cores(a: Array, b: Array, start: Array | float = 0.0) -> Array:
    """A few terms at once, cut off toward zero."""
    return _in_parts(a, b, start, AT_ONCE, _cut_off)


def as_tf32(a: Array) -> Array:
    """The first 10 bits of each number."""
    return (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _in_parts(
    a: Array, b: Array, start: Array | float, size: int, rounded: Callable[[Array], Array]
) -> Array:
    a, b = a.astype(np.float64), b.astype(np.float64)
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1])
    total = np.broadcast_to(np.asarray(start, np.float32), shape)
    for k in range(0, a.shape[-1], size):
        total = rounded(total + a[..., k : k + size] @ b[..., k : k + size, :])
    return total


def _cut_off(exact: Array) -> Array:
    return (exact.view(np.uint64) & np.uint64(0xFFFFFFFFE0000000)).view(np.float64).astype(np.float32)


PRODUCTS = {f.__name__: f for f in (fma_chain, tensor_cores)}
