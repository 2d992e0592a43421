"""The named tuples that functions with several results return, with torch's field names.

Input: none. During capture a result may be a plain tuple; unpack it or index it there.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ValuesIndices(NamedTuple):
    """max, min, cummax, ... along a dimension."""

    values: Any
    indices: Any


class MinMax(NamedTuple):
    """aminmax."""

    min: Any
    max: Any


class MantissaExponent(NamedTuple):
    """frexp."""

    mantissa: Any
    exponent: Any


class SignLogabsdet(NamedTuple):
    """slogdet."""

    sign: Any
    logabsdet: Any


class QR(NamedTuple):
    """linalg.qr."""

    Q: Any
    R: Any


class SVD(NamedTuple):
    """linalg.svd."""

    U: Any
    S: Any
    Vh: Any


class OldSVD(NamedTuple):
    """torch.svd: V, not its transpose."""

    U: Any
    S: Any
    V: Any


class Eig(NamedTuple):
    """linalg.eig."""

    eigenvalues: Any
    eigenvectors: Any


class Eigh(NamedTuple):
    """linalg.eigh."""

    eigenvalues: Any
    eigenvectors: Any


class Lstsq(NamedTuple):
    """linalg.lstsq."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class SolutionCopy(NamedTuple):
    """triangular_solve."""

    solution: Any
    cloned_coefficient: Any


class InverseInfo(NamedTuple):
    """linalg.inv_ex."""

    inverse: Any
    info: Any


class FactorInfo(NamedTuple):
    """linalg.cholesky_ex."""

    L: Any
    info: Any


class SolveInfo(NamedTuple):
    """linalg.solve_ex."""

    result: Any
    info: Any


class Histogram(NamedTuple):
    """histogram."""

    hist: Any
    bin_edges: Any


class Histogramdd(NamedTuple):
    """histogramdd: a list of edges, a tensor per dimension."""

    hist: Any
    bin_edges: Any


class LU(NamedTuple):
    """linalg.lu."""

    P: Any
    L: Any
    U: Any


class LUFactor(NamedTuple):
    """linalg.lu_factor."""

    LU: Any
    pivots: Any


class LUFactorInfo(NamedTuple):
    """linalg.lu_factor_ex."""

    LU: Any
    pivots: Any
    info: Any


class LDLFactor(NamedTuple):
    """linalg.ldl_factor."""

    LD: Any
    pivots: Any


class LDLFactorInfo(NamedTuple):
    """linalg.ldl_factor_ex."""

    LD: Any
    pivots: Any
    info: Any


class Geqrf(NamedTuple):
    """geqrf."""

    a: Any
    tau: Any
