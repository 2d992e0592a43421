"""A contraction in the form that BLAS takes: sizes, the layout of each operand, and the loops over batch dimensions.

Input: a `matmul` step of a Program, with memory for its result. The result is None if BLAS cannot take an operand's
layout (no unit stride, rows that overlap); NumPy then runs the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Product
from stage_contracts.size_vars import never_below

DTYPES = {"float32": "s", "float64": "d"}  # the letter in the names of BLAS functions


@dataclass(frozen=True)
class Matrix:
    """One operand. All numbers count elements: the offset in the buffer, the distance of two rows in memory, and the
    stride of each batch loop."""

    buffer: str
    offset: Any
    transposed: bool
    row: Any
    batch: tuple[Any, ...]


@dataclass(frozen=True)
class Contraction:
    """`c[m, n] = a[m, k] @ b[k, n]`, for each point of the `batch` loops. `letter`: "s" or "d", or the caller's own."""

    letter: str
    m: Any
    n: Any
    k: Any
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[Any, ...]


def contraction(
    step: External, buffers: Mapping[str, Buffer], letters: Mapping[str, str] = DTYPES
) -> Contraction | None:
    """The step as calls of BLAS, or None. `letters`: of the dtypes that the caller can take."""
    if step.target != "matmul" or not step.into or len(step.args) != 2 or step.kwargs:
        return None
    out = buffers[step.outputs[0]].meta
    views = [_laid_out(arg, buffers) for arg in step.args]
    letter = letters.get(out.dtype.name)
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
    """A product inside RowBlocks. It was made from a contraction that BLAS accepts."""
    a, b, c = map(_block_matrix, (product.a, product.b, product.out))
    assert product.a.shape and product.out.shape
    m, n = product.out.shape
    letter = DTYPES[buffers[product.out.name].meta.dtype.name]
    return Contraction(letter, m, n, product.a.shape[1], a, b, c, ())


def _block_matrix(ref: BufferRef) -> Matrix:
    """A Matrix from two strides. One of them is 1; the other is the distance of two rows in memory."""
    assert ref.shape and ref.strides
    down, along = ref.strides
    transposed = ref.shape[1] != 1 if down == along == 1 else along != 1
    return Matrix(ref.name, ref.offset, transposed, along if transposed else down, ())


def _laid_out(arg: Any, buffers: Mapping[str, Buffer]) -> tuple[tuple, tuple, Any] | None:
    """(shape, strides, offset) of an argument in elements; None if the argument is not a buffer, or is empty."""
    if not isinstance(arg, BufferRef):
        return None
    meta = buffers[arg.name].meta
    shape, strides = (
        (meta.shape, meta.strides) if arg.shape is None else (arg.shape, tuple(arg.strides or ()))
    )
    return None if 0 in shape else (tuple(shape), tuple(strides), arg.offset)


def _matrix(name: str, shape: tuple, strides: tuple, offset: Any, batch: tuple) -> Matrix | None:
    """The last two dimensions as a Matrix: the rows or the columns have stride 1."""
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
