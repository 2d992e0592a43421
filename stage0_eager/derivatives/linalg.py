"""Derivatives of factorizations and solvers, by operators only, for batches of matrices.

Input: as rules.py's rules; `g` is a tuple where the operator has several results. Sources stand at each rule;
a survey is Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.derivatives.rules import adjoint, conjugate, fit, transpose_last
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt


def _mm(*factors: Any) -> Any:
    out = factors[0]
    for factor in factors[1:]:
        out = c.matmul(out, factor)
    return out


def _triangle(x: Any, lower: bool, diagonal: int = 0) -> Any:
    """The lower (or upper) triangle, from that diagonal on."""
    rows, columns = x.shape[-2:]
    i = c.reshape(c.iota(rows, 0, 1, dt.int64, x.device), (rows, 1))
    j = c.iota(columns, 0, 1, dt.int64, x.device)
    inside = c.le(j, c.add(i, diagonal)) if lower else c.ge(j, c.add(i, diagonal))
    return c.where(inside, x, 0.0)


def _on_diagonal(values: Any, other: Any) -> Any:
    """`other` with its diagonal replaced by `values` (which may be a number)."""
    rows, columns = other.shape[-2:]
    i = c.reshape(c.iota(rows, 0, 1, dt.int64, other.device), (rows, 1))
    here = c.eq(i, c.iota(columns, 0, 1, dt.int64, other.device))
    return c.where(here, values if isinstance(values, float) else _row(values), other)


def _row(x: Any) -> Any:
    return c.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def _column(x: Any) -> Any:
    return c.reshape(x, (*x.shape, 1))


def _over(x: Any, y: Any) -> Any:
    """x / y, and 0 for 0 / 0: what no gradient asks about has no pole."""
    return c.div(x, c.where(c.logical_and(c.eq(x, 0), c.eq(y, 0)), 1.0, y))


def imag_part(x: Any) -> Any:
    return c.reshape(c.slice(c.view_as_real(x), x.ndim, 1, 2, 1), x.shape)


def _diagonal(x: Any) -> Any:
    return c.diagonal(x, 0, -2, -1)


def _skew(x: Any) -> Any:
    return c.sub(x, adjoint(x))


# ---- solvers -------------------------------------------------------------------------------------------------


def _solve_other(g: Any, input: Any, other_meta: Any) -> Any:
    return fit(c.solve(transpose_last(input), g), other_meta)


def _solve_input(g: Any, input: Any, out: Any, input_meta: Any) -> Any:
    return fit(c.neg(_mm(c.solve(transpose_last(input), g), transpose_last(out))), input_meta)


def _triangular_solve_other(g: Any, input: Any, other_meta: Any, upper: bool, unitriangular: bool) -> Any:
    return fit(c.triangular_solve(transpose_last(input), g, not upper, unitriangular), other_meta)


def _triangular_solve_input(
    g: Any, input: Any, out: Any, input_meta: Any, upper: bool, unitriangular: bool
) -> Any:
    back = c.triangular_solve(transpose_last(input), g, not upper, unitriangular)
    slope = c.neg(_mm(back, transpose_last(out)))
    shift = (1 if upper else -1) if unitriangular else 0
    return fit(_triangle(slope, not upper, shift), input_meta)


def _inv_input(g: Any, out: Any) -> Any:
    turned = transpose_last(out)
    return c.neg(_mm(turned, g, turned))


def _cholesky_input(g: Any, out: Any, upper: bool) -> Any:
    """Murray, "Differentiation of the Cholesky decomposition" (2016), made symmetric."""
    low, g = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = _triangle(_mm(adjoint(low), g), True)
    inner = c.sub(inner, c.mul(_on_diagonal_only(inner), 0.5))
    left = c.triangular_solve(adjoint(low), inner, True, False)
    both = adjoint(c.triangular_solve(adjoint(low), adjoint(left), True, False))
    return c.mul(c.add(both, adjoint(both)), 0.5)


def _on_diagonal_only(x: Any) -> Any:
    return _triangle(_triangle(x, True), False)


c.solve.derivative(input=_solve_input, other=_solve_other)
c.triangular_solve.derivative(input=_triangular_solve_input, other=_triangular_solve_other)
c.inv.derivative(input=_inv_input)
c.cholesky.derivative(input=_cholesky_input)


def _matrix_exp_input(g: Any, input: Any) -> Any:
    """The corner of exp([[A.T, G], [0, A.T]]) (Mathias, "A chain rule for matrix functions", 1996)."""
    n, turned = input.shape[-1], transpose_last(input)
    top = c.cat([turned, g], input.ndim - 1)
    bottom = c.cat([c.mul(g, 0.0), turned], input.ndim - 1)
    whole = c.matrix_exp(c.cat([top, bottom], input.ndim - 2))
    return c.slice(c.slice(whole, -2, 0, n, 1), -1, n, 2 * n, 1)


c.matrix_exp.derivative(input=_matrix_exp_input)


# ---- determinants ----------------------------------------------------------------------------------------------


def _det_input(g: Any, input: Any, out: Any) -> Any:
    """g times the cofactors, from singular values, so that a singular matrix has its gradient too. (Not a complex one:
    its singular vectors have free phases, through which a second derivative cannot go.)"""
    if input.dtype.is_complex:
        scale = c.mul(g, out)
        return c.mul(transpose_last(c.inv(input)), c.reshape(scale, (*scale.shape, 1, 1)))
    u, s, vh = c.svd(input, False)
    n = input.shape[-1]
    others = c.prod(_on_diagonal(1.0, c.expand(_row(s), (*s.shape[:-1], n, n))), (-1,), False)
    sign = c.detach(c.mul(c.sign(c.det(u)), c.sign(c.det(vh))))
    cofactors = _mm(c.mul(u, _row(others)), vh)
    scale = c.mul(g, sign)
    return c.mul(cofactors, c.reshape(scale, (*scale.shape, 1, 1)))


def _slogdet_input(g: Any, out: Any, input: Any) -> Any:
    if input.dtype.is_complex:  # the sign turns with the imaginary part of trace(inv(A) @ dA)
        turned = imag_part(c.mul(conjugate(g[0]), out[0]))
        scale = c.sub(g[1], c.mul(turned, 1j))
        return c.mul(adjoint(c.inv(input)), c.reshape(scale, (*scale.shape, 1, 1)))
    return c.mul(transpose_last(c.inv(input)), c.reshape(g[1], (*g[1].shape, 1, 1)))


c.det.derivative(input=_det_input)
c.slogdet.derivative(input=_slogdet_input)


# ---- factorizations --------------------------------------------------------------------------------------------


def _tall_qr(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms" (2020), rows >= columns."""
    inner = c.sub(_mm(r, adjoint(gr)), _mm(adjoint(gq), q))
    below = _triangle(inner, True, -1)
    on = _on_diagonal_only(inner)
    on = c.mul(c.add(on, adjoint(on)), 0.5) if on.dtype.is_complex else on  # R has a real diagonal
    inner = c.add(c.add(below, on), adjoint(below))
    right = c.add(gq, _mm(q, inner))
    return adjoint(c.triangular_solve(r, adjoint(right), True, False))


