"""The values at which arithmetic goes wrong, by dtype.

Input: a dtype. Elementwise rows walk `walk`, every pair of them for two operands; other rows find `PLANTED` values
among their own.
"""

import ml_dtypes
import numpy as np

from stage_contracts import dtype as dt
from stage_contracts.dtype import DTYPES, INTEGER


def walk(name, extremes=True):
    """Every edge value of a dtype, as an array of it; without extremes no denormals and no largest floats."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True])
    if dtype.category == INTEGER:
        low, high = dtype.limits
        values = [low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, high - 1, high]
        return np.array([v for v in values if low <= v <= high], dtype.numpy)
    if dtype.is_complex:  # every pair of parts
        parts = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], dt.real_of(dtype).numpy)
        return np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2).copy().view(dtype.numpy)[:, 0]
    info = ml_dtypes.finfo(dtype.numpy)
    positive = [0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 80.0, np.inf]
    if extremes:
        positive += [float(info.smallest_subnormal), float(info.smallest_normal), float(info.max)]
    return np.array([*positive, *(-v for v in positive), np.nan]).astype(dtype.numpy)


PLANTED = {
    "NaN": [np.nan],
    "+inf": [np.inf],
    "-inf": [-np.inf],
    "both infinities": [np.inf, -np.inf],
    "zeros": [0.0, -0.0],
    "denormals": [1e-310, -1e-310],  # 0 in the narrower dtypes
}


def plant(kind, array, rng):
    """A copy with about a quarter of the elements replaced, at least one."""
    out = array.copy()
    flat = out.reshape(-1)
    if flat.size:
        places = rng.permutation(flat.size)[: max(1, flat.size // 4)]
        values = rng.choice(PLANTED[kind], len(places))
        if array.dtype.kind != "c":
            flat[places] = values.astype(array.dtype)
        else:  # in one part of each, the other stays
            flat.real[places[::2]], flat.imag[places[1::2]] = values[::2], values[1::2]
    return out
