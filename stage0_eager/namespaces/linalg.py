"""torch.linalg's names: the public functions on matrices, gathered.

Input: functions/linalg/, where `linalg_svd` is what this module calls `svd`.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation, pointwise, shape, slicing, statistics
from stage0_eager.functions.linalg import decompositions, einsum, elimination, matrix_properties, products
from stage0_eager.kernels.linalg import LinAlgError

# Functions that are called here as they are in the table; the others lose their prefix.
_SAME = {
    decompositions: "det slogdet matrix_exp cholesky",
    einsum: "matrix_power",
    products: "matmul",
    statistics: "vector_norm",
}


def _gathered() -> dict[str, Any]:
    names = {name: getattr(module, name) for module, words in _SAME.items() for name in words.split()}
    for module in (elimination, decompositions, matrix_properties):
        prefixed = [name for name in vars(module) if name.startswith("linalg_")]
        names |= {name.removeprefix("linalg_"): getattr(module, name) for name in prefixed}
    return names | {"inv": decompositions.inverse}


globals().update(_gathered())


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of the last two dimensions."""
    return slicing.diagonal(A, offset, dim1, dim2)


def vander(x: Any, *, N: int | None = None) -> Any:
    """The rising powers of the elements of x (..., n), as (..., n, N). (`cutaway.vander` has them falling.)"""
    columns = x.shape[-1] if N is None else N
    if columns <= 1:
        raise RuntimeError(f"N must be greater than 1, but got {columns}")
    return pointwise.pow(shape.unsqueeze(x, -1), creation.arange(columns, device=x.device))


__all__ = ["LinAlgError", "diagonal", "vander", *_gathered()]
