"""Conversion of an array to another dtype: the meaning of core.cast where libraries leave it open.

Input: arrays, NumPy dtypes, Python numbers. A float that an integer type cannot represent is undefined in C, and so in
NumPy and CuPy: the result differs with the vector width. Here it is what x86's own conversion gives, which is torch's
result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType


def converted(xp: Any, x: Any, dtype: np.dtype) -> Any:
    """`x` in `dtype`, a new array: floats truncate toward zero into int32, or into int64 for int64.

    NaN and what does not fit there become the smallest number of that type; narrower integers keep its low bits.
    """
    if x.dtype.kind == "c" and dtype.kind not in "cb":  # the imaginary part is dropped, as in torch
        x = x.real
    if dtype.kind == "c" and x.dtype.kind == "V":
        x = x.astype(np.float32)
    if dtype.kind not in "iu" or x.dtype.kind not in "fV":  # V: bfloat16
        return x.astype(dtype)
    if x.dtype.itemsize == 2:
        x = x.astype(np.float32)  # half precision does not hold the limits
    between = np.int64 if dtype.itemsize == 8 else np.int32
    low = x.dtype.type(np.iinfo(between).min)  # a power of two: exact
    fits = (x >= low) & (x < -low)
    return xp.where(fits, x, low).astype(between).astype(dtype, copy=False)


def number_as(value: Any, dtype: DType) -> Any:
    """A Python number that was checked, as one that NumPy takes for the dtype: -1 is 255 for uint8."""
    if type(value) is complex and not dtype.is_complex:
        return value.real  # check_number has seen that nothing is lost
    if dtype.limits is not None and type(value) is int and value < dtype.limits[0]:
        return value % (int(dtype.limits[1]) + 1)
    return value


def _of_complex(array: Any, dtype: DType | None) -> Any:
    """Of Python's complex numbers: in the default precision, or in a dtype that loses no imaginary part."""
    dtype = dt.complex_of(dt.DEFAULT_DTYPE.dtype) if dtype is None else dtype
    if not dtype.is_complex and array.imag.any():
        dt.check_number(array[array.imag != 0].ravel()[0].item(), dtype)  # raises
    return converted(np, array, dtype.numpy)


def of_data(data: Any, dtype: DType | None) -> Any:
    """A new array of numbers, nested lists or an array; Python floats become the default dtype."""
    if hasattr(data, "dtype"):
        xp = arrays.cupy() if hasattr(data, "__cuda_array_interface__") else np
        return data.copy() if dtype is None else converted(xp, data, dtype.numpy)
    array = np.array(data)
    if array.dtype.kind == "c":
        return _of_complex(array, dtype)
    if dtype is None:
        return array.astype(dt.DEFAULT_DTYPE.dtype.numpy) if array.dtype == np.float64 else array
    if dtype.limits is not None and array.dtype.kind in "iuf" and array.size:
        for value in (array.min(), array.max()):  # NaN is its own minimum
            dt.check_number(value.item(), dtype)
    return converted(np, array, dtype.numpy)
