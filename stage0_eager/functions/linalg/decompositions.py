"""Solvers and factorizations, by torch.linalg's names (`linalg_svd` is torch.linalg.svd) and torch's older ones.

Input: batches of matrices in float32 or float64. LinAlgError, a RuntimeError, where a matrix is singular, not
positive-definite, or an algorithm does not converge.
"""

from __future__ import annotations

from stage0_eager.derivatives.rules import adjoint, conjugate, transpose_last
from stage0_eager.functions import results
from stage0_eager.functions.linalg.matrix_properties import rank_tolerance
from stage0_eager.functions.linalg.products import mm
from stage0_eager.functions.promotion import same_dtype
from stage0_eager.functions.shape import tril
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt


def _eye(x):
    n = x.shape[-1]
    i = c.iota(n, 0, 1, dt.int64, x.device)
    return c.cast(c.eq(c.reshape(i, (n, 1)), i), x.dtype)


def by_columns(x):
    """x laid out column by column, as LAPACK gives its results."""
    return transpose_last(c.contiguous(transpose_last(x)))


# ---- determinants and inverses -------------------------------------------------------------------------------


@method
@operator
def det(input):
    """Determinant of square matrices."""
    return c.det(input)


@method
@operator
def slogdet(input):
    """(sign, logabsdet) of the determinant."""
    return results.SignLogabsdet(*c.slogdet(input))


@method
@operator
def logdet(input):
    """log of the determinant: NaN where it is negative, minus infinity where it is 0."""
    sign, log = c.slogdet(input)
    if input.dtype.is_complex:
        return c.add(c.log(sign), log)
    return c.where(c.lt(sign, 0), float("nan"), log)


@method
@operator
def inverse(input):
    """The inverse. Raises LinAlgError for a singular matrix."""
    return c.inv(input)


@operator
def linalg_inv_ex(A, *, check_errors=False):
    """(inverse, info): here a singular matrix always raises, so info is 0."""
    return results.InverseInfo(c.inv(A), c.full(A.shape[:-2], 0, dt.int32, A.device))


@method
@operator
def matrix_exp(A):
    """sum of A ** k / k!."""
    return c.matrix_exp(A)


# ---- Cholesky --------------------------------------------------------------------------------------------------


@method
@operator
def cholesky(input, upper=False):
    """L, lower triangular, with L @ L.T = input (or U = L.T). Raises LinAlgError unless input is positive-definite."""
    return c.cholesky(input, bool(upper))


@operator
def linalg_cholesky_ex(A, *, upper=False, check_errors=False):
    """(L, info): here a matrix that is not positive-definite always raises, so info is 0."""
    return results.FactorInfo(c.cholesky(A, bool(upper)), c.full(A.shape[:-2], 0, dt.int32, A.device))


@method
@operator
def cholesky_solve(B, L, upper=False):
    """X with A @ X = B, from the Cholesky factor of A."""
    low = adjoint(L) if upper else L
    half = c.triangular_solve(low, B, False, False)
    return c.triangular_solve(adjoint(low), half, True, False)


@method
@operator
def cholesky_inverse(L, upper=False):
    """The inverse of A from its Cholesky factor."""
    return cholesky_solve(_eye(L), L, upper)


# ---- systems ---------------------------------------------------------------------------------------------------


def _is_vector(A, B):
    """torch.linalg.solve takes B as a batch of vectors where it is 1-d or has A's shape without the last."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and A.shape[:-1] == B.shape)


@operator
def linalg_solve(A, B, *, left=True):
    """X with A @ X = B, or X @ A = B with left=False; B holds matrices, or vectors."""
    if A.ndim >= 2 and _is_vector(A, B):
        if not left:
            raise RuntimeError("linalg.solve: Vector broadcasting is not supported for left=False")
        return c.reshape(c.solve(A, c.reshape(B, (*B.shape, 1))), (*A.shape[:-2], A.shape[-1]))
    if left:
        return c.solve(A, B)
    return transpose_last(c.solve(transpose_last(A), transpose_last(B)))


@operator
def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    """(solution, info): here a singular matrix always raises, so info is 0."""
    return results.SolveInfo(linalg_solve(A, B, left=left), c.full(A.shape[:-2], 0, dt.int32, A.device))


@operator
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A @ X = B (X @ A = B with left=False), A taken as triangular."""
    if left:
        return c.triangular_solve(A, B, bool(upper), bool(unitriangular))
    turned = c.triangular_solve(transpose_last(A), transpose_last(B), not upper, bool(unitriangular))
    return transpose_last(turned)


@method
@operator
def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False):
    """(X, A) with A @ X = b, or A.T @ X = b."""
    matrix = transpose_last(A) if transpose else A
    solution = c.triangular_solve(matrix, b, bool(upper) != bool(transpose), bool(unitriangular))
    copy = c.expand(A, (*solution.shape[:-2], *A.shape[-2:]))
    return results.SolutionCopy(solution, by_columns(c.clone(copy)))


