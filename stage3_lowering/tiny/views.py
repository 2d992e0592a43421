"""How tiny lowering sees a tensor: as a strided view of a buffer. View operators then compute only strides.

Input: lower.py's values. The element at `index` is at `offset + strides . index` of the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sympy

from stage_contracts import layouts
from stage_contracts.tensor_meta import TensorMeta


class View(NamedTuple):
    """Elements of a buffer: shape, strides and offset in elements."""

    name: str
    meta: TensorMeta  # its strides say where elements are
    offset: int = 0

    def place(self, index: Sequence[Any]) -> Any:
        """Where in the buffer an element is. Shapes align at the right, and a size of 1 repeats: broadcasting."""
        meta, aligned = self.meta, index[len(index) - self.meta.ndim :]
        steps = [s * i for n, s, i in zip(meta.shape, meta.strides, aligned, strict=True) if n != 1]
        return sum(steps, sympy.Integer(self.offset))

    def restrided(self, shape: Sequence[int], strides: Sequence[int]) -> View:
        return self._replace(meta=self.meta.with_(shape=tuple(shape), strides=tuple(strides)))


def concrete(meta: TensorMeta) -> TensorMeta:
    """Symbolic sizes fixed to this call's."""
    return meta.with_(shape=tuple(map(int, meta.shape)), strides=tuple(map(int, meta.strides)))


def permute(input: View, dims: Sequence[int]) -> View:
    return input.restrided([input.meta.shape[d] for d in dims], [input.meta.strides[d] for d in dims])


def expand(input: View, shape: Sequence[int]) -> View:
    """A repeated dimension has stride 0."""
    new = len(shape) - input.meta.ndim
    sizes = zip(input.meta.strides, input.meta.shape, shape[new:], strict=True)
    return input.restrided(shape, [0] * new + [s if n == wide else 0 for s, n, wide in sizes])


def reshape(input: View, shape: Sequence[int]) -> View | None:
    """None where only a copy will do."""
    strides = layouts.view_strides(input.meta, shape)
    return None if strides is None else input.restrided(shape, strides)
