"""Derivatives of Fourier transforms and of eigenvalues.

Input: as rules.py's rules. The transforms are linear, so the rule of each is another transform of the gradient; a half
spectrum stands for two halves, but for its first place and, of an even size, its last.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.derivatives.linalg import _on_diagonal
from stage0_eager.derivatives.rules import adjoint, fit, real_part
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim


def _r2c_input(g: Any, input_meta: Any, dims: tuple) -> Any:
    """The other half does not exist: zeros, then the real part of the inverse."""
    last = wrap_dim(dims[-1], input_meta.ndim)
    missing = input_meta.shape[last] - g.shape[last]
    pads = tuple((0, missing) if d == last else (0, 0) for d in range(g.ndim))
    return real_part(c.fft_c2c(c.constant_pad(g, pads, 0.0), dims, False))


def _c2r_input(g: Any, input_meta: Any, dims: tuple, last: Any) -> Any:
    half = c.fft_r2c(g, dims)
    axis = wrap_dim(dims[-1], g.ndim)
    place = c.iota(half.shape[axis], 0, 1, dt.int64, g.device)
    place = c.reshape(place, (half.shape[axis], *[1] * (g.ndim - axis - 1)))
    alone = c.logical_or(c.eq(place, 0), c.eq(c.mul(place, 2), last))
    return c.where(alone, half, c.mul(half, 2))


c.fft_c2c.derivative(input=lambda g, dims, forward: c.fft_c2c(g, dims, forward))  # on conjugates: the inverse
c.fft_r2c.derivative(input=_r2c_input)
c.fft_c2r.derivative(input=_c2r_input)


def _eig_input(g: Any, out: Any, input_meta: Any) -> Any:
    """Boeddeker et al., "On the computation of complex-valued gradients" (2017): vectors of length 1, a free phase."""
    (gl, gv), (values, vectors) = g, out
    turned = adjoint(vectors)
    inner = c.matmul(turned, gv)
    lengths = real_part(c.diagonal(inner, 0, -2, -1))
    inner = c.sub(inner, c.mul(c.matmul(turned, vectors), _row(lengths)))
    gap = c.conj(c.sub(_row(values), c.reshape(values, (*values.shape, 1))))
    same = c.eq(gap, 0)
    inner = c.where(same, 0.0, c.div(inner, c.where(same, 1.0, gap)))
    return fit(c.solve(turned, c.matmul(_on_diagonal(gl, inner), turned)), input_meta)


def _row(x: Any) -> Any:
    return c.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


c.eig.derivative(input=_eig_input)
