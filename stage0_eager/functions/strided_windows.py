"""Views of overlapping elements: unfold and as_strided.

Input: tensors. Both views index the same storage in a different way.
"""

from __future__ import annotations

from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method


@method
@operator
def unfold(input, dimension, size, step):
    """All windows of `size` along `dimension`, `step` apart; their elements are a new last dimension. A view."""
    return c.unfold(input, dimension, size, step)


@method
@operator
def as_strided(input, size, stride, storage_offset=None):
    """The storage under another shape and strides (in elements), from the input's first element on; a view.

    The input must be row-major, and the offset counts from its first element (torch: from the storage's). What
    lies outside of the input is refused with RuntimeError.
    """
    if not input.meta.is_contiguous:
        raise RuntimeError(
            f"as_strided of a tensor with strides {input.stride()} is not supported; expected a row-major one: call "
            ".contiguous() first"
        )
    return c.as_strided(input, tuple(size), tuple(stride), storage_offset or 0)
