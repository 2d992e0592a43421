"""torch.Size: the sizes of a tensor, a tuple with `numel`. A shape here is a plain tuple, and counts as one.

Input: a program's sizes.
"""

from __future__ import annotations

import math
from typing import Any


class _OfTuples(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) is tuple or cls in type(value).__mro__


class Size(tuple, metaclass=_OfTuples):
    """Size((2, 3)) is (2, 3). Slices, sums and multiples are sizes too."""

    def numel(self) -> int:
        """The number of elements of a tensor of these sizes."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other))) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"
