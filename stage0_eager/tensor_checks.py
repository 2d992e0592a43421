"""Whether tensors are what compiled code was made for, in two thirds of the time of asking for their metas.

Input: guards of kind TENSOR (stage_contracts/guards.py), which every call of a compiled function checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage_contracts.guards import TensorOf, TensorRow
from stage_contracts.guards import check_tensor as check_by_meta


def check_tensor(tensor: Any, wanted: TensorOf) -> bool:
    """As the contract's check_tensor. An array's meta follows from the facts that are kept here of the last tensor
    that was as expected, so the meta need not be made again."""
    for cls, kind, shape, strides, dtype, requires_grad, index in wanted.facts:
        if (
            type(tensor) is cls
            and tensor._view is None
            and tensor.requires_grad is requires_grad
            and type(data := tensor._data) is kind
            and data.shape == shape
            and data.strides == strides
            and data.dtype is dtype
            and (index is None or data.data.device_id == index)
        ):
            return True
    if not check_by_meta(tensor, wanted):
        return False
    wanted.facts[:] = _facts(tensor)
    return True


def check_tensors(tensors: tuple, row: TensorRow) -> bool:
    """As check_tensor of each."""
    return all(map(check_tensor, tensors, row.wanted))


def _facts(tensor: Any) -> list[tuple[Any, ...]]:
    """Of what its meta is made, with the number of its GPU; nothing where it is made of more than this."""
    if tensor._view is not None:
        return []
    data = tensor._data
    if type(data) is np.ndarray:
        index = None
    elif hasattr(data, "__cuda_array_interface__"):
        index = data.data.device_id
    else:
        return []
    return [(type(tensor), type(data), data.shape, data.strides, data.dtype, tensor.requires_grad, index)]
