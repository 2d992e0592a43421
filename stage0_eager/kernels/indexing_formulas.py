"""Formulas of the operators whose places come from an index tensor: gather, scatter and its adding kinds.

Input: arrays in core_ops.py's normal form. An index that repeats one vector moves whole slices instead of elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts import core_metas
from stage_contracts.dtype import bfloat16
from stage_contracts.errors import OutOfRange


def _checked_index(xp: Any, index: Any, size: int) -> Any:
    if index.size and (int(index.min()) < -size or int(index.max()) >= size):
        bad = int(index.max()) if int(index.max()) >= size else int(index.min())
        raise OutOfRange(f"index {bad} is out of bounds for dimension with size {size}")
    return index


def _grid(xp: Any, x: Any, dim: int, index: Any) -> tuple:
    """Open index arrays that address `x[..., index, ...]` element by element along `dim`."""
    if not x.ndim:
        _checked_index(xp, index, 1)
        return (...,)
    dim = core_metas.wrap_dim(dim, x.ndim)
    _checked_index(xp, index, x.shape[dim])
    grid = list(xp.ogrid[tuple(slice(0, s) for s in index.shape)])
    grid[dim] = index
    return tuple(grid)


def _vector_of(x: Any, dim: int, index: Any) -> Any:
    """The one vector that `index` repeats for every element beside `dim`, or None: whole slices move then."""
    beside = [d for d in range(x.ndim) if d != dim]
    repeated = all(index.strides[d] == 0 and index.shape[d] == x.shape[d] for d in beside)
    if not repeated or not index.size or x.ndim < 2:
        return None
    return index[tuple(slice(None) if d == dim else 0 for d in range(x.ndim))]


def gather(xp: Any, x: Any, dim: int, index: Any) -> Any:
    if x.ndim and (vector := _vector_of(x, dim % x.ndim, index)) is not None:
        return xp.take(x, _checked_index(xp, vector, x.shape[dim]), axis=dim)
    picked = x[_grid(xp, x, dim, index)]
    return picked if x.ndim else picked.copy()


def scatter(xp: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    out = arrays.copy_as_laid_out(xp, x)
    out[_grid(xp, x, dim, index)] = src[tuple(slice(0, s) for s in index.shape)]
    return out


def _parts(xp: Any, out: Any, src: Any) -> list[tuple[Any, Any]]:
    """(array, what is added to it). CuPy adds at places real numbers only: of complex ones, each part."""
    return [(out, src)] if xp is np or out.dtype.kind != "c" else [(out.real, src.real), (out.imag, src.imag)]


def scatter_add(xp: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    out = arrays.copy_as_laid_out(xp, x)
    src = src[tuple(slice(0, s) for s in index.shape)]
    grid = _grid(xp, x, dim, index)
    if xp is not np and out.dtype == bfloat16.numpy:  # which CuPy adds at no places
        wide = out.astype(np.float32)
        xp.add.at(wide, grid, src.astype(np.float32))
        return wide.astype(out.dtype)
    if xp is not np or not x.ndim or not out.flags.c_contiguous:
        for target, added in _parts(xp, out, src):
            xp.add.at(target, grid, added)
        return out
    dim %= x.ndim
    vector = _vector_of(x, dim, index)
    if vector is not None and src.size >= 64 * vector.size:  # few slices, each large
        rows, parts = np.moveaxis(out, dim, 0), np.moveaxis(src, dim, 0)
        for i, part in zip(vector.tolist(), parts, strict=False):
            row = rows[i]
            np.add(row, part, row)
        return out
    # NumPy adds at places of a vector ten times as fast as at places of a grid
    flat = sum(
        np.where(places < 0, places + size, places) * (stride // out.itemsize)
        for places, size, stride in zip(grid, out.shape, out.strides, strict=True)
    )
    _add_at(out.reshape(-1), flat.reshape(-1), src.reshape(-1))
    return out


def _add_at(x: np.ndarray, places: np.ndarray, added: np.ndarray) -> None:
    """x[places] += added, one after the other; of halves in float32, and each place is rounded once."""
    if x.dtype not in _HALVES:
        np.add.at(x, places, added)
        return
    few = len(places) * _MANY_TO_ONE < len(x)
    found, at = np.unique(places, return_inverse=True) if few else (slice(None), places)
    wide = x[found].astype(np.float32)
    np.add.at(wide, at, added.astype(np.float32))
    x[found] = wide.astype(x.dtype)


_HALVES = (np.dtype(np.float16), bfloat16.numpy)
_MANY_TO_ONE = 16  # to sort a place takes as long as to convert so many elements


_REDUCE_AT = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


def scatter_reduce(xp: Any, x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    if xp is not np and reduce == "prod":  # CuPy has no multiply.at
        return xp.asarray(scatter_reduce(np, x.get(), dim, index.get(), src.get(), reduce))
    out = arrays.copy_as_laid_out(xp, x)
    ufunc = getattr(xp, _REDUCE_AT[reduce])
    ufunc.at(out, _grid(xp, x, dim, index), src[tuple(slice(0, s) for s in index.shape)])
    return out