def _qr_input(g: Any, out: Any, complete: bool, input: Any) -> Any:
    (gq, gr), (q, r) = g, out
    rows, columns = input.shape[-2:]
    if rows >= columns:
        if complete and rows > columns:
            raise RuntimeError(
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
            )
        return _tall_qr(gq, gr, q, r)
    # wide: A = [X | Y], R = [U | V] with X = Q U, and Y = Q V says the rest
    last = input.ndim - 1
    y = c.slice(input, last, rows, columns, 1)
    u = c.slice(r, last, 0, rows, 1)
    gu, gv = c.slice(gr, last, 0, rows, 1), c.slice(gr, last, rows, columns, 1)
    gx = _tall_qr(c.add(gq, _mm(y, adjoint(gv))), gu, q, u)
    return c.cat([gx, _mm(q, gv)], last)


def _svd_input(g: Any, out: Any, full_matrices: bool, input: Any) -> Any:
    """Townsend, "Differentiating the singular value decomposition" (2016)."""
    (gu, gs, gvh), (u, s, vh) = g, out
    rows, columns = input.shape[-2:]
    if full_matrices and rows != columns:
        raise RuntimeError(
            "svd_backward: The singular vectors of a matrix that is not square are differentiable with "
            "full_matrices=False only (use linalg.svdvals for the singular values)"
        )
    ut, v, gv = adjoint(u), adjoint(vh), adjoint(gvh)
    squares = c.mul(s, s)
    gap = c.sub(_row(squares), _column(squares))
    left = _over(_skew(_mm(ut, gu)), gap)
    right = _over(_skew(_mm(vh, gv)), gap)
    core = c.add(c.mul(left, _row(s)), c.mul(right, _column(s)))
    if input.dtype.is_complex:  # the phases of a pair of vectors are free together
        phases = _skew(_mm(ut, gu))
        gs = c.add(gs, c.div(_diagonal(phases), c.mul(s, 2)))
    result = _mm(u, _on_diagonal(gs, core), vh)
    if rows > columns:
        outside = c.sub(gu, _mm(u, ut, gu))
        result = c.add(result, _mm(_over(outside, _row(s)), vh))
    if columns > rows:
        outside = c.sub(gvh, _mm(gvh, v, vh))
        result = c.add(result, _mm(u, _over(outside, _column(s))))
    return result


def _eigh_input(g: Any, out: Any) -> Any:
    """Giles (2008), section 3.1, made symmetric: the gradient is that for a matrix that stays so, as in torch."""
    (gl, gv), (l, v) = g, out
    turned = adjoint(v)
    inner = _over(_mm(turned, gv), c.sub(_row(l), _column(l)))
    inner = c.mul(c.add(inner, adjoint(inner)), 0.5)
    return _mm(v, _on_diagonal(gl, inner), turned)


c.qr.derivative(input=_qr_input)
c.svd.derivative(input=_svd_input)
c.eigh.derivative(input=_eigh_input)
