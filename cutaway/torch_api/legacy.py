"""torch.FloatTensor and its like: older names for tensors of one dtype, as constructors and as types to test by.

Input: sizes (`FloatTensor(2, 3)`: zeros here, unset memory in torch) or data (`LongTensor([1, 2])`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import DTYPES, DType

KINDS = {
    "BoolTensor": "bool", "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32",
    "LongTensor": "int64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "FloatTensor": "float32",
    "DoubleTensor": "float64",
}  # fmt: skip


class _OfDtype(type):
    """The class of such a name. Its instances are the tensors of that dtype; there are no others."""

    dtype: DType

    def __call__(cls, *sizes_or_data: Any, device: Any = None) -> Tensor:
        if len(sizes_or_data) == 1 and not isinstance(sizes_or_data[0], int):
            return creation.tensor(sizes_or_data[0], dtype=cls.dtype, device=device)
        return creation.zeros(*sizes_or_data or (0,), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype


NAMES: dict[str, Callable[..., Tensor]] = {
    name: _OfDtype(name, (), {"dtype": DTYPES[dtype], "__doc__": f"Tensors of dtype {dtype}."})
    for name, dtype in KINDS.items()
}
