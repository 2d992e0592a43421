"""Questions about dtypes, with torch's names: finfo, iinfo, promote_types, result_type, can_cast.

Input: DTypes, tensors, Python numbers. The answers come from the table in stage_contracts/dtype.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes

from stage0_eager.defaults import dtype_or_default
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType, NamedDType, dtype_of, real_of


class finfo:
    """The limits of a floating dtype: min, max, eps, tiny (smallest_normal), resolution, bits."""

    def __init__(self, type: Any = None) -> None:
        dtype: Any = type if isinstance(type, NamedDType) else real_of(dtype_or_default(type))
        if dtype.numpy.kind not in "fV":
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype.name}'"
            )
        info = ml_dtypes.finfo(dtype.numpy)
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        self.min, self.max = float(info.min), float(info.max)
        self.eps, self.tiny = float(info.eps), float(info.smallest_normal)
        self.smallest_normal, self.resolution = self.tiny, float(info.resolution)

    def __repr__(self) -> str:
        names = "resolution min max eps smallest_normal tiny dtype".split()
        return f"finfo({', '.join(f'{n}={getattr(self, n)}' for n in names)})"


class iinfo:
    """The limits of an integer dtype: min, max, bits."""

    def __init__(self, type: Any) -> None:
        dtype = dtype_of(type)
        if dtype.limits is None:
            raise TypeError(f"{dtype.name} is not supported by torch.iinfo")
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        self.min, self.max = int(dtype.limits[0]), int(dtype.limits[1])

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def promote_types(type1: Any, type2: Any) -> DType:
    """The smallest dtype that holds both."""
    return dt.promote(dtype_of(type1), dtype_of(type2))


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an arithmetic operation on the two, each a tensor or a Python number."""
    return dt.result_type([_operand(tensor1), _operand(tensor2)])


def _operand(value: Any) -> tuple[DType, int]:
    if isinstance(value, Tensor):
        return value.dtype, dt.DIMENSIONED if value.ndim else dt.ZERO_DIM
    return dt.scalar_dtype(value), dt.SCALAR


def can_cast(from_: Any, to: Any) -> bool:
    """Whether the cast stays in its category or goes to a higher one: bool, integers, floating."""
    return dtype_of(from_).category <= dtype_of(to).category


def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    return input.dtype.is_complex


def numel(input: Tensor) -> int:
    return input.numel()
