"""Whether many tensors are what compiled code was made for, in half the time of asking each for its meta.

Input: guards whose checks of tensors stand in a row (stage_contracts/guards.py): an optimizer's step has hundreds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage_contracts.guards import TensorRow, check_tensor


def check_tensors(tensors: tuple, row: TensorRow) -> bool:
    """As check_tensor of each. An array's meta follows from these facts, so the metas need not be made again."""
    for tensor, facts in zip(tensors, row.facts or ()):
        cls, kind, shape, strides, dtype, requires_grad, index = facts
        if type(tensor) is not cls or tensor._view is not None or tensor.requires_grad is not requires_grad:
            break
        data = tensor._data
        if (
            type(data) is not kind
            or data.shape != shape
            or data.strides != strides
            or data.dtype is not dtype
            or (index is not None and data.data.device_id != index)
        ):
            break
    else:
        if row.facts is not None:
            return True
    if not all(map(check_tensor, tensors, row.wanted)):
        return False
    row.facts = _facts(tensors)
    return True


def _facts(tensors: tuple) -> list[tuple[Any, ...]] | None:
    """Of what the metas are made, with the number of the GPU; None where it is more than this."""
    if any(tensor._view is not None or not _is_plain(tensor._data) for tensor in tensors):
        return None
    return [_facts_of(tensor, tensor._data) for tensor in tensors]


def _is_plain(data: Any) -> bool:
    return type(data) is np.ndarray or hasattr(data, "__cuda_array_interface__")


def _facts_of(tensor: Any, data: Any) -> tuple[Any, ...]:
    index = None if type(data) is np.ndarray else data.data.device_id
    return type(tensor), type(data), data.shape, data.strides, data.dtype, tensor.requires_grad, index
