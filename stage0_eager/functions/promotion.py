"""Operands in the dtype that they promote to, for a body that computes on one of them before it joins them.

Input: tensors and numbers. A core operator promotes its operands by itself; a composite's first step sees some of them.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType


def as_operand(value: Any, like: Tensor) -> Tensor:
    """A number as a 0-d tensor beside `like`; a tensor as it is."""
    if isinstance(value, Tensor):
        return value
    number: Tensor = c.full((), value, dt.scalar_dtype(value), like.device)
    return number


def in_dtype(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor itself where it has the dtype."""
    cast: Tensor = tensor if tensor.dtype is dtype else c.cast(tensor, dtype)
    return cast


def common_dtype(*operands: Any) -> DType:
    return core_metas.promoted_dtype([x.meta if isinstance(x, Tensor) else x for x in operands])


def promoted(input: Any, other: Any, to_float: bool = True) -> list[Tensor]:
    """Two operands as tensors of their common dtype; of two integer ones, the default dtype `to_float`."""
    like = input if isinstance(input, Tensor) else other
    wide = common_dtype(input, other)
    wide = dt.DEFAULT_DTYPE.dtype if to_float and not wide.is_differentiable else wide
    return [in_dtype(as_operand(x, like), wide) for x in (input, other)]


def in_common(*tensors: Any) -> list[Any]:
    """The tensors among the operands in the common dtype of all; numbers as they are."""
    kinds = {x.dtype for x in tensors if isinstance(x, Tensor)}
    if len(kinds) == 1:
        return list(tensors)
    wide = common_dtype(*tensors)
    return [in_dtype(x, wide) if isinstance(x, Tensor) else x for x in tensors]


def needs_floating(name: str, tensor: Tensor) -> None:
    """Raise NotImplementedError, as torch does, for an operand of an integer or bool dtype."""
    if not tensor.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {tensor.dtype.name!r}')


def same_dtype(name: str, *tensors: Any) -> None:
    """Raise RuntimeError, as torch does, for tensors that it does not promote to one dtype. Numbers do not count."""
    found = [x.dtype for x in tensors if isinstance(x, Tensor)]
    if any(dtype is not found[0] for dtype in found):
        raise RuntimeError(
            f"{name}: expected all operands to have the same dtype, but got "
            f"{', '.join(dtype.name for dtype in found)}"
        )


def floating_pair(name: str, input: Any, other: Any) -> list[Tensor]:
    """A promoted pair where there is no kernel for integers."""
    pair = promoted(input, other, to_float=False)
    needs_floating(name, pair[0])
    return pair
