"""The core operators of Fourier transforms and of eigenvalues, which have complex results, and their meta rules.

Input: the arguments, with a TensorMeta in place of each tensor; dims are a tuple, the last one is the halved one. The
transforms are sums without a scale: `norm=` is a product with a real number. core_ops.py makes rows of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.external_metas import square
from stage_contracts.tensor_meta import TensorMeta


def _transformed(input: TensorMeta, dims: tuple, dtype: Any, last: Any = None) -> TensorMeta:
    """Row-major, with another size of the last of `dims` if it is given."""
    axes = [wrap_dim(d, input.ndim) for d in dims]
    if len(set(axes)) != len(axes):
        raise RuntimeError("FFT dims must be unique")
    for axis in axes:
        if input.shape[axis] == 0:
            raise RuntimeError("Invalid number of data points (0) specified")
    shape = list(input.shape)
    if last is not None:
        shape[axes[-1]] = last
    return TensorMeta(tuple(shape), dtype, device=input.device)


def _need(input: TensorMeta, name: str, wanted: tuple) -> None:
    if input.dtype not in wanted:
        raise RuntimeError(
            f"core.{name} expects {' or '.join(d.name for d in wanted)}, but got {input.dtype.name}"
        )


def fft_c2c(input: TensorMeta, dims: tuple[int, ...], forward: bool) -> TensorMeta:
    _need(input, "fft_c2c", (dt.complex64, dt.complex128))
    return _transformed(input, dims, input.dtype)


def fft_r2c(input: TensorMeta, dims: tuple[int, ...]) -> TensorMeta:
    _need(input, "fft_r2c", (dt.float32, dt.float64))
    size = input.shape[wrap_dim(dims[-1], input.ndim)]
    return _transformed(input, dims, dt.complex_of(input.dtype), size // 2 + 1)


def fft_c2r(input: TensorMeta, dims: tuple[int, ...], last: Any) -> TensorMeta:
    _need(input, "fft_c2r", (dt.complex64, dt.complex128))
    size = input.shape[wrap_dim(dims[-1], input.ndim)]
    if last < 1 or size != last // 2 + 1:
        raise RuntimeError(f"Invalid number of data points ({last}) specified")
    return _transformed(input, dims, dt.real_of(input.dtype), last)


def eig(input: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    vectors = square("linalg.eig", columns=False)(input).with_(dtype=dt.complex_of(input.dtype))
    return vectors.with_(shape=input.shape[:-1]), vectors


# (parameters, meta rule, one `name: meaning` per line)
FOURIER: list[tuple[str, Callable, str]] = [
    (
        "input, dims, forward",
        fft_c2c,
        "fft_c2c: sum of x * exp(-2 pi i n k / N) over dims; +2 pi i if not forward",
    ),
    ("input, dims", fft_r2c, "fft_r2c: fft_c2c of a real x, the first N // 2 + 1 places of the last of dims"),
    (
        "input, dims, last",
        fft_c2r,
        "fft_c2r: the real x of size `last` from that half, not forward; no scale",
    ),
    ("input", eig, "eig: (eigenvalues, eigenvectors as columns of length 1), complex, of a square A"),
]
