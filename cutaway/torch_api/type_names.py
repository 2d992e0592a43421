"""torch.types and torch.return_types: names for type checkers, and the classes of results with several parts.

Input: annotations and isinstance tests of published code.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import results
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType

RETURNS = {
    **dict.fromkeys("max min median nanmedian mode sort topk kthvalue cummax cummin".split(), results.ValuesIndices),
    "aminmax": results.MinMax, "frexp": results.MantissaExponent, "slogdet": results.SignLogabsdet,
    "linalg_slogdet": results.SignLogabsdet, "qr": results.QR, "linalg_qr": results.QR, "svd": results.OldSVD,
    "linalg_svd": results.SVD, "linalg_eigh": results.Eigh, "linalg_lstsq": results.Lstsq, "linalg_lu": results.LU,
    "lu_unpack": results.LU, "linalg_lu_factor": results.LUFactor, "linalg_lu_factor_ex": results.LUFactorInfo,
    "linalg_inv_ex": results.InverseInfo, "linalg_cholesky_ex": results.FactorInfo, "geqrf": results.Geqrf,
    "linalg_solve_ex": results.SolveInfo, "triangular_solve": results.SolutionCopy, "histogram": results.Histogram,
    "histogramdd": results.Histogramdd,
}  # fmt: skip
TYPES = {
    "Number": int | float | bool, "Device": Device | str | int | None, "_TensorOrTensors": Any, "Tensor": Tensor,
    "_dtype": DType, "_device": Device, "_int": int, "_float": float, "_bool": bool, "_size": tuple | list,
    "_layout": Any, "FileLike": Any, "IntLikeType": int, "FloatLikeType": float, "BoolLikeType": bool,
}  # fmt: skip

PATHS: dict[str, dict[str, Any]] = {"torch.types": TYPES, "torch.return_types": RETURNS}
