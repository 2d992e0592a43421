"""Factorizations, solutions and norms of matrices, against NumPy's linalg and SciPy's.

Input: none. Operands are made well conditioned; a factorization is compared where its signs are settled, and its
derivative through torch's, which fixes the same freedom in the same way.
"""

import numpy as np
from scipy import linalg as sl

from tests.oracle.spec import WIDE, Invalid, S, T, declare


def eye_like(a):
    return np.eye(a.shape[-2], a.shape[-1])


def symmetric(a):
    return a + np.swapaxes(a, -1, -2)


def positive(a):
    return a @ np.swapaxes(a, -1, -2) + 2 * eye_like(a)


def regular(a):
    """Far from singular, and its determinant positive."""
    return a / 3 + 3 * eye_like(a)


def lower(a):
    return np.tril(a) + 4 * eye_like(a)


def upper(a):
    return np.triu(a) + 4 * eye_like(a)


def spaced(a):
    """Singular values that are apart, so that vectors do not turn quickly."""
    u, _, v = np.linalg.svd(a, full_matrices=False)
    return u * np.arange(1, u.shape[-1] + 1) @ v


def R(*shape):
    return T(*shape, law=regular)


def P(*shape):
    return T(*shape, law=positive)


WORDS = {
    "dtypes": WIDE,
    "units": 64,
    "edges": False,
    "layouts": ("contiguous", "transposed", "permuted", "strided", "backwards", "offset"),
}
SQUARE = Invalid(S(T(2, 3)), RuntimeError, "")
SIGNS = {
    "torch's derivative": "the signs of vectors are free, and a loss that depends on them has none that is right"
}
ONE_SIDE = dict.fromkeys(
    ("derivative", "second derivative"), "only one triangle is read: differences move both"
)


NOT_READ = {"torch's derivative": "torch differentiates the triangle that is not read, too"}


def matrix(name, numpy, *samples, invalid=(), **options):
    declare(
        name,
        numpy,
        *samples,
        invalid=(invalid,) if isinstance(invalid, Invalid) else invalid,
        **{**WORDS, **options},
    )


def linalg(name, numpy, *samples, **options):
    matrix(f"linalg_{name}", numpy, *samples, **{"torch": f"linalg.{name}", **options})


# ---- numbers of a matrix ---------------------------------------------------------------------------------------

