"""The formula of sort, and of its first elements: NumPy's stable order, or words of key and place for many short keys.

Input: as formulas.py says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stage_contracts import core_metas


def sort(xp: Any, x: Any, dim: int, descending: bool, stable: bool) -> tuple:
    if not x.ndim:
        return x.copy(), xp.zeros((), np.int64)
    dim = core_metas.wrap_dim(dim, x.ndim)
    keys = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
    if xp is np and x.size >= _MANY and _fits_in_words(keys, dim):
        order = _order_of_rows(np.moveaxis(keys, dim, -1), descending)
        order = np.moveaxis(order, -1, dim)
    elif descending:  # from the back, so that equal elements keep their order; NaN, sorted last, comes first
        order = xp.flip(xp.argsort(xp.flip(keys, dim), axis=dim, kind="stable"), dim)
        order = x.shape[dim] - 1 - order
    else:
        order = xp.argsort(keys, axis=dim, kind="stable")
    return xp.ascontiguousarray(xp.take_along_axis(x, order, dim)), xp.ascontiguousarray(order)


def first_of_sorted(xp: Any, x: Any, dim: int, descending: bool, stable: bool, count: int) -> tuple:
    """The first `count` elements of each row that sort gives, and where they come from."""
    dim = core_metas.wrap_dim(dim, x.ndim)
    keys = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
    if xp is not np or not _fits_in_words(keys, dim):
        first = tuple([slice(None)] * dim + [slice(count)])
        return tuple(xp.ascontiguousarray(part[first]) for part in sort(xp, x, dim, descending, stable))
    order = np.moveaxis(_order_of_rows(np.moveaxis(keys, dim, -1), descending, count), -1, dim)
    return np.ascontiguousarray(np.take_along_axis(x, order, dim)), np.ascontiguousarray(order)


def _fits_in_words(keys: np.ndarray, dim: int) -> bool:
    """Whether a key and its place fit in a word of 64 bits."""
    return keys.shape[dim] < 1 << 31 and (keys.dtype == np.float32 or np.can_cast(keys.dtype, np.int32))


_MANY = 1 << 13  # elements: for fewer, to make the words takes longer than they save
_ROWS_AT_ONCE = 1 << 15  # elements: 256 KiB of words, which stay in a core's cache


def _order_of_rows(keys: np.ndarray, descending: bool, count: int | None = None) -> np.ndarray:
    """The stable order of each row of keys of 4 bytes, or its first `count` elements: NumPy sorts words of (key,
    place), no two of which are equal, three times as fast as it finds a stable order."""
    size = keys.shape[-1]
    count = size if count is None else count
    rows = keys.reshape(math.prod(keys.shape[:-1]), size)
    order = np.empty((len(rows), count), np.int64)
    places = np.arange(size)
    step = max(1, _ROWS_AT_ONCE // max(size, 1))
    for first in range(0, len(rows), step):
        words = _ordered_integers(rows[first : first + step]).astype(np.int64)
        if descending:
            np.invert(words, words)
        words <<= 32
        words |= places
        if count < size:
            words.partition(count, -1)
            words = words[:, :count]
        words.sort(-1)
        np.bitwise_and(words, 0xFFFFFFFF, order[first : first + step])
    return order.reshape(*keys.shape[:-1], count)


def _ordered_integers(keys: np.ndarray) -> np.ndarray:
    """Integers in the order of keys of 4 bytes or less: floats' bits, without the sign of 0; NaN is the largest."""
    if keys.dtype.kind != "f":
        return keys
    bits = (keys + np.float32(0)).view(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    bits[keys != keys] = 0x7FFFFFFF
    return bits
