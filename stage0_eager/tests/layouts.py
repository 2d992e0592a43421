"""The layouts and edge values that the tests of kernels and metas walk.

Input: a dtype. Every layout holds small positive whole numbers, so that any dtype can hold them.
"""

import numpy as np

from stage_contracts import dtype as dt

DTYPES = [dt.DTYPES[n] for n in "bool uint8 int32 int64 float16 bfloat16 float32 float64".split()]
FLOATS = [d for d in DTYPES if d.is_floating_point]
INTEGERS = [d for d in DTYPES if d.category == dt.INTEGER]


def layouts(dtype):
    """Arrays by the name of their layout, all of the given dtype."""
    base = (np.arange(24).reshape(2, 3, 4) % 5 + 1).astype(dtype.numpy)
    return {
        "contiguous": base,
        "transposed": base.T,
        "permuted": base.transpose(1, 0, 2),
        "strided": base[:, :, ::2],
        "strided transposed": base.T[::2],
        "flipped": base[::-1, :, ::-1],
        "broadcast": np.broadcast_to(base[:, :1, :], (2, 3, 4)),
        "with a size of 1": base[:, :1, :],
        "first of two": base[::2][:1],
        "empty": base[:0],
        "empty transposed": base.T[:, :0],
        "0-d": np.array(base[0, 0, 0]),
    }


def edges(dtype):
    """Values at which arithmetic goes wrong."""
    if dtype is dt.bool_:
        return np.array([False, True])
    if dtype.category == dt.INTEGER:
        low, high = dtype.limits
        values = [low, low + 1, -3, -2, -1, 0, 1, 2, 3, 7, 31, 63, high - 1, high]
        return np.array([v for v in values if low <= v <= high], dtype.numpy)
    info = {"float16": (6e-8, 6.104e-05, 65504), "bfloat16": (9.2e-41, 1.1755e-38, 3.3895e38)}
    tiny, normal, large = info.get(dtype.name) or (
        np.finfo(dtype.numpy).smallest_subnormal, np.finfo(dtype.numpy).smallest_normal, np.finfo(dtype.numpy).max,
    )  # fmt: skip
    halves = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 100.0, float(large), float(tiny), float(normal), np.inf]
    return np.array([*halves, *(-v for v in halves), 0.0, -0.0, np.nan, 0.1, -0.3, 7.25, -7.25]).astype(
        dtype.numpy
    )
