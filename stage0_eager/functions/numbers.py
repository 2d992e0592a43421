"""Numbers as arguments of operators: Python's, or a tensor without dimensions where compiled code left one open.

Input: an argument that torch documents as a number. A body asks about its value only where it is known.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor


def known(number: Any) -> bool:
    """Whether a body may look at the value."""
    return not isinstance(number, Tensor)


def scaled(input: Any, factor: Any) -> Any:
    """input * factor; input itself for 1."""
    if type(factor) is complex:
        needs_complex(factor, input)
    if known(factor) and factor == 1:
        return input
    of_numbers = not isinstance(input, Tensor) and not isinstance(factor, Tensor)
    return input * factor if of_numbers else c.mul(input, factor)


def needs_complex(number: complex, input: Any) -> None:
    """Refuse a complex number that would make a real tensor complex."""
    if not (isinstance(input, complex) or (isinstance(input, Tensor) and input.dtype.is_complex)):
        raise RuntimeError(f"value cannot be converted to a real type without overflow: {number}")
