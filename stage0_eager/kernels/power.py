"""The formula of x ** y on arrays: by a few products or a root where y is a number that has such a way (powers.py).

Input: as formulas.py says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage_contracts import powers
from stage_contracts.dtype import dtype_of

_STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "square": lambda xp, so_far, x: so_far * so_far,
    "times": lambda xp, so_far, x: so_far * x,
    "sqrt": lambda xp, so_far, x: xp.sqrt(so_far),
    "rsqrt": lambda xp, so_far, x: 1 / xp.sqrt(so_far),
    "reciprocal": lambda xp, so_far, x: 1 / so_far,
}


def power(xp: Any, x: Any, y: Any) -> Any:
    """x ** y; halves in float32, and rounded once."""
    steps = powers.steps_of(y.item(), dtype_of(x.dtype)) if isinstance(y, np.generic) else ()
    if steps:
        wide = so_far = (
            x.astype(np.float32) if x.dtype.itemsize == 2 and dtype_of(x.dtype).is_floating_point else x
        )
        for step in steps:
            so_far = _STEPS[step](xp, so_far, wide)
        return so_far.astype(x.dtype, copy=False)
    if np.result_type(x).kind not in "iu":
        return xp.power(x, y)
    if not np.any(np.less(y, 0)):
        return xp.power(x, y)
    # torch: a negative exponent of an integer tensor gives 1 / x**|y| truncated: 1, -1 or 0
    odd = xp.bitwise_and(y, 1) == 1
    small = xp.where(x == 1, 1, xp.where(x == -1, 1 - 2 * odd, 0))
    return xp.where(y >= 0, xp.power(x, xp.maximum(y, 0)), small).astype(np.result_type(x, y))
