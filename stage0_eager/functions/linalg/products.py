"""Public matrix products, by torch's names: bring every rank to the core's matmul of rank 2 and more.

Input: tensors of one dtype. A 1-D operand gets a dimension that is removed again, as in torch.matmul.
"""

from __future__ import annotations

import numpy as np

from stage0_eager.derivatives.rules import conjugate, transpose_last
from stage0_eager.functions.in_float32 import in_float32, is_half_on_cpu
from stage0_eager.functions.numbers import known, scaled
from stage0_eager.functions.promotion import same_dtype
from stage0_eager.kernels.eager import silently
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import quick_step
from stage0_eager.table.operator import Operator, operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt
from stage_contracts.half_numbers import HALVES


@method
@operator
def matmul(input, other):
    """Matrix product; 1-D operands are vectors, leading dimensions broadcast."""
    if input.ndim > 2 and other.ndim == 2:
        return _flat_product(input, other)
    if input.ndim > 1 and other.ndim > 1:
        return c.matmul(input, other)
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D"
        )
    left = c.reshape(input, (1, *input.shape)) if input.ndim == 1 else input
    right = c.reshape(other, (*other.shape, 1)) if other.ndim == 1 else other
    out = c.matmul(left, right)
    shape = list(out.shape)
    if other.ndim == 1:
        shape.pop(-1)
    if input.ndim == 1:
        shape.pop(-1 if other.ndim == 1 else -2)
    return out if len(shape) == out.ndim else c.reshape(out, tuple(shape))


@method
@operator
def mm(input, mat2):
    """Product of two matrices."""
    _need_rank("mm", 2, input, mat2)
    return c.matmul(input, mat2)


@method
@operator
def bmm(input, mat2):
    """Product of two batches of matrices."""
    _need_rank("bmm", 3, input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm: expected two batches of one size, but got {input.shape[0]} and {mat2.shape[0]} matrices"
        )
    return c.matmul(input, mat2)


@method
@operator
@in_float32
def dot(input, tensor):
    """Inner product of two vectors."""
    _need_rank("dot", 1, input, tensor)
    same_dtype("dot", input, tensor)
    return summed(c.mul(input, tensor), (0,))


@method
@operator
def vdot(input, other):
    """The sum of conj(input) * other, of two vectors."""
    return dot(conjugate(input), other)


def summed(x, dims):
    """The sum over dims in x's own dtype, as products of matrices have it: integers wrap."""
    out = c.sum(x, dims, False)
    return out if out.dtype is x.dtype else c.cast(out, x.dtype)


@method
@operator
def outer(input, vec2):
    """Outer product of two vectors."""
    _need_rank("outer", 1, input, vec2)
    return c.mul(c.reshape(input, (*input.shape, 1)), vec2)


@method
@operator
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    return blend(mm, input, mat1, mat2, beta, alpha)


def blend(multiply, input, left, right, beta, alpha):
    """beta * input + alpha * multiply(left, right); for beta 0 the input is not read, NaN and infinities in it neither.

    Halves are blended in float32 and rounded once; with their product on the CPU, and where alpha may make it smaller.
    """
    same_dtype("beta * input + alpha * product", input, left)
    if left.dtype in HALVES and (
        is_half_on_cpu(left) or (left.dtype is dt.float16 and not (known(alpha) and alpha == 1))
    ):
        return _in_one_piece(multiply, input, left, right, beta, alpha)
    if known(beta) and known(alpha) and beta == alpha == 1:
        return c.add(multiply(left, right), input)
    return _blended(input, multiply(left, right), beta, alpha)


def _sum(input, product, beta, alpha):
    if known(beta) and beta == 0:
        return scaled(product, alpha)
    return c.add(scaled(product, alpha), scaled(input, beta))


_blended = in_float32(_sum)


@in_float32
def _in_one_piece(multiply, input, left, right, beta, alpha):
    if known(beta) and known(alpha) and beta == alpha == 1:
        return c.add(multiply(left, right), input)
    return _sum(input, multiply(left, right), beta, alpha)


@operator
def linear(input, weight, bias=None):
    """input @ weight.T + bias, with weight of shape (out_features, in_features), or (in_features,) for one number."""
    if weight.ndim not in (1, 2) or not input.ndim:
        raise RuntimeError(
            f"linear: expected input of 1 or more dimensions and weight of 1 or 2, but got {input.ndim} and "
            f"{weight.ndim}"
        )
    if weight.ndim == 1:
        return matmul(input, weight) if bias is None else _to_one_number(input, weight, bias)
    if (
        bias is not None and input.ndim <= 3
    ):  # a bias of another dtype is added to a product of more dimensions
        same_dtype("linear", bias, input)
    if bias is not None and input.dtype in HALVES and is_half_on_cpu(input):
        return _linear_of_halves(input, weight, bias)
    return _linear(input, weight, bias)


@in_float32
def _to_one_number(input, weight, bias):
    return c.add(matmul(input, weight), bias)


def _linear(input, weight, bias):
    if input.ndim == 1:
        out = c.reshape(
            c.matmul(c.reshape(input, (1, *input.shape)), transpose_last(weight)), (weight.shape[0],)
        )
    elif input.ndim == 2:
        out = c.matmul(input, transpose_last(weight))
    else:
        out = _flat_product(input, transpose_last(weight))
    return out if bias is None else c.add(out, bias)


_linear_in_float32 = in_float32(_linear)


def _linear_of_halves(input, weight, bias):
    """The same in one step where nobody sees the steps: the tape keeps halves, and a small one takes half as long."""
    operands = input, weight, bias
    if STATE.plain and input.ndim > 1 and all(map(_is_half_array, operands)):
        try:
            return quick_step(_STEP, silently(_on_arrays, *(x._data for x in operands)), operands)
        except ValueError:
            pass  # the shapes do not fit: the operators say how
    return _linear_in_float32(input, weight, bias)


def _is_half_array(x):
    return type(x._data) is np.ndarray and x._view is None and x.dtype in HALVES


def _on_arrays(x, weight, bias):
    if not x.dtype == weight.dtype == bias.dtype or bias.shape != weight.shape[:1]:
        raise ValueError
    rows = x.reshape(-1, x.shape[-1]).astype(np.float32)
    out = (rows @ weight.astype(np.float32).T + bias.astype(np.float32)).astype(x.dtype)
    return out.reshape(*x.shape[:-1], len(bias))


def _as_rows(x):
    return x if x.ndim == 2 else c.reshape(x, (_rows(x), x.shape[-1]))


_STEP = Operator("linear", "", body=_linear).derivative(
    input=lambda g, weight: matmul(g, weight),
    weight=lambda g, input: c.matmul(transpose_last(_as_rows(g)), _as_rows(input)),
    bias=lambda g: c.sum(_as_rows(g), (0,), False),
)


def _flat_product(batches, matrix):
    """One large product instead of a batch of small ones; the gradient of `matrix` is one, too."""
    flat = c.reshape(batches, (_rows(batches), batches.shape[-1]))
    return c.reshape(c.matmul(flat, matrix), (*batches.shape[:-1], matrix.shape[1]))


def _rows(x):
    total = 1
    for s in x.shape[:-1]:
        total = total * s
    return total


def _need_rank(name, rank, *tensors):
    for x in tensors:
        if x.ndim != rank:
            raise RuntimeError(
                f"{name}: expected {rank}D tensors, got {', '.join(f'{x.ndim}D' for x in tensors)}"
            )
