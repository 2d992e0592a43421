"""Matrix products in all ranks, einsum and the like, attention.

Input: none. Integers are products too; tolerance grows with what is added up.
"""

import numpy as np
from scipy import special

from tests.oracle.spec import FLOATS, NUMBERS, B, Invalid, S, T, V, declare, internal

WORDS = {"units": 8}
SIZES = Invalid(S(T(2, 3), T(4, 5)), RuntimeError, "")


def product(name, numpy, *samples, invalid=(), **options):
    declare(name, numpy, *samples, invalid=invalid, **{**WORDS, **options})


product("matmul", np.matmul, S(T(2, 3), T(3, 4)), S(T(3), T(3)), S(T(2, 3), T(3)), S(T(3), T(3, 4)), S(T(2, 1, 2, 3), T(4, 3, 2)), S(T(5, 2, 3), T(3)), S(T(0, 3), T(3, 2)), S(T(2, 0), T(0, 3)),
        dtypes=NUMBERS, invalid=(SIZES, Invalid(S(T(), T(3)), RuntimeError, "at least 1D")))  # fmt: skip
product(
    "mm",
    np.matmul,
    S(T(2, 3), T(3, 4)),
    S(T(0, 3), T(3, 2)),
    dtypes=NUMBERS,
    invalid=(SIZES, Invalid(S(T(3), T(3, 2)), RuntimeError)),
)
product(
    "bmm",
    np.matmul,
    S(T(2, 2, 3), T(2, 3, 4)),
    S(T(0, 2, 3), T(0, 3, 2)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 3), T(3, 2)), RuntimeError), Invalid(S(T(2, 2, 3), T(3, 3, 2)), RuntimeError)),
)
product(
    "mv",
    np.matmul,
    S(T(2, 3), T(3)),
    S(T(0, 3), T(3)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 3), T(2)), RuntimeError),),
)
product(
    "dot",
    np.dot,
    S(T(4), T(4)),
    S(T(0), T(0)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(3), T(4)), RuntimeError), Invalid(S(T(2, 2), T(2, 2)), RuntimeError, "1D")),
)
product(
    "outer",
    np.outer,
    S(T(3), T(4)),
    S(T(0), T(3)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 2), T(2)), RuntimeError),),
)
product(
    "inner",
    np.inner,
    S(T(3), T(3)),
    S(T(2, 4), T(3, 4)),
    S(T(), T(3)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 3), T(2, 4)), RuntimeError),),
)
product(
    "kron",
    np.kron,
    S(T(2, 3), T(3, 2)),
    S(T(2), T(3)),
    S(T(2, 2), T(3)),
    dtypes=NUMBERS,
    torch=lambda a, b: __import__("torch").kron(a.contiguous(), b.contiguous()),
    invalid=(Invalid(S("text", T(2)), TypeError, torch_error=AttributeError),),
)
product(
    "trace",
    lambda x: np.trace(x),
    S(T(3, 3)),
    S(T(2, 4)),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(3)), RuntimeError),),
)
product(
    "matrix_power",
    np.linalg.matrix_power,
    S(T(3, 3), 3),
    S(T(2, 3, 3), 0),
    S(T(3, 3), 1),
    dtypes=FLOATS,
    edges=False,
    invalid=(Invalid(S(T(2, 3), 2), RuntimeError),),
)


def tensordot(a, b, dims=2):
    """Beside a dimension of size 1 another one is summed, whatever its size."""
    left, right = (range(a.ndim - dims, a.ndim), range(dims)) if isinstance(dims, int) else dims
    for i, j in zip(left, right, strict=True):
        if a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdims=True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdims=True, dtype=a.dtype)
    return np.tensordot(a, b, dims)


product(
    "tensordot",
    tensordot,
    S(T(2, 3, 4), T(3, 4, 2)),
    S(T(2, 3), T(4, 3), ([1], [1])),
    S(T(2), T(3), 0),
    S(T(2, 1), T(3, 4), 1),
    S(T(2, 3), T(1, 4), 1),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 3), T(4, 5), 1), RuntimeError),),
)


def added(function):
    """beta * input + alpha * product."""
    return lambda x, a, b, beta=1, alpha=1: (beta * x if beta else 0) + alpha * function(a, b)


