"""Complex numbers in the table of core operators: which rows take them, and the meta rules that only they have.

Input: rows of core_ops.py. A row that is not listed here refuses complex operands, because most formulas order numbers
or take each for its own conjugate: without a refusal they would give a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stage_contracts import core_metas as m
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.tensor_meta import TensorMeta

TAKES_COMPLEX = frozenset(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh sigmoid abs neg conj isnan isinf logical_not add sub mul div pow eq ne logical_and logical_or logical_xor
    where cast bitcast
    sum prod any all cumsum cumprod
    reshape permute expand slice diagonal unfold as_strided view_as_real view_as_complex
    slice_scatter flip cat constant_pad gather scatter scatter_add nonzero matmul full
    clone contiguous detach to_device
    cholesky triangular_solve solve inv matrix_exp det slogdet qr svd eigh eig
    fft_c2c fft_c2r
    average average_gradient all_reduce reduce broadcast all_gather reduce_scatter all_to_all all_to_all_splits
    """.split()
)
TYPE_NAMES = {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}  # torch's, in its errors


def refused(name: str, dtype: DType) -> NotImplementedError:
    """The error for an operator that is not defined on complex numbers."""
    return NotImplementedError(f'"{name}" not implemented for {TYPE_NAMES[dtype.name]!r}')


def first_complex(args: Any) -> DType | None:
    """The dtype of the first complex operand (a meta, a number, a dtype to compute in), also inside a list."""
    for arg in args:
        if type(arg) in (list, tuple):
            found = first_complex(arg)
        elif isinstance(arg, complex):
            found = dt.scalar_dtype(arg)
        else:
            found = arg if isinstance(arg, DType) else getattr(arg, "dtype", None)
        if isinstance(found, DType) and found.category == dt.COMPLEX:
            return found
    return None


def refused_unless_listed(row: Any) -> Any:
    """The row as it is if it takes complex numbers, else with a meta rule that refuses them first."""
    return row if row.name in TAKES_COMPLEX else replace(row, meta=_refusing(row.name, row.meta))


def _refusing(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    def meta(*args: Any) -> Any:
        found = first_complex(args)
        if found is not None:
            raise refused(name, found)
        return rule(*args)

    meta.__name__ = rule.__name__
    meta.__wrapped__ = rule  # type: ignore[attr-defined]
    return meta


# ---- the rules of the rows that only complex numbers need ----------------------------------------------------------


def absolute(input: TensorMeta) -> TensorMeta:
    return m.elementwise((input,), dt.real_of(input.dtype))


def conj(input: TensorMeta) -> TensorMeta:
    if not input.dtype.is_complex:
        raise RuntimeError(f"core.conj expects a complex tensor, but got one of {input.dtype.name}")
    return m.elementwise((input,), input.dtype)


def view_as_real(input: TensorMeta) -> TensorMeta:
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    strides = (*(step * 2 for step in input.strides), 1)
    shape = (*input.shape, 2)
    return TensorMeta(shape, dt.real_of(input.dtype), strides, input.device)


def view_as_complex(input: TensorMeta) -> TensorMeta:
    if input.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"view_as_complex is only supported for float32 and float64 tensors, but got a tensor of {input.dtype.name}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 != 0 for step in input.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    strides = tuple(step // 2 for step in input.strides[:-1])
    return TensorMeta(input.shape[:-1], dt.complex_of(input.dtype), strides, input.device)
