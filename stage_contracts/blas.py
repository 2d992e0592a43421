"""A contraction as BLAS sees it: sizes, how each operand lies, and the loops over batch dimensions.

Input: a `matmul` step of a Program whose result has memory. None where an operand lies as BLAS cannot take it (no unit
stride, rows that overlap): such a step is left to NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Product
from stage_contracts.size_vars import never_below

DTYPES = {"float32": "s", "float64": "d"}  # BLAS's letters


@dataclass(frozen=True)
class Matrix:
    """One operand: elements from the buffer's start, from a row to the next as it lies, and per batch loop."""

    buffer: str
    offset: Any
    transposed: bool
    row: Any
    batch: tuple[Any, ...]


@dataclass(frozen=True)
class Contraction:
    """`c[m, n] = a[m, k] @ b[k, n]`, for each point of the `batch` loops. `letter`: "s" or "d"."""

    letter: str
    m: Any
    n: Any
    k: Any
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[Any, ...]


def contraction(step: External, buffers: Mapping[str, Buffer]) -> Contraction | None:
    """The step as calls of BLAS, or None."""
    if step.target != "matmul" or not step.into or len(step.args) != 2 or step.kwargs:
        return None
    out = buffers[step.outputs[0]].meta
    views = [_laid_out(arg, buffers) for arg in step.args]
    letter = DTYPES.get(out.dtype.name)
    if letter is None or None in views or any(buffers[a.name].meta.dtype is not out.dtype for a in step.args):
        return None
    (a_shape, a_strides, a_at), (b_shape, b_strides, b_at) = views  # type: ignore[misc]
    if min(len(a_shape), len(b_shape), len(out.shape)) < 2:
        return None
    m, k = a_shape[-2:]
    n = b_shape[-1]
    batch = tuple(out.shape[:-2])
    matrices = [
        _matrix(ref.name, shape, strides, at, batch)
        for ref, shape, strides, at in (
            (step.args[0], a_shape, a_strides, a_at),
            (step.args[1], b_shape, b_strides, b_at),
            (BufferRef(step.outputs[0]), out.shape, out.strides, 0),
        )
    ]
    if None in matrices or matrices[2].transposed:  # type: ignore[union-attr]
        return None
    a, b, c = matrices
    return Contraction(letter, m, n, k, a, b, c, batch)  # type: ignore[arg-type]


def block_contraction(product: Product, buffers: Mapping[str, Buffer]) -> Contraction:
    """A product inside RowBlocks, which was made of a contraction that BLAS takes."""
    a, b, c = map(_block_matrix, (product.a, product.b, product.out))
    assert product.a.shape and product.out.shape
    m, n = product.out.shape
    letter = DTYPES[buffers[product.out.name].meta.dtype.name]
    return Contraction(letter, m, n, product.a.shape[1], a, b, c, ())


def _block_matrix(ref: BufferRef) -> Matrix:
    """One of its strides is 1, the other goes from a row to the next as it lies."""
    assert ref.shape and ref.strides
    down, along = ref.strides
    transposed = ref.shape[1] != 1 if down == along == 1 else along != 1
    return Matrix(ref.name, ref.offset, transposed, along if transposed else down, ())


def _laid_out(arg: Any, buffers: Mapping[str, Buffer]) -> tuple[tuple, tuple, Any] | None:
    """(shape, strides, offset) of an argument in elements; None for what is no buffer, or is empty."""
    if not isinstance(arg, BufferRef):
        return None
    meta = buffers[arg.name].meta
    shape, strides = (
        (meta.shape, meta.strides) if arg.shape is None else (arg.shape, tuple(arg.strides or ()))
    )
    return None if 0 in shape else (tuple(shape), tuple(strides), arg.offset)


def _matrix(name: str, shape: tuple, strides: tuple, offset: Any, batch: tuple) -> Matrix | None:
    """The last two dimensions as rows with unit stride, or as columns with it."""
    (rows, columns), (down, along) = shape[-2:], strides[-2:]
    missing = len(batch) - (len(shape) - 2)
    # a batch of one is the same for all
    steps = tuple(0 if size == 1 else step for size, step in zip(shape[:-2], strides[:-2], strict=True))
    steps = (0,) * missing + steps
    if (along == 1 or columns == 1) and (rows == 1 or never_below(down, columns)):
        return Matrix(name, offset, False, columns if rows == 1 else down, steps)
    if (down == 1 or rows == 1) and (columns == 1 or never_below(along, rows)):
        return Matrix(name, offset, True, rows if columns == 1 else along, steps)
    return None
