"""Special functions and cumulative operations on arrays: what SciPy (or CuPy) computes for the external rows.

Input: arrays of one dtype, floating unless said; eager.py sees to layouts and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.kernels.formulas import special_functions
from stage_contracts.core_metas import wrap_dim

# core name -> SciPy's
_NAMES = {
    "digamma": "psi", "erfinv": "erfinv", "erfcx": "erfcx", "ndtri": "ndtri", "i0": "i0",
    "i0e": "i0e", "i1": "i1", "i1e": "i1e", "zeta": "zeta", "gammainc": "gammainc", "gammaincc": "gammaincc",
}  # fmt: skip


def _wide(function: Callable) -> Callable:
    """Half precision is computed in float32 and rounded once."""

    def kernel(xp: Any, *args: Any) -> Any:
        dtype = args[0].dtype
        if dtype.itemsize > 2:
            return function(xp, *args)
        return function(xp, *[a.astype(np.float32) if hasattr(a, "astype") else a for a in args]).astype(
            dtype
        )

    return kernel


def _named(name: str) -> Callable:
    return _wide(lambda xp, *args: getattr(special_functions(xp), name)(*args))


def _polygamma(xp: Any, x: Any, n: int) -> Any:
    special = special_functions(xp)
    if n == 0:
        return special.psi(x)
    sign_and_factorial = (-1.0 if n % 2 == 0 else 1.0) * float(np.prod(np.arange(1.0, n + 1)))
    return (sign_and_factorial * special.zeta(x.dtype.type(n + 1), x)).astype(x.dtype)


def _frexp(xp: Any, x: Any) -> tuple:
    mantissa, exponent = xp.frexp(x.astype(np.float32) if x.dtype.itemsize == 2 else x)
    return xp.asarray(mantissa, x.dtype), xp.asarray(exponent, np.int32)


# ---- cumulative -------------------------------------------------------------------------------------------


def _running(xp: Any, combine: Callable, x: Any, dim: int) -> Any:
    """x[0], combine(x[0], x[1]), ... along dim."""
    if xp is np:
        return combine.accumulate(x, axis=dim)  # type: ignore[attr-defined]
    out, step = x.copy(), 1  # doubling steps, for ufuncs that have no accumulate
    while step < x.shape[dim]:
        late, early = [slice(None)] * x.ndim, [slice(None)] * x.ndim
        late[dim], early[dim] = slice(step, None), slice(None, -step)
        out[tuple(late)] = combine(out[tuple(late)], out[tuple(early)].copy())
        step *= 2
    return out


def _cumprod(xp: Any, x: Any, dim: int) -> Any:
    if x.dtype.kind in "biu":
        x = x.astype(np.int64)
    if not x.ndim:
        return x.copy()
    if x.dtype.itemsize == 2:
        return xp.cumprod(x.astype(np.float32), axis=dim).astype(x.dtype)
    return xp.cumprod(x, axis=dim)


def _logcumsumexp(xp: Any, x: Any, dim: int) -> Any:
    if not x.ndim:
        return x.copy()
    return _running(xp, xp.logaddexp, x, wrap_dim(dim, x.ndim))


def _running_extremum(name: str, compare: str) -> Callable:
    def kernel(xp: Any, x: Any, dim: int) -> tuple:
        if not x.ndim:
            return x.copy(), xp.zeros((), np.int64)
        dim = wrap_dim(dim, x.ndim)
        values = _running(xp, getattr(xp, name), x, dim)
        here = getattr(xp, compare)(x, values) | (x != x)  # the last of equals; once NaN, only NaN
        places = xp.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        return values, _running(xp, xp.maximum, xp.where(here, places, 0), dim)

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {name: _named(theirs) for name, theirs in _NAMES.items()}
KERNELS |= {
    # SciPy gives -inf at -inf; C and torch give inf
    "lgamma": _wide(lambda xp, x: special_functions(xp).gammaln(xp.where(x == -np.inf, -x, x))),
    "polygamma": _wide(_polygamma),
    "nextafter": lambda xp, x, y: xp.nextafter(x, y),
    "gcd": lambda xp, x, y: xp.gcd(x, y),
    "frexp": _frexp,
    "cumprod": _cumprod,
    "logcumsumexp": _wide(_logcumsumexp),
    "cummax": _running_extremum("maximum", "greater_equal"),
    "cummin": _running_extremum("minimum", "less_equal"),
}
