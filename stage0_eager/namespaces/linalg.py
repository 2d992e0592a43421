"""torch.linalg's names: the public functions on matrices, gathered.

Input: functions/linalg/, where `linalg_svd` is what this module calls `svd`.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import other_operations, slicing, statistics
from stage0_eager.functions.linalg import decompositions, einsum, matrix_properties, products
from stage0_eager.kernels.linalg import LinAlgError

# Functions that are called here as they are in the table; the others lose their prefix.
_SAME = {
    decompositions: "det slogdet matrix_exp cholesky",
    einsum: "matrix_power",
    products: "matmul",
    other_operations: "vander",
    statistics: "vector_norm",
}


def _gathered() -> dict[str, Any]:
    names = {name: getattr(module, name) for module, words in _SAME.items() for name in words.split()}
    for module in (decompositions, matrix_properties):
        prefixed = [name for name in vars(module) if name.startswith("linalg_")]
        names |= {name.removeprefix("linalg_"): getattr(module, name) for name in prefixed}
    return names | {"inv": decompositions.inverse}


globals().update(_gathered())


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of the last two dimensions."""
    return slicing.diagonal(A, offset, dim1, dim2)


def eig(A: Any) -> Any:
    """Not here: a general matrix has complex eigenvalues, and tensors are real."""
    raise NotImplementedError(
        "linalg.eig gives complex results, and tensors here are real; for a symmetric matrix use linalg.eigh, "
        "otherwise numpy.linalg.eig(A.numpy())"
    )


def eigvals(A: Any) -> Any:
    """Not here, as eig."""
    eig(A)


__all__ = ["LinAlgError", "diagonal", "eig", "eigvals", *_gathered()]