@operator
def linalg_lstsq(A, B, rcond=None, *, driver=None):
    """(solution, residuals, rank, singular_values) of min |A @ X - B|, of least norm: always through the pseudoinverse.

    As in torch the residuals, squared distances of the columns, are empty with the driver 'gelsy' (the default) and
    where A has no more rows than columns; the singular values are there with 'gelss' and 'gelsd'.
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    vector = A.ndim - 1 == B.ndim
    right = c.reshape(B, (*B.shape, 1)) if vector else B
    if A.shape[-2] != right.shape[-2]:
        raise RuntimeError(
            f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2}): got "
            f"{A.shape[-2]} and {right.shape[-2]}"
        )
    solution = c.matmul(linalg_pinv(A, rtol=rcond), right)
    _, singular, _ = c.svd(A, False)
    rank = c.sum(c.gt(singular, rank_tolerance(A, singular, None, rcond)), (-1,), False)
    empty = c.full((0,), 0.0, dt.real_of(A.dtype), A.device)
    if driver not in (None, "gelsy") and A.shape[-2] > A.shape[-1]:
        rest = c.sub(c.matmul(A, solution), right)
        rest = c.abs(rest) if rest.dtype.is_complex else rest
        residuals = c.sum(c.mul(rest, rest), (-2,), False)
    else:
        residuals = empty
    singular = singular if driver in ("gelss", "gelsd") else empty
    solution = c.reshape(solution, solution.shape[:-1]) if vector else by_columns(solution)
    return results.Lstsq(solution, residuals, rank, singular)


@operator
def linalg_pinv(A, *, atol=None, rtol=None, hermitian=False):
    """The Moore-Penrose inverse: singular values up to max(atol, rtol * the largest) count as 0."""
    u, s, vh = c.svd(A, False)
    kept = c.gt(s, rank_tolerance(A, s, atol, rtol))
    s = c.where(kept, c.reciprocal(c.where(kept, s, 1.0)), 0.0)
    return c.matmul(c.mul(adjoint(vh), c.reshape(s, (*s.shape[:-1], 1, s.shape[-1]))), adjoint(u))


def _pinv_input(g, A, out):
    """Golub and Pereyra, "The differentiation of pseudo-inverses" (1973)."""
    gt, ot = adjoint(g), adjoint(out)
    first = c.matmul(c.matmul(ot, g), ot)
    left = c.matmul(gt, c.matmul(out, ot))  # (I - A P) of this
    right = c.matmul(c.matmul(ot, out), gt)  # this times (I - P A)
    left = c.sub(left, c.matmul(A, c.matmul(out, left)))
    right = c.sub(right, c.matmul(c.matmul(right, out), A))
    return c.add(c.sub(left, first), right)


linalg_pinv.derivative(A=_pinv_input)


@method
@operator
def pinverse(input, rcond=1e-15):
    """As linalg_pinv with rtol=rcond."""
    return linalg_pinv(input, rtol=rcond)


# ---- factorizations --------------------------------------------------------------------------------------------


@operator
def linalg_qr(A, mode="reduced"):
    """(Q, R) with Q @ R = A; mode 'complete' gives all columns of Q, 'r' only R."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    q, r = c.qr(A, mode == "complete")
    return results.QR(c.full((0,), 0.0, A.dtype, A.device) if mode == "r" else q, r)


@method
@operator
def qr(input, some=True):
    """(Q, R): torch's older spelling."""
    return results.QR(*c.qr(input, not some))


@operator
def linalg_svd(A, full_matrices=True, *, driver=None):
    """(U, S, Vh) with U @ diag(S) @ Vh = A, S falling."""
    return results.SVD(*c.svd(A, bool(full_matrices)))


@operator
def linalg_svdvals(A, *, driver=None):
    """The singular values, falling."""
    return c.svd(A, False)[1]


@method
@operator
def svd(input, some=True, compute_uv=True):
    """(U, S, V), V not transposed: torch's older spelling."""
    u, s, vh = c.svd(input, not some)
    if not compute_uv:
        u, vh = c.mul(u, 0.0), c.mul(vh, 0.0)
    return results.OldSVD(u, s, adjoint(vh))