matrix("det", np.linalg.det, S(R(3, 3)), S(R(2, 3, 3)), S(R(1, 1)), invalid=SQUARE)
matrix("logdet", lambda a: np.log(np.linalg.det(a)), S(R(3, 3)), S(R(2, 3, 3)), invalid=SQUARE)
matrix("slogdet", np.linalg.slogdet, S(R(3, 3)), S(R(2, 3, 3)), invalid=SQUARE)
linalg(
    "matrix_rank",
    np.linalg.matrix_rank,
    S(R(3, 3)),
    S(T(2, 3, 4)),
    S(T(4, 4, law=lambda a: np.ones_like(a))),
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
linalg(
    "cond",
    lambda a, p=None: np.linalg.cond(a, p),
    S(R(3, 3)),
    S(R(2, 3, 3)),
    S(R(3, 3), 1),
    S(R(3, 3), "fro"),
    exceptions={"torch's derivative": "torch overwrites what its own derivative needs"},
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)


def matrix_norm(a, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return np.linalg.norm(a, ord, tuple(dim), keepdim)


linalg("matrix_norm", matrix_norm, S(T(3, 4)), S(T(2, 3, 4), 1), S(T(2, 3, 4), np.inf, (0, 1)), S(T(3, 4, law=spaced), 2), S(T(3, 4, law=spaced), "nuc"), S(T(2, 3, 4), "fro", (-2, -1), True),
       invalid=Invalid(S(T(3)), RuntimeError, ""))  # fmt: skip
linalg("norm", lambda a, ord=None, dim=None, keepdim=False, dtype=None: np.linalg.norm(a, ord, dim, keepdim), S(T(3, 4)), S(T(5), 3), S(T(2, 3, 4), 1, 2), S(T(2, 3, 4), "fro", (0, 2), True), S(T(3, 4, law=spaced), 2),
       invalid=Invalid(S(T(3), dtype=None), RuntimeError, "", "int64"))  # fmt: skip
matrix(
    "nuclear_norm",
    lambda a: np.linalg.norm(a, "nuc"),
    S(T(3, 4, law=spaced)),
    S(T(4, 3, law=spaced)),
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
matrix(
    "frobenius_norm",
    lambda a, dim=None, keepdim=False: np.linalg.norm(a, None, tuple(dim), keepdim),
    S(T(3, 4), (0, 1)),
    S(T(2, 3, 4), (1, 2), True),
    invalid=Invalid(S(T(2, 2), (0, 5)), IndexError, ""),
)

# ---- solutions -------------------------------------------------------------------------------------------------

matrix("inverse", np.linalg.inv, S(R(3, 3)), S(R(2, 3, 3)), invalid=SQUARE)
linalg(
    "inv_ex", lambda a: (np.linalg.inv(a), np.zeros(a.shape[:-2])), S(R(3, 3)), S(R(2, 3, 3)), invalid=SQUARE
)
linalg(
    "pinv",
    lambda a: np.linalg.pinv(a),
    S(T(3, 4, law=spaced)),
    S(T(4, 2, law=spaced)),
    S(R(2, 3, 3)),
    units=256,
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
matrix(
    "pinverse",
    lambda a: np.linalg.pinv(a),
    S(T(3, 4, law=spaced)),
    S(R(3, 3)),
    units=256,
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
matrix(
    "matrix_exp",
    lambda a: np.stack([sl.expm(m) for m in a]) if a.ndim == 3 else sl.expm(a),
    S(T(3, 3, low=-1, high=1)),
    S(T(2, 3, 3, low=-1, high=1)),
    units=256,
    invalid=SQUARE,
)


def solve(a, b, left=True):
    if b.ndim == 1:
        return np.linalg.solve(a, b)
    if not left:
        return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return np.linalg.solve(a, b)


linalg(
    "solve",
    solve,
    S(R(3, 3), T(3, 2)),
    S(R(3, 3), T(3)),
    S(R(2, 3, 3), T(2, 3, 4)),
    S(R(3, 3), T(2, 3), left=False),
    invalid=(Invalid(S(T(2, 3), T(2)), RuntimeError, ""), Invalid(S(R(3, 3), T(4, 2)), RuntimeError, "")),
)
linalg(
    "solve_ex",
    lambda a, b: (solve(a, b), np.zeros(a.shape[:-2])),
    S(R(3, 3), T(3, 2)),
    invalid=Invalid(S(T(2, 3), T(2, 2)), RuntimeError, ""),
)


def solve_triangular(a, b, upper, left=True, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    a = a - np.diag(np.diag(a)) + np.eye(len(a)) if unitriangular else a
    return solve(a, b, left)


linalg("solve_triangular", solve_triangular, S(T(3, 3, law=upper), T(3, 2), upper=True), S(T(3, 3, law=lower), T(3, 2), upper=False), S(T(3, 3, law=upper), T(2, 3), upper=True, left=False),
       S(T(3, 3, law=upper), T(3, 2), upper=True, unitriangular=True), invalid=Invalid(S(T(2, 3), T(2, 2), upper=True), RuntimeError, ""))  # fmt: skip
matrix(
    "triangular_solve",
    lambda b, a, up=True: (solve_triangular(a, b, up), a),
    S(T(3, 2), T(3, 3, law=upper)),
    S(T(3, 2), T(3, 3, law=lower), False),
    invalid=Invalid(S(T(2, 2), T(2, 3)), RuntimeError, ""),
)
linalg("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], S(T(5, 3, law=spaced), T(5, 2)), S(R(3, 3), T(3, 2)), units=256,
       exceptions={"NumPy": "of its four results some are empty, which depends on the shape", "torch": "torch's residuals and rank depend on the driver"}, invalid=Invalid(S(T(3), T(3)), RuntimeError, ""))  # fmt: skip
linalg(
    "tensorinv",
    lambda a, ind=2: np.linalg.tensorinv(a, ind),
    S(T(6, 2, 3, law=lambda a: regular(a.reshape(6, 6)).reshape(a.shape)), ind=1),
    S(T(2, 3, 6, law=lambda a: regular(a.reshape(6, 6)).reshape(a.shape)), ind=2),
    invalid=Invalid(S(T(2, 3, 4)), RuntimeError, ""),
)
linalg(
    "tensorsolve",
    lambda a, b: np.linalg.tensorsolve(a, b),
    S(T(2, 3, 6, law=lambda a: regular(a.reshape(6, 6)).reshape(a.shape)), T(2, 3)),
    invalid=Invalid(S(T(2, 3, 5), T(2, 3)), RuntimeError, ""),
)

# ---- factorizations --------------------------------------------------------------------------------------------


def householder_product(a, tau):
    """The first columns of H0 @ H1 @ ..., H = 1 - tau * v v', v being 1 on the diagonal and a below it."""
    out = np.eye(len(a))
    for i, t in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1.0], a[i + 1 :, i]])
        out = out @ (np.eye(len(a)) - t * np.outer(v, v))
    return out[:, : a.shape[1]]


def cholesky(a, upper=False):
    low = np.linalg.cholesky(a)
    return np.swapaxes(low, -1, -2) if upper else low


matrix("cholesky", cholesky, S(P(3, 3)), S(P(2, 3, 3)), S(P(3, 3), True), invalid=SQUARE,
       exceptions=ONE_SIDE)  # fmt: skip
linalg(
    "cholesky_ex",
    lambda a: (np.linalg.cholesky(a), np.zeros(a.shape[:-2])),
    S(P(3, 3)),
    S(P(2, 3, 3)),
    invalid=SQUARE,
    exceptions=ONE_SIDE,
)
matrix(
    "cholesky_solve",
    lambda b, low: np.linalg.solve(low @ low.T, b),
    S(T(3, 2), T(3, 3, law=lower)),
    units=256,
    exceptions=NOT_READ,
    invalid=Invalid(S(T(2, 2), T(3, 3)), RuntimeError, ""),
)
matrix(
    "cholesky_inverse",
    lambda low: np.linalg.inv(low @ low.T),
    S(T(3, 3, law=lower)),
    units=256,
    exceptions=NOT_READ,
    invalid=SQUARE,
)
linalg(
    "qr",
    lambda a, mode="reduced": (
        list(np.linalg.qr(a)) if mode == "reduced" else [np.zeros(0), np.linalg.qr(a, "r")]
    ),
    S(T(4, 3, law=spaced)),
    S(R(3, 3)),
    S(R(2, 3, 3)),
    S(T(4, 3, law=spaced), "r"),
    canonical=np.abs,
    may_refuse=("depends on Q",),
    exceptions=SIGNS,
    invalid=(Invalid(S(T(3)), RuntimeError, ""), Invalid(S(T(3, 3), "half"), RuntimeError, "mode")),
)
matrix(
    "qr",
    lambda a: list(np.linalg.qr(a)),
    S(T(4, 3, law=spaced)),
    S(R(3, 3)),
    canonical=np.abs,
    exceptions=SIGNS,
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
linalg(
    "svd",
    lambda a, full=True: list(np.linalg.svd(a, full)),
    S(T(4, 3, law=spaced), False),
    S(T(3, 4, law=spaced), False),
    S(R(3, 3)),
    canonical=np.abs,
    exceptions=SIGNS,
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
matrix(
    "svd",
    lambda a: [*np.linalg.svd(a, False)[:2], np.swapaxes(np.linalg.svd(a, False)[2], -1, -2)],
    S(T(4, 3, law=spaced)),
    S(T(3, 4, law=spaced)),
    canonical=np.abs,
    exceptions=SIGNS,
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
linalg(
    "svdvals",
    lambda a: np.linalg.svd(a, compute_uv=False),
    S(T(4, 3, law=spaced)),
    S(T(2, 3, 4, law=spaced)),
    invalid=Invalid(S(T(3)), RuntimeError, ""),
)
linalg(
    "eigh",
    lambda a, uplo="L": list(np.linalg.eigh(a, uplo)),
    S(T(3, 3, law=symmetric)),
    S(T(3, 3, law=symmetric), "U"),
    canonical=np.abs,
    exceptions={**SIGNS, **ONE_SIDE},
    invalid=SQUARE,
)
linalg(
    "eigvalsh",
    lambda a, uplo="L": np.linalg.eigvalsh(a, uplo),
    S(T(3, 3, law=symmetric)),
    S(T(2, 3, 3, law=symmetric), "U"),
    exceptions=ONE_SIDE,
    invalid=SQUARE,
)
linalg(
    "householder_product",
    householder_product,
    S(T(4, 3), T(3)),
    S(T(3, 3), T(2)),
    invalid=Invalid(S(T(2, 3), T(3)), RuntimeError, ""),
)

# ---- products --------------------------------------------------------------------------------------------------

linalg(
    "multi_dot",
    np.linalg.multi_dot,
    S([T(2, 3), T(3, 4), T(4, 2)]),
    S([T(3), T(3, 4), T(4)]),
    S([T(2, 3), T(3)]),
    invalid=Invalid(S([T(2, 3)]), RuntimeError, ""),
)
linalg(
    "vecdot",
    lambda x, y, dim=-1: (x * y).sum(dim),
    S(T(2, 3), T(2, 3)),
    S(T(2, 3), T(3)),
    S(T(2, 3), T(2, 3), dim=0),
    invalid=Invalid(S(T(2, 3), T(2, 4)), RuntimeError, ""),
)
linalg(
    "cross",
    lambda x, y, dim=-1: np.cross(x, y, axis=dim),
    S(T(2, 3), T(2, 3)),
    S(T(3, 2), T(3, 2), dim=0),
    S(T(2, 3), T(1, 3)),
    invalid=Invalid(S(T(2, 4), T(2, 4)), RuntimeError, "length 3"),
)
matrix(
    "cross",
    lambda x, y, dim=-1: np.cross(x, y, axis=dim),
    S(T(2, 3), T(2, 3), 1),
    S(T(3, 2), T(3, 2), 0),
    S(T(2, 3), T(2, 3)),
    invalid=Invalid(S(T(2, 4), T(2, 4), 1), RuntimeError, "length 3"),
)
matrix(
    "chain_matmul_of",
    np.linalg.multi_dot,
    S([T(2, 3), T(3, 4), T(4, 2)]),
    S([T(2, 3), T(3, 2)]),
    torch=lambda matrices: __import__("torch").chain_matmul(*matrices),
    invalid=Invalid(S([T(2, 3), T(4, 2)]), RuntimeError, ""),
)
