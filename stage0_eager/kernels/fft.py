"""Fourier transforms and eigenvalues on arrays, through the array library; no scale in either direction.

Input: arrays that the meta rules have checked (fft_metas.py). A result in another precision, as of older libraries, is
brought to that of the operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.kernels.linalg import LinAlgError
from stage_contracts import dtype as dt

# In NumPy's words, the direction that has no scale.
_FORWARD, _INVERSE = "backward", "forward"


def _fft_c2c(xp: Any, x: Any, dims: tuple, forward: bool) -> Any:
    transform = xp.fft.fftn if forward else xp.fft.ifftn
    return transform(x, axes=dims, norm=_FORWARD if forward else _INVERSE).astype(x.dtype, copy=False)


def _fft_r2c(xp: Any, x: Any, dims: tuple) -> Any:
    return xp.fft.rfftn(x, axes=dims, norm=_FORWARD).astype(_complex(x), copy=False)


def _fft_c2r(xp: Any, x: Any, dims: tuple, last: int) -> Any:
    if len(dims) > 1:
        x = _fft_c2c(xp, x, dims[:-1], False)
    out = xp.fft.irfft(x, last, axis=dims[-1], norm=_INVERSE)
    return out.astype(dt.real_of(dt.dtype_of(x.dtype)).numpy, copy=False)


def _complex(x: Any) -> np.dtype:
    return dt.complex_of(dt.dtype_of(x.dtype)).numpy


def _eig(xp: Any, x: Any) -> tuple:
    if not np.isfinite(x).all():
        raise LinAlgError("linalg.eig: input tensor should not contain infs or NaNs.")
    try:
        values, vectors = np.linalg.eig(x if xp is np else x.get())
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eig: The algorithm failed to converge.") from None
    return xp.asarray(values.astype(_complex(x))), xp.asarray(vectors.astype(_complex(x)))


KERNELS: dict[str, Callable[..., Any]] = {
    "fft_c2c": _fft_c2c,
    "fft_r2c": _fft_r2c,
    "fft_c2r": _fft_c2r,
    "eig": _eig,
}