_WRONG = (Invalid(S(T(2, 4), T(2, 3), T(2, 4)), RuntimeError),)
product(
    "addmm",
    added(np.matmul),
    S(T(2, 4), T(2, 3), T(3, 4)),
    S(T(4), T(2, 3), T(3, 4), beta=2, alpha=3),
    S(T(2, 4), T(2, 0), T(0, 4)),
    dtypes=NUMBERS,
    invalid=_WRONG,
)
product(
    "addmv",
    added(np.matmul),
    S(T(2), T(2, 3), T(3)),
    S(T(), T(2, 3), T(3), beta=2, alpha=3),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2), T(2, 3), T(2)), RuntimeError),),
)
product(
    "addr",
    added(np.outer),
    S(T(2, 3), T(2), T(3)),
    S(T(3), T(2), T(3), beta=2, alpha=3),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 2), T(2), T(3)), RuntimeError),),
)
product(
    "baddbmm",
    added(np.matmul),
    S(T(2, 2, 4), T(2, 2, 3), T(2, 3, 4)),
    S(T(4), T(2, 2, 3), T(2, 3, 4), beta=2, alpha=3),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 2, 4), T(2, 2, 3), T(2, 5, 4)), RuntimeError),),
)
product(
    "addbmm",
    added(lambda a, b: np.matmul(a, b).sum(0)),
    S(T(2, 4), T(3, 2, 3), T(3, 3, 4)),
    S(T(2, 4), T(3, 2, 3), T(3, 3, 4), beta=2, alpha=3),
    dtypes=NUMBERS,
    invalid=(Invalid(S(T(2, 4), T(3, 2, 3), T(3, 5, 4)), RuntimeError),),
)

product(
    "linear",
    lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    S(T(2, 3), T(4, 3), T(4)),
    S(T(3), T(4, 3)),
    S(T(2, 5, 3), T(4, 3), T(4)),
    S(T(0, 3), T(4, 3)),
    S(T(2, 5, 3), T(3), T()),
    S(T(3), T(3)),
    invalid=(Invalid(S(T(2, 3), T(4, 5)), RuntimeError),),
)
product("bilinear", lambda a, b, w, bias=None: np.einsum("...i,kij,...j->...k", a, w, b) + (0 if bias is None else bias), S(T(2, 3), T(2, 4), T(5, 3, 4), T(5)), S(T(2, 2, 3), T(2, 2, 4), T(5, 3, 4)),
        edges=False, invalid=(Invalid(S(T(2, 3), T(2, 4), T(5, 4, 3)), RuntimeError),))  # fmt: skip
product("einsum", lambda equation, *operands: np.einsum(equation, *operands), S("ij,jk->ik", T(2, 3), T(3, 4)), S("bij,bjk->bik", T(2, 2, 3), T(2, 3, 2)), S("ii->i", T(3, 3)), S("ij->ji", T(2, 3)),
        S("i,j,k->ijk", T(2), T(3), T(2)), S("...ij,...j->...i", T(2, 2, 3), T(3)), S("ij,ij->", T(2, 3), T(2, 3)), S("bhqd,bhkd->bhqk", T(2, 2, 3, 4), T(2, 2, 2, 4)), dtypes=NUMBERS,
        aliasing="torch gives views for equations that only move (ii->i, ij->ji); here some are copies",
    invalid=(Invalid(S("ij,jk->ik", T(2, 3), T(2, 4)), RuntimeError),))  # fmt: skip
internal(einsum_of="einsum")


def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    weights = special.softmax(scores, -1)
    return np.where(np.isneginf(scores).all(-1, keepdims=True), 0, weights) @ v


_QKV = (T(2, 4, 3, 5), T(2, 4, 6, 5), T(2, 4, 6, 7))
product("scaled_dot_product_attention", attention, S(*_QKV), S(*_QKV, is_causal=True), S(*_QKV, B(3, 6)), S(*_QKV, T(2, 1, 3, 6)), S(T(2, 4, 3, 5), T(2, 2, 6, 5), T(2, 2, 6, 5), enable_gqa=True),
        S(*_QKV, V([[-np.inf] * 6, [0.0] * 6, [1.0, -np.inf] * 3], grad=False)), S(*_QKV, scale=0.5), edges=False, units=16,
        invalid=(Invalid(S(*_QKV, B(3, 6), is_causal=True), RuntimeError, "attn_mask should not be set when is_causal"),))  # fmt: skip
