"""Arithmetic of halves with a number: in float32, and rounded once (stage_contracts/half_numbers.py says of which).

Input: a core operator by name, its formula, operands of which one is a half's, and how an operand is cast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.kernels.formulas import ON_NUMPY
from stage_contracts.dtype import float32

_FLOAT32 = float32.numpy


def rounded_once(
    xp: Any,
    name: str,
    formula: Callable[..., Any],
    operands: tuple,
    half: np.dtype,
    cast: Callable[[Any, np.dtype], Any],
) -> Any:
    """Of halves and a number: in float32, rounded once. On NumPy this takes half the time of arithmetic in float16."""
    if xp is np or name not in ON_NUMPY:
        return formula(*[cast(a, _FLOAT32) for a in operands]).astype(half)
    # on a GPU in one kernel, which casts as it reads and writes: a third of the time
    parts = [a if getattr(a, "dtype", None) == half else cast(a, _FLOAT32) for a in operands]
    out = xp.empty_like(next(a for a in parts if a.dtype == half))
    return getattr(xp, ON_NUMPY[name].__name__)(*parts, out=out, dtype=_FLOAT32, casting="same_kind")
