"""Factorizations and solvers on arrays: LAPACK through the array library, with torch's errors.

Input: batches of float32 or float64 matrices, checked by the meta rules (external_metas.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class LinAlgError(RuntimeError):
    """A matrix that the algorithm cannot factorize: singular, not positive-definite, or no convergence."""


def _attempt(xp: Any, function: Callable, *args: Any) -> Any:
    if xp is np:
        return function(*args)
    import cupyx

    with cupyx.errstate(linalg="raise"):
        return function(*args)


def _or_explain(xp: Any, function: Callable, input: Any, *rest: Any, name: str, why: str) -> Any:
    """function(input, *rest); where it fails, an error that names the first batch element that does."""
    try:
        return _attempt(xp, function, input, *rest)
    except np.linalg.LinAlgError:
        where = ""
        for i, matrix in enumerate(input.reshape(-1, *input.shape[-2:]) if input.ndim > 2 else ()):
            try:
                _attempt(xp, xp.linalg.cholesky if name == "linalg.cholesky" else xp.linalg.inv, matrix)
            except np.linalg.LinAlgError:
                where = f"(Batch element {i}): "
                break
        raise LinAlgError(f"{name}: {where}{why}") from None


def _cholesky(xp: Any, x: Any, upper: bool) -> Any:
    why = "The factorization could not be completed because the input is not positive-definite."
    lower = xp.conj(xp.swapaxes(x, -1, -2)) if upper else x
    out = _or_explain(xp, xp.linalg.cholesky, lower, name="linalg.cholesky", why=why)
    return xp.conj(xp.swapaxes(out, -1, -2)) if upper else out


def _solve(xp: Any, x: Any, y: Any) -> Any:
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # CuPy takes operands of one rank only
    x, y = (a if a.shape[:-2] == batch else xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, y))
    why = "The solver failed because the input matrix is singular."
    return _or_explain(xp, xp.linalg.solve, x, y, name="linalg.solve", why=why)


def _inv(xp: Any, x: Any) -> Any:
    why = "The inversion could not be completed because the input matrix is singular."
    return _or_explain(xp, xp.linalg.inv, x, name="linalg.inv", why=why)


def _triangular_solve(xp: Any, x: Any, y: Any, upper: bool, unitriangular: bool) -> Any:
    """Substitution by halves: the blocks are matrix products, and 0 on the diagonal gives infinities, as BLAS."""
    if y.shape[-2] == 0:
        return y + xp.zeros((*x.shape[:-2], 1, 1), y.dtype)
    if y.shape[-2] == 1:
        return y + xp.zeros_like(x) if unitriangular else y / x
    h = y.shape[-2] // 2
    first, last = (slice(h, None), slice(None, h)) if upper else (slice(None, h), slice(h, None))
    one = _triangular_solve(xp, x[..., first, first], y[..., first, :], upper, unitriangular)
    rest = y[..., last, :] - x[..., last, first] @ one
    other = _triangular_solve(xp, x[..., last, last], rest, upper, unitriangular)
    return xp.concatenate([other, one] if upper else [one, other], axis=-2)


def _qr(xp: Any, x: Any, complete: bool) -> tuple:
    q, r = xp.linalg.qr(x, mode="complete" if complete else "reduced")
    return q, r


def _svd(xp: Any, x: Any, full_matrices: bool) -> tuple:
    try:
        return tuple(_attempt(xp, lambda a: xp.linalg.svd(a, full_matrices=full_matrices), x))
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values "
            "or has too many repeated singular values."
        ) from None


def _eigh(xp: Any, x: Any, upper: bool) -> tuple:
    try:
        return tuple(_attempt(xp, lambda a: xp.linalg.eigh(a, UPLO="U" if upper else "L"), x))
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has "
            "too many repeated eigenvalues."
        ) from None


# The coefficients of the [13/13] Pade approximant of exp, and the norm up to which it is exact to float64
# (Higham, "The Scaling and Squaring Method for the Matrix Exponential Revisited", 2005).
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_THETA = 5.371920351148152


def _matrix_exp(xp: Any, x: Any) -> Any:
    if x.size == 0:
        return x.copy()
    size = float(xp.abs(x).sum(-2).max())
    squarings = max(0, int(np.ceil(np.log2(size / _THETA)))) if 0 < size < np.inf else 0
    a = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) / 2.0**squarings
    one = xp.eye(x.shape[-1])
    a2 = a @ a
    a4, b = a2 @ a2, _PADE
    a6 = a4 @ a2
    high = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one
    odd = a @ high
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = xp.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        out = out @ out
    return out.astype(x.dtype)


KERNELS: dict[str, Callable[..., Any]] = {
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "solve": _solve,
    "inv": _inv,
    "matrix_exp": _matrix_exp,
    "det": lambda xp, x: xp.linalg.det(x),
    "slogdet": lambda xp, x: tuple(xp.linalg.slogdet(x)),
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
}

# Kernels whose results are laid out column by column (external_metas.by_columns); NumPy gives them by rows.
BY_COLUMNS = frozenset("cholesky triangular_solve solve inv qr svd eigh".split())