def _uplo(UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO in "Uu"


@operator
def linalg_eigh(A, UPLO="L"):
    """(eigenvalues, eigenvectors) of symmetric matrices, eigenvalues rising; reads one triangle."""
    return results.Eigh(*c.eigh(A, _uplo(UPLO)))


@operator
def linalg_eigvalsh(A, UPLO="L"):
    """The eigenvalues of symmetric matrices, rising."""
    return c.eigh(A, _uplo(UPLO))[0]


@operator
def linalg_eig(A):
    """(eigenvalues, eigenvectors as columns of length 1) of square matrices, complex, in no order."""
    return results.Eig(*c.eig(A))


@operator
def linalg_eigvals(A):
    """The eigenvalues of square matrices, complex, in no order."""
    return c.eig(A)[0]


# ---- products --------------------------------------------------------------------------------------------------


@operator
def linalg_multi_dot(tensors):
    """The product of two or more matrices (the ends may be vectors) in the order that costs least."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if first:
        tensors[0] = c.reshape(tensors[0], (1, tensors[0].shape[0]))
    if last:
        tensors[-1] = c.reshape(tensors[-1], (tensors[-1].shape[0], 1))
    out = _chain(tensors, {}, 0, len(tensors))[1]()
    shape = out.shape[int(first) : 2 - int(last)]
    return c.reshape(out, tuple(shape)) if first or last else out


def _chain(tensors, known, i, j):
    """(multiplications, how to compute) of tensors[i:j]: the textbook's dynamic programming."""
    if j - i == 1:
        return 0, lambda: tensors[i]
    if (i, j) not in known:
        best = None
        for k in range(i + 1, j):
            (left, one), (right, other) = _chain(tensors, known, i, k), _chain(tensors, known, k, j)
            cost = left + right + tensors[i].shape[0] * tensors[k].shape[0] * tensors[j - 1].shape[1]
            if best is None or cost < best[0]:
                best = cost, (lambda a=one, b=other: mm(a(), b()))
        known[i, j] = best
    return known[i, j]


@operator
def linalg_vecdot(x, y, *, dim=-1):
    """The sum of conj(x) * y along `dim`."""
    same_dtype("linalg.vecdot", x, y)
    if not x.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.name}"
        )
    return c.sum(c.mul(conjugate(x), y), (dim,), False)


@operator
def linalg_cross(input, other, *, dim=-1):
    """The cross product of vectors of 3 elements along `dim`."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    same_dtype("linalg.cross", input, other)
    for x in (input, other):
        if x.shape[dim] != 3:
            raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[dim]}")
    a = [c.slice(input, dim, i, i + 1, 1) for i in range(3)]
    b = [c.slice(other, dim, i, i + 1, 1) for i in range(3)]
    turns = ((1, 2), (2, 0), (0, 1))
    parts = [c.sub(c.mul(a[i], b[j]), c.mul(a[j], b[i])) for i, j in turns]
    return c.cat(parts, dim % parts[0].ndim)


@method
@operator
def cross(input, other, dim=None):
    """As linalg_cross; without `dim` along the first dimension of size 3."""
    if dim is None:
        sizes = [i for i, size in enumerate(input.shape) if size == 3]
        if not sizes:
            raise RuntimeError("no dimension of size 3 in input")
        dim = sizes[0]
    return linalg_cross(input, other, dim=dim)


@operator
def linalg_tensorinv(A, ind=2):
    """The inverse of A seen as a map from its last dimensions to its first `ind`."""
    rows, columns = _product(A.shape[:ind]), _product(A.shape[ind:])
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    return c.reshape(c.inv(c.reshape(A, (rows, columns))), (*A.shape[ind:], *A.shape[:ind]))


@operator
def linalg_tensorsolve(A, B, dims=None):
    """X with tensordot(A, X, X.ndim) = B."""
    if dims is not None:
        A = c.permute(A, (*(d for d in range(A.ndim) if d not in dims), *dims))
    shape = A.shape[B.ndim :]
    size = _product(shape)
    flat = c.solve(c.reshape(A, (B.numel(), size)), c.reshape(B, (B.numel(), 1)))
    return c.reshape(flat, tuple(shape))


def _product(sizes):
    total = 1
    for size in sizes:
        total = total * size
    return total


@operator
def linalg_householder_product(A, tau):
    """The first columns of the product of the reflections I - tau[i] v[i] v[i].T, v[i] below A's diagonal."""
    if not A.shape[-2] >= A.shape[-1] >= tau.shape[-1]:
        raise RuntimeError(
            f"torch.linalg.householder_product: expected rows >= columns >= tau's length, got {list(A.shape)} and "
            f"{list(tau.shape)}"
        )
    same_dtype("torch.linalg.householder_product", A, tau)
    vectors = c.add(tril(A, -1), _rectangular_eye(A))
    out = _rectangular_eye(A)
    for i in reversed(range(tau.shape[-1])):
        v = c.slice(vectors, -1, i, i + 1, 1)
        weight = c.reshape(c.slice(tau, -1, i, i + 1, 1), (*tau.shape[:-1], 1, 1))
        out = c.sub(out, c.mul(weight, c.matmul(v, c.matmul(transpose_last(v), out))))
    return by_columns(out)


def _rectangular_eye(x):
    rows, columns = x.shape[-2:]
    i = c.reshape(c.iota(rows, 0, 1, dt.int64, x.device), (rows, 1))
    here = c.eq(i, c.iota(columns, 0, 1, dt.int64, x.device))
    return c.expand(c.cast(here, x.dtype), x.shape)


@operator
def chain_matmul_of(matrices):
    """The product of matrices in the order that costs least; one alone is itself."""
    matrices = list(matrices)
    return matrices[0] if len(matrices) == 1 else linalg_multi_dot(matrices)


def chain_matmul(*matrices):
    """torch's older spelling of linalg.multi_dot."""
    return chain_matmul_of(
        list(matrices[0]) if len(matrices) == 1 and not hasattr(matrices[0], "ndim") else matrices
    )
