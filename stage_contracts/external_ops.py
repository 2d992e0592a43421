"""The core operators that are routines of the array library: special functions, running reductions, factorizations.

Input: none; core_ops.py makes rows of these. They are called, never fused, so stage 3 has no C++ or Triton for them,
but for the running products and extrema, which are scans of its loops (stage3_lowering/lowering/scan.py).
"""

from __future__ import annotations

from collections.abc import Callable

from stage_contracts import external_metas as m
from stage_contracts.core_metas import scan

# (parameters, meta rule, one `name: meaning` per line)
EXTERNAL: list[tuple[str, Callable, str]] = [
    ("input", m.floats, """
        lgamma: log |gamma(x)|
        digamma: the derivative of log gamma(x)
        erfinv: the inverse of erf
        erfcx: exp(x ** 2) * erfc(x)
        ndtri: the inverse of the normal distribution function
        i0: modified Bessel function of the first kind, order 0
        i0e: exp(-|x|) * i0(x)
        i1: modified Bessel function of the first kind, order 1
        i1e: exp(-|x|) * i1(x)
    """),
    ("input, n", m.floats, "polygamma: the n-th derivative of digamma; n is a number"),
    ("input, other", m.floats, """
        zeta: sum of (y + k) ** -x over k = 0, 1, ...
        gammainc: regularized lower incomplete gamma function of (a, x)
        gammaincc: 1 - gammainc(a, x), accurate where that is small
        nextafter: the next number after x towards y
    """),
    ("input, other", m.integers, "gcd: greatest common divisor, not negative"),
    ("input", m.frexp, "frexp: (mantissa in [0.5, 1), int32 exponent) with x = mantissa * 2 ** exponent"),
    ("input, dim", scan, "cumprod: running product along dim; integers in int64"),
    ("input, dim", m.running_floats, "logcumsumexp: log of the running sum of exp along dim"),
    ("input, dim", m.running_extremum, """
        cummax: (running largest, the last place it was met) along dim; NaN wins
        cummin: (running smallest, the last place it was met) along dim; NaN wins
    """),
    ("input, upper", m.square("linalg.cholesky"), "cholesky: L with L @ L.T = A, or its transpose; reads one triangle"),
    ("input, other, upper, unitriangular", m.triangular_solve,
     "triangular_solve: X with A @ X = B, A taken as triangular (and its diagonal as 1)"),
    ("input, other", m.solve, "solve: X with A @ X = B"),
    ("input", m.square("linalg.inv"), "inv: the inverse"),
    ("input", m.square("linalg.matrix_exp", columns=False), "matrix_exp: sum of A ** k / k!"),
    ("input", m.determinant, "det: determinant"),
    ("input", m.log_determinant, "slogdet: (sign, log of the absolute value) of the determinant"),
    ("input, complete", m.qr, "qr: (Q, R) with Q @ R = A; Q has all columns, or only as many as R needs"),
    ("input, full_matrices", m.svd, "svd: (U, S, Vh) with U @ diag(S) @ Vh = A, S falling"),
    ("input, upper", m.eigh, "eigh: (rising eigenvalues, eigenvectors as columns) of a symmetric A; reads a triangle"),
]  # fmt: skip
