"""What is guarded of an ndarray: dtype, shape and strides; and which arrays are captured at all.

Input: the ndarrays of a call. An array of strings, objects, dates or records, a subclass, an unaligned or reversed one
is left to NumPy, and so is one of a dtype that Tensor does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stage_contracts import dtype as dt
from stage_contracts.guards_open import OpenMeta

# NumPy's own dtypes that Tensor has, by number, which distinguishes the two spellings of a 64-bit integer.
CAPTURED_DTYPES = {
    d.numpy.num: d
    for d in (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64)
}


@dataclass(frozen=True)
class ArrayMeta:
    """An array as its guard has it; strides in bytes, as NumPy counts them."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name} ndarray[{', '.join(map(str, self.shape))}]"


def is_captured(array: Any) -> bool:
    """Whether an ndarray can be a tensor without a copy."""
    return (
        type(array) is np.ndarray
        and array.dtype.num in CAPTURED_DTYPES
        and array.dtype.isnative
        and array.flags.aligned
        and all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    )


def left_to_numpy(array: Any) -> bool:
    """The guard of an array that is not captured: a later one of the same place may be."""
    return issubclass(type(array), np.ndarray) and not is_captured(array)


def check_array(array: Any, meta: ArrayMeta) -> bool:
    """Whether an array is what `meta` says."""
    return (
        type(array) is np.ndarray
        and (array.dtype is meta.dtype or _same_dtype(array.dtype, meta.dtype))
        and array.shape == meta.shape
        and array.strides == meta.strides
        and array.flags.aligned
    )


def _same_dtype(found: Any, wanted: Any) -> bool:
    """Two spellings of a 64-bit integer are equal to NumPy, and not the same to who looks at their numbers."""
    return bool(found == wanted) and found.num == wanted.num


def check_open_array(array: Any, meta: OpenMeta) -> bool:
    """Whether an array is what `meta` says, at any of the open sizes."""
    if type(array) is not np.ndarray or array.ndim != len(meta.sizes) or not array.flags.aligned:
        return False
    if array.dtype is not meta.dtype.numpy and not _same_dtype(array.dtype, meta.dtype.numpy):
        return False
    shape, width = array.shape, array.itemsize
    return all(want is None or want == size for want, size in zip(meta.sizes, shape, strict=True)) and (
        array.strides == tuple(step * width for step in meta.strides(shape)) or 0 in shape
    )
