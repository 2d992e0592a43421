"""LU by Gaussian elimination with row exchanges, and QR by Householder reflections in LAPACK's packed form.

Input: batches of matrices. Each step of the loop over columns is a few operators on the whole batch, so that capture
follows it and the tape differentiates it. Pivots count from 1, as in torch.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation, gather_scatter, joining, results
from stage0_eager.functions.linalg.decompositions import (
    by_columns,
    cholesky,
    linalg_eigh,
    linalg_householder_product,
    linalg_qr,
    linalg_solve_triangular,
    linalg_svd,
)
from stage0_eager.kernels.linalg import LinAlgError
from stage0_eager.tensor import Tensor, method
from stage_contracts import dtype as dt

# ---- LU ------------------------------------------------------------------------------------------------------------


def _exchanged(rows: Tensor, here: int, there: Tensor) -> Tensor:
    """The row numbers (..., m) with rows `here` and `there` (..., 1) exchanged."""
    back = gather_scatter.where(rows.eq(there), here, rows)
    return gather_scatter.where(rows.eq(here), there, back)


def _order_of(pivots: Tensor, count: int) -> Tensor:
    """Which row of A each row of L @ U is: int64 (..., count)."""
    rows = creation.arange(count, device=pivots.device)
    order = rows.expand(*pivots.shape[:-1], count)
    for k in range(pivots.shape[-1]):
        order = order.gather(-1, _exchanged(rows, k, pivots[..., k : k + 1].to(dt.int64) - 1))
    return order


def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> results.LUFactorInfo:
    """(LU, pivots, info): L below the diagonal and U on and above it; info is the first zero on it, or 0."""
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    if A.ndim < 2:
        raise RuntimeError("linalg.lu_factor: The input tensor must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    rows, work, pivots = creation.arange(m, device=A.device), A, []
    for k in range(min(m, n)):
        place = work[..., k:, k].detach().abs().argmax(-1, keepdim=True) + k
        pivots.append(place + 1)
        exchanged = _exchanged(rows, k, place)
        work = work.gather(-2, exchanged.unsqueeze(-1).expand(work.shape))
        head, below = work[..., k : k + 1, k:], work[..., k + 1 :, k:]
        factors = below[..., :1] / gather_scatter.where(head[..., :1].eq(0), 1.0, head[..., :1])
        rest = below[..., 1:] - factors * head[..., 1:]
        lower = joining.cat([work[..., k + 1 :, :k], factors, rest], -1)
        work = joining.cat([work[..., : k + 1, :], lower], -2)
    info = _first_zero(work)
    if check_errors and info.any():
        raise LinAlgError(f"linalg.lu_factor: U[{int(info.max())},{int(info.max())}] is zero")
    found = joining.cat(pivots, -1) if pivots else A.new_zeros(*A.shape[:-2], 0)
    return results.LUFactorInfo(by_columns(work), found.to(dt.int32), info)


def _first_zero(packed: Tensor) -> Tensor:
    zero = packed.diagonal(dim1=-2, dim2=-1).eq(0)
    if not zero.shape[-1]:
        return creation.zeros(packed.shape[:-2], dtype=dt.int32)
    first = zero.to(dt.int32).argmax(-1) + 1
    return gather_scatter.where(zero.any(-1), first, 0).to(dt.int32)


def linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> results.LUFactor:
    """(LU, pivots). Raises LinAlgError where U has a zero on its diagonal."""
    packed, pivots, _ = linalg_lu_factor_ex(A, pivot=pivot, check_errors=True)
    return results.LUFactor(packed, pivots)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> results.LU:
    """(P, L, U) with P @ L @ U = A; what is not asked for is empty."""
    empty = LU_data.new_empty(0)
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lower = upper = permutation = empty
    if unpack_data:
        lower = LU_data[..., :, :k].tril(-1) + creation.eye(m, k, dtype=LU_data.dtype, device=LU_data.device)
        upper = LU_data[..., :k, :].triu().contiguous()
    if unpack_pivots:
        rows = creation.arange(m, device=LU_data.device).unsqueeze(-1)
        permutation = _order_of(LU_pivots, m).unsqueeze(-2).eq(rows).to(LU_data.dtype)
    return results.LU(permutation, lower.contiguous(), upper)


def linalg_lu(A: Tensor, *, pivot: bool = True) -> results.LU:
    """(P, L, U) with P @ L @ U = A: L has ones on its diagonal, P exchanges rows."""
    packed, pivots, _ = linalg_lu_factor_ex(A, pivot=pivot)
    return lu_unpack(packed, pivots)


def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A @ X = B (X @ A = B with left=False), A.T in place of A with adjoint, of what lu_factor gave of A."""
    if not left:
        return linalg_lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    order = _order_of(pivots, LU.shape[-1])
    batch = (*gather_scatter.where(LU[..., :1, :1].eq(0), B[..., :1, :1], 0).shape[:-2], *B.shape[-2:])
    if adjoint:
        half = linalg_solve_triangular(LU.mT, B, upper=False)
        whole = linalg_solve_triangular(LU.mT, half, upper=True, unitriangular=True)
        back = order.argsort(-1).unsqueeze(-1).expand(batch)
        return by_columns(whole.expand(batch).gather(-2, back))
    turned = B.expand(batch).gather(-2, order.unsqueeze(-1).expand(batch))
    half = linalg_solve_triangular(LU, turned, upper=False, unitriangular=True)
    return linalg_solve_triangular(LU, half, upper=True)


