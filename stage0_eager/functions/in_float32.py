"""Composites that compute halves in float32 and round once, as torch does: in between, a half could overflow.

Input: a body over core operators. `widened` and `narrowed` are the same for one tensor, where a body does more between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.half_numbers import HALVES


def in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: run `body` on the float32 of operands that are all of one half dtype, and give that dtype back.

    Numbers do not count, nor does a 0-d tensor that stands for one.
    """

    @wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        half = None
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor) and (value.dtype in HALVES or value.ndim):
                if value.dtype not in HALVES or half not in (None, value.dtype):
                    return body(*args, **kwargs)
                half = value.dtype
        if half is None:
            return body(*args, **kwargs)
        out = body(*map(_wide, args), **{name: _wide(value) for name, value in kwargs.items()})
        return c.cast(out, half)

    return call


def _wide(value: Any) -> Any:
    return c.cast(value, dt.float32) if isinstance(value, Tensor) and value.dtype in HALVES else value


def widened(input: Tensor) -> tuple[Tensor, Any]:
    """(input in float32, its dtype) of a half; else (input, None)."""
    half = input.dtype in HALVES
    return (c.cast(input, dt.float32), input.dtype) if half else (input, None)


def narrowed(out: Tensor, dtype: Any) -> Tensor:
    """What `widened` began: out in the dtype of the input."""
    return out if dtype is None else c.cast(out, dtype)
