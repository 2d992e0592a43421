"""Meta rules of the external core operators, with torch's errors for wrong arguments.

Input: the arguments, with a TensorMeta in place of each tensor. The operands of an elementwise row already have the
same dtype. As in torch, the matrices that factorizations and solvers give lie column by column, those of a batch one
after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.core_metas import (
    broadcast_shapes,
    common_device,
    elementwise,
    scan,
    tensors_in,
    wrap_dim,
)
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


def _alike(args: tuple) -> list[TensorMeta]:
    metas = tensors_in(args)
    if any(m.dtype is not metas[0].dtype for m in metas):
        raise RuntimeError(
            f"expected all operands to have the same dtype, but got {', '.join(m.dtype.name for m in metas)}"
        )
    return metas


def floats(*args: Any) -> TensorMeta:
    """The rule of elementwise operators on operands of the same floating dtype."""
    metas = _alike(args)
    if not metas[0].dtype.is_floating_point:
        raise NotImplementedError(
            f"not implemented for {metas[0].dtype.name!r}; cast to a floating dtype first"
        )
    return elementwise(args, metas[0].dtype)


def integers(*args: Any) -> TensorMeta:
    """The rule of elementwise operators on operands of the same integer dtype."""
    metas = _alike(args)
    if metas[0].dtype.category != dt.INTEGER:
        raise NotImplementedError(
            f"not implemented for {metas[0].dtype.name!r}; cast to an integer dtype first"
        )
    return elementwise(args, metas[0].dtype)


def frexp(input: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    mantissa = floats(input)
    return mantissa, mantissa.with_(dtype=dt.int32, strides=mantissa.strides)


def running_floats(input: TensorMeta, dim: int) -> TensorMeta:
    floats(input)
    return scan(input, dim)


def running_extremum(input: TensorMeta, dim: int) -> tuple[TensorMeta, TensorMeta]:
    wrap_dim(dim, input.ndim)
    values = TensorMeta(input.shape, input.dtype, device=input.device)
    return values, values.with_(dtype=dt.int64)


# ---- linear algebra ----------------------------------------------------------------------------------------------


def _matrices(name: str, input: TensorMeta, argument: str = "input") -> TensorMeta:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: The {argument} tensor must have at least 2 dimensions.")
    if not input.dtype.is_differentiable:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {input.dtype.name}"
        )
    if input.dtype.itemsize == 2:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {input.dtype.name}")
    return TensorMeta(input.shape, input.dtype, device=input.device)


def _squares(name: str, input: TensorMeta) -> TensorMeta:
    out = _matrices(name, input)
    rows, columns = input.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices"
        )
    return out


def by_columns(meta: TensorMeta) -> TensorMeta:
    """The meta of matrices (..., m, n) that lie column by column, as LAPACK has them."""
    *batch, rows, columns = meta.shape
    *outer, _, _ = contiguous_strides((*batch, columns, rows))
    return meta.with_(strides=(*outer, 1, rows))


def square(name: str, columns: bool = True) -> Callable[..., TensorMeta]:
    """The rule of a function from square matrices to matrices of the same shape."""

    def rule(input: TensorMeta, upper: bool = False) -> TensorMeta:
        return by_columns(_squares(name, input)) if columns else _squares(name, input)

    return rule


def determinant(input: TensorMeta) -> TensorMeta:
    return _squares("linalg.det", input).with_(shape=input.shape[:-2])


def log_determinant(input: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    out = _squares("linalg.slogdet", input).with_(shape=input.shape[:-2])
    return out, out.with_(dtype=dt.real_of(out.dtype))


def _system(name: str, input: TensorMeta, other: TensorMeta) -> TensorMeta:
    _squares(name, input)
    _matrices(name, other, "right-hand side")
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {input.dtype.name} and B of "
            f"type {other.dtype.name} instead"
        )
    if input.shape[-1] != other.shape[-2]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B "
            f"({input.shape[-2]}x{input.shape[-1]} and {other.shape[-2]}x{other.shape[-1]})"
        )
    batch = broadcast_shapes(input.shape[:-2], other.shape[:-2])
    device = common_device((input, other))
    return by_columns(TensorMeta((*batch, *other.shape[-2:]), other.dtype, device=device))


def solve(input: TensorMeta, other: TensorMeta) -> TensorMeta:
    return _system("linalg.solve", input, other)


def triangular_solve(input: TensorMeta, other: TensorMeta, upper: bool, unitriangular: bool) -> TensorMeta:
    return _system("linalg.solve_triangular", input, other)


def qr(input: TensorMeta, complete: bool) -> tuple[TensorMeta, TensorMeta]:
    out = _matrices("linalg.qr", input)
    *batch, rows, columns = input.shape
    inner = rows if complete else min(rows, columns)
    shapes = (*batch, rows, inner), (*batch, inner, columns)
    return by_columns(out.with_(shape=shapes[0])), by_columns(out.with_(shape=shapes[1]))


def svd(input: TensorMeta, full_matrices: bool) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    out = _matrices("linalg.svd", input)
    *batch, rows, columns = input.shape
    inner = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    return (
        by_columns(out.with_(shape=(*batch, rows, left))),
        out.with_(shape=(*batch, inner), dtype=dt.real_of(out.dtype)),
        by_columns(out.with_(shape=(*batch, right, columns))),
    )


def eigh(input: TensorMeta, upper: bool) -> tuple[TensorMeta, TensorMeta]:
    out = _squares("linalg.eigh", input)
    return out.with_(shape=input.shape[:-1], dtype=dt.real_of(out.dtype)), by_columns(out)