@method
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """torch's older spelling of linalg.lu_solve."""
    return linalg_lu_solve(LU_data, LU_pivots, b)


@method
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots), and info with get_infos: torch's older spelling of linalg.lu_factor."""
    packed, pivots, info = linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    return (packed, pivots, info) if get_infos else (packed, pivots)


# ---- QR, packed ----------------------------------------------------------------------------------------------------


@method
def geqrf(input: Tensor) -> results.Geqrf:
    """(a, tau): R on and above a's diagonal; below it, and with 1 on it, the vectors v of I - tau * v @ v.T."""
    m, n = input.shape[-2:]
    work, taus = input, []
    for k in range(min(m, n)):
        alpha, below = work[..., k : k + 1, k : k + 1], work[..., k + 1 :, k : k + 1]
        length = (below * below).sum(-2, keepdim=True)
        norm = (alpha * alpha + length).sqrt()
        beta = gather_scatter.where(length.eq(0), alpha, gather_scatter.where(alpha > 0, -norm, norm))
        tau = (beta - alpha) / gather_scatter.where(length.eq(0), 1.0, beta)
        v = below / gather_scatter.where(length.eq(0), 1.0, alpha - beta)
        row, rest = work[..., k : k + 1, k + 1 :], work[..., k + 1 :, k + 1 :]
        shared = tau * (row + v.mT @ rest)
        right = joining.cat([row - shared, rest - v @ shared], -2)
        column = joining.cat([work[..., k:, :k], joining.cat([beta, v], -2), right], -1)
        work = joining.cat([work[..., :k, :], column], -2)
        taus.append(tau.reshape(*input.shape[:-2], 1))
    return results.Geqrf(by_columns(work), joining.cat(taus, -1) if taus else input.new_zeros(0))


@method
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other (other @ Q with left=False, Q.T in place of Q with transpose), of what geqrf gave for Q."""
    if not left:
        return by_columns(ormqr(input, tau, other.mT, transpose=not transpose).mT)
    rows = input.shape[-2]
    vectors = input.tril(-1) + creation.eye(rows, input.shape[-1], dtype=input.dtype, device=input.device)
    steps = range(tau.shape[-1])
    for k in steps if transpose else reversed(steps):
        v = vectors[..., :, k : k + 1]
        other = other - tau[..., k].reshape(*tau.shape[:-1], 1, 1) * (v @ (v.mT @ other))
    return by_columns(other)


@method
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """torch's older spelling of linalg.householder_product."""
    return linalg_householder_product(input, tau)


# ---- of low rank ---------------------------------------------------------------------------------------------------


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> results.OldSVD:
    """(U, S, V) of the best approximation of A - M of rank q that a random start and niter steps find.

    Halko, Martinsson and Tropp, "Finding structure with randomness" (2009).
    """
    q = 6 if q is None else q
    if M is not None:
        A = A - M.expand(A.shape)
    turned = A.shape[-2] < A.shape[-1]
    A = A.mT if turned else A
    start = creation.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = linalg_qr(A @ start).Q
    for _ in range(niter or 0):
        basis = linalg_qr(A @ linalg_qr(A.mT @ basis).Q).Q
    u, s, vh = linalg_svd(basis.mT @ A, full_matrices=False)
    u, v = basis @ u, vh.mT
    return results.OldSVD(v, s, u) if turned else results.OldSVD(u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> results.OldSVD:
    """svd_lowrank of A, each column less its mean unless center is False: V holds the principal directions."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
    iK: Any = None, niter: Any = None, tol: Any = None, largest: bool | None = None, **options: Any,
) -> tuple:  # fmt: skip
    """(E, X): the k largest (or smallest) eigenvalues of a symmetric A, A @ X = B @ X @ diag(E).

    Here all eigenvalues are computed, exactly, and k are taken: what steers torch's iteration has no effect.
    """
    count = n or k or (1 if X is None else X.shape[-1])
    if A.shape[-1] < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is smaller than 3 x the "
            f"number of requested eigenpairs (={count})"
        )
    factor = None if B is None else cholesky(B)
    if factor is not None:
        half = linalg_solve_triangular(factor, A, upper=False)
        A = linalg_solve_triangular(factor, half.mT, upper=False).mT
    values, vectors = linalg_eigh(A)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    values, vectors = values[..., :count], vectors[..., :count]
    if factor is not None:
        vectors = linalg_solve_triangular(factor.mT, vectors, upper=True)
    return values, vectors
