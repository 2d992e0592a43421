"""Composites that compute halves in float32 and round once, as torch does: in between, a half could overflow.

Input: a body over core operators. `widened` and `narrowed` are the same for one tensor, where a body does more between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from stage0_eager.kernels.eager import silently
from stage0_eager.kernels.formulas import ON_NUMPY
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.dtype import DType
from stage_contracts.half_numbers import HALVES


def in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: run `body` on the float32 of operands that are all of one half dtype, and give that dtype back.

    Numbers do not count, nor does a 0-d tensor that stands for one.
    """

    @wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        half = _half_of((*args, *kwargs.values()) if kwargs else args)
        if half is None:
            return body(*args, **kwargs)
        out = body(*map(_wide, args), **{name: _wide(value) for name, value in kwargs.items()})
        return c.cast(out, half)

    return call


def is_half_on_cpu(x: Tensor) -> bool:
    """Whether what follows a product of such is best in float32, too: there, a product of halves is one of float32
    that is rounded. A GPU multiplies halves themselves, and its library rounds once what it adds."""
    return x.dtype in HALVES and x.device == CPU


def _half_of(values: Iterable[Any]) -> DType | None:
    half = None
    for value in values:
        if isinstance(value, Tensor):
            dtype = value.dtype
            if dtype in HALVES:
                if half not in (None, dtype):
                    return None
                half = dtype
            elif value.ndim:
                return None
    return half


def steps_in_float32(steps: Callable[..., Any], *operands: Any) -> Any:
    """`steps(core, *operands)`, pointwise; of halves in float32 and rounded once.

    Where nobody sees the steps, they are NumPy's functions of arrays, which are what the core operators call, too: the
    casts and what stands around them would take twice as long as the rest.
    """
    half = _half_of(operands)
    if half is None:
        return steps(c, *operands)
    if STATE.plain and all(map(_is_bare, operands)):
        try:
            return Tensor(silently(_on_arrays, steps, operands, half.numpy))
        except ValueError:
            pass  # the shapes do not fit: the operators say how
    return c.cast(steps(c, *map(_wide, operands)), half)


def _is_bare(value: Any) -> bool:
    """Whether it is a number, or an array by rows that no tape and no view waits for."""
    if not isinstance(value, Tensor):
        return type(value) is float or value == 1
    data = value._data
    by_rows = type(data) is np.ndarray and data.ndim and data.flags.c_contiguous and 1 not in data.shape
    return bool(by_rows and value.dtype in HALVES) and value._view is None and not value.requires_grad


def _on_arrays(steps: Callable[..., Any], operands: tuple, half: np.dtype) -> np.ndarray:
    wide = [x._data.astype(np.float32) if isinstance(x, Tensor) else np.float32(x) for x in operands]
    out: np.ndarray = steps(_NUMPY, *wide).astype(half)
    return out


_NUMPY = SimpleNamespace(**ON_NUMPY)


def _wide(value: Any) -> Any:
    return c.cast(value, dt.float32) if isinstance(value, Tensor) and value.dtype in HALVES else value


def widened(input: Tensor) -> tuple[Tensor, Any]:
    """(input in float32, its dtype) of a half; else (input, None)."""
    half = input.dtype in HALVES
    return (c.cast(input, dt.float32), input.dtype) if half else (input, None)


def narrowed(out: Tensor, dtype: Any) -> Tensor:
    """What `widened` began: out in the dtype of the input."""
    return out if dtype is None else c.cast(out, dtype)
