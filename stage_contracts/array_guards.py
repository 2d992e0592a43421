"""What capture guards about an ndarray (dtype, shape and strides), and which arrays it captures.

Input: the ndarrays of a call. Capture leaves these to NumPy: arrays of strings, objects, dates or records, subclasses,
unaligned arrays, arrays with negative strides, and arrays of a dtype that Tensor does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stage_contracts import dtype as dt
from stage_contracts.guards_open import OpenMeta

# The NumPy dtypes that Tensor has, by type number: the two names of a 64-bit integer differ in the number.
CAPTURED_DTYPES = {
    d.numpy.num: d
    for d in (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64)
}


@dataclass(frozen=True)
class ArrayMeta:
    """An array as a guard describes it. The strides are in bytes, as in NumPy."""

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
    """The guard of an array that is not captured: it fails when the same variable has an array that can be captured."""
    return issubclass(type(array), np.ndarray) and not is_captured(array)


def check_array(array: Any, meta: ArrayMeta) -> bool:
    """Whether an array agrees with `meta`."""
    return (
        type(array) is np.ndarray
        and (array.dtype is meta.dtype or _same_dtype(array.dtype, meta.dtype))
        and array.shape == meta.shape
        and array.strides == meta.strides
        and array.flags.aligned
    )


def _same_dtype(found: Any, wanted: Any) -> bool:
    """Whether two dtypes are equal and have the same type number. NumPy calls the two names of a 64-bit integer equal,
    but a program can see the number."""
    return bool(found == wanted) and found.num == wanted.num


def check_open_array(array: Any, meta: OpenMeta) -> bool:
    """Whether an array agrees with `meta`, with any values of the open sizes."""
    if type(array) is not np.ndarray or array.ndim != len(meta.sizes) or not array.flags.aligned:
        return False
    if array.dtype is not meta.dtype.numpy and not _same_dtype(array.dtype, meta.dtype.numpy):
        return False
    shape, width = array.shape, array.itemsize
    return all(want is None or want == size for want, size in zip(meta.sizes, shape, strict=True)) and (
        array.strides == tuple(step * width for step in meta.strides(shape)) or 0 in shape
    )
