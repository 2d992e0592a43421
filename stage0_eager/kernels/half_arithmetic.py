"""Arithmetic of halves with a number: in float32, and rounded once (stage_contracts/half_numbers.py says of which).

Input: a core operator by name, its formula, operands of which one is a half's, and how an operand is cast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.kernels.formulas import ON_NUMPY
from stage_contracts.dtype import float32
from stage_contracts.half_numbers import HALVES, KEPT

_FLOAT32 = float32.numpy
_HALVES = {half.numpy.num for half in HALVES}


def number_last(name: str, whole: Callable[..., Any], silently: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel, and a shorter way for halves times or divided by a Python float: 1.5 µs less.

    `silently` runs a function without NumPy's warnings.
    """
    if 1 not in KEPT.get(name, ()) or name not in ON_NUMPY:
        return whole
    formula = ON_NUMPY[name]

    def once(x: Any, number: float) -> Any:
        return formula(x.astype(_FLOAT32), _FLOAT32.type(number)).astype(x.dtype)

    def kernel(xp: Any, x: Any, y: Any) -> Any:
        short = xp is np and type(y) is float and x.dtype.num in _HALVES and x.flags.c_contiguous
        return silently(once, x, y) if short and x.ndim and 1 not in x.shape else whole(xp, x, y)

    return kernel


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
