"""Whether many tensors are what compiled code was made for, in half the time of asking each for its meta.

Input: guards whose checks of tensors stand in a row (stage_contracts/guards.py): an optimizer's step has hundreds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage_contracts.guards import TensorRow, check_tensor


def check_tensors(tensors: tuple, row: TensorRow) -> bool:
    """As check_tensor of each. A NumPy array's meta follows from four facts, so the metas need not be made again."""
    for tensor, facts in zip(tensors, row.facts or ()):
        cls, shape, strides, dtype, requires_grad = facts
        if type(tensor) is not cls or tensor._view is not None or tensor.requires_grad is not requires_grad:
            break
        data = tensor._data
        if (
            type(data) is not np.ndarray
            or data.shape != shape
            or data.strides != strides
            or data.dtype is not dtype
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
    """Of what the metas are made; None where it is more than this."""
    if any(tensor._view is not None or type(tensor._data) is not np.ndarray for tensor in tensors):
        return None
    return [(type(t), t._data.shape, t._data.strides, t._data.dtype, t.requires_grad) for t in tensors]
