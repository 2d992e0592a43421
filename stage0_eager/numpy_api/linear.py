"""NumPy's products of arrays, norms and numpy.linalg.

Input: tensors. Integers are multiplied as they are; functions of numpy.linalg work in float64 where those meet them.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions.linalg import decompositions, products
from stage0_eager.functions.linalg import einsum as einsums
from stage0_eager.numpy_api import creation, reductions, shapes
from stage0_eager.numpy_api.rows import NotHere, array, axes_of, axis_of, cast, flat, numpy_function, operands
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING


def _product(x: Any, y: Any) -> Any:
    """matmul; of bools: whether any product is true."""
    if x.dtype is dt.bool_:
        return c.gt(c.matmul(c.cast(x, dt.int64), c.cast(y, dt.int64)), 0)
    return c.matmul(x, y)


def _matmul(x: Any, y: Any) -> Any:
    """matmul with vectors as rows or columns."""
    if not x.ndim or not y.ndim:
        raise NotHere("matmul of a zero-dimensional array")
    left = c.reshape(x, (1, *x.shape)) if x.ndim == 1 else x
    right = c.reshape(y, (*y.shape, 1)) if y.ndim == 1 else y
    out = products.matmul(left, right) if x.dtype is not dt.bool_ else _product(left, right)
    shape = list(out.shape)
    if y.ndim == 1:
        shape.pop()
    if x.ndim == 1:
        shape.pop(-1 if y.ndim == 1 else -2)
    return out if len(shape) == out.ndim else c.reshape(out, tuple(shape))


@numpy_function("matmul", ufunc=True)
def matmul(x1, x2, *, dtype=None):
    """Products of matrices: of the last two axes, the others broadcast."""
    return _matmul(*operands(x1, x2, dtype=dtype))


@numpy_function("dot", method=True)
def dot(a, b):
    """Products summed over the last axis of a and the last but one of b."""
    x, y = operands(array(a), array(b))
    if not x.ndim or not y.ndim:
        return c.mul(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return _matmul(x, y)
    return tensordot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


@numpy_function("vdot")
def vdot(a, b):
    """The dot product of two arrays as vectors."""
    x, y = operands(array(a), array(b))
    return _matmul(flat(x), flat(y))


@numpy_function("inner")
def inner(a, b):
    """Products summed over the last axes."""
    x, y = operands(array(a), array(b))
    if not x.ndim or not y.ndim:
        return c.mul(x, y)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@numpy_function("outer", scalar=False)
def outer(a, b):
    """Every product of an element of a with one of b."""
    x, y = map(flat, operands(array(a), array(b)))
    return c.mul(c.reshape(x, (x.shape[0], 1)), c.reshape(y, (1, y.shape[0])))


@numpy_function("tensordot", scalar=False)
def tensordot(a, b, axes=2):
    """Products summed over pairs of axes: the last n and the first n, or those given."""
    x, y = operands(array(a), array(b))
    if isinstance(axes, int):
        first, second = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        several = [tuple(i) if isinstance(i, (list, tuple)) else (i,) for i in axes]
        first, second = axes_of(several[0], x.ndim), axes_of(several[1], y.ndim)
    if [x.shape[d] for d in first] != [y.shape[d] for d in second]:
        raise NotHere("shape-mismatch for sum")
    rows, columns = (
        [d for d in range(x.ndim) if d not in first],
        [d for d in range(y.ndim) if d not in second],
    )
    n, m, k = (
        reductions.count(x, tuple(rows)),
        reductions.count(y, tuple(columns)),
        reductions.count(x, first),
    )
    left = c.reshape(c.permute(x, (*rows, *first)), (n, k))
    right = c.reshape(c.permute(y, (*second, *columns)), (k, m))
    return c.reshape(_product(left, right), (*(x.shape[d] for d in rows), *(y.shape[d] for d in columns)))


@numpy_function("kron", scalar=False)
def kron(a, b):
    """Every product of an element of a with the block b."""
    x, y = operands(array(a), array(b))
    n = max(x.ndim, y.ndim)
    one, two = ((*([1] * (n - v.ndim)), *v.shape) for v in (x, y))
    left = c.reshape(x, tuple(s for size in one for s in (size, 1)))
    right = c.reshape(y, tuple(s for size in two for s in (1, size)))
    return c.reshape(c.mul(left, right), tuple(p * q for p, q in zip(one, two, strict=True)))


@numpy_function("einsum")
def einsum(*, subscripts, operands_):
    """The sum of products that the subscripts spell; capture gives the operands as one tuple."""
    parts = operands(*operands_)
    if parts[0].dtype is dt.bool_:
        raise NotHere("einsum of bools")
    return einsums.einsum(subscripts, *parts)


@numpy_function("cross", "linalg.cross", scalar=False)
def cross(a, b, axis=-1):
    """The vector product of 3-vectors along the last axis."""
    x, y = operands(a, b)
    if axis != -1 or x.shape[-1] != 3 or y.shape[-1] != 3:
        raise NotHere("cross of vectors that do not have 3 elements along the last axis")
    part = lambda v, i: c.slice(v, v.ndim - 1, i, i + 1, 1)  # noqa: E731
    term = lambda i, j: c.sub(c.mul(part(x, i), part(y, j)), c.mul(part(x, j), part(y, i)))  # noqa: E731
    out = [term(1, 2), term(2, 0), term(0, 1)]
    return c.cat(out, out[0].ndim - 1)


# ---- numpy.linalg -----------------------------------------------------------------------------------------------


def _floating(a: Any) -> Any:
    """A matrix as numpy.linalg takes it: integers in float64, no half precision."""
    a = array(a)
    if a.dtype is dt.float16:
        raise NotHere("float16 in linalg")
    return a if a.dtype.category == FLOATING else cast(a, dt.float64)


@numpy_function("linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    """The 2-norm of vectors (Frobenius of matrices), or the norm that `ord` names."""
    x = array(x)
    x = x if x.dtype.category == FLOATING else cast(x, dt.float64)
    if axis is None and (ord is None or (ord == "fro" and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        line = flat(x)
        out = c.sqrt(_matmul(line, line))
        return c.reshape(out, (1,) * x.ndim) if keepdims else out
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise NotHere("a norm over more than two axes")


def _vector_norm(x: Any, ord: Any, axes: tuple, keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return c.sqrt(c.sum(c.mul(x, x), axes, keepdims))
    if ord == float("inf"):
        return c.amax(c.abs(x), axes, keepdims)
    if ord == float("-inf"):
        return c.amin(c.abs(x), axes, keepdims)
    if ord == 0:
        return c.sum(c.cast(c.ne(x, 0), x.dtype), axes, keepdims)
    if ord == 1:
        return c.sum(c.abs(x), axes, keepdims)
    if not isinstance(ord, (int, float)):
        raise NotHere(f"the norm {ord!r} of vectors")
    return c.pow(c.sum(c.pow(c.abs(x), ord), axes, keepdims), 1 / ord)


def _matrix_norm(x: Any, ord: Any, axes: tuple, keepdims: bool) -> Any:
    if ord in (None, "fro", "f"):
        return c.sqrt(c.sum(c.mul(x, x), axes, keepdims))
    by_order = {1: (0, c.amax), -1: (0, c.amin), float("inf"): (1, c.amax), float("-inf"): (1, c.amin)}
    if ord not in by_order:
        raise NotHere(f"the norm {ord!r} of matrices")
    place, reduce = by_order[ord]
    sums = c.sum(c.abs(x), (axes[place],), True)
    out = reduce(sums, (axes[1 - place],), True)
    if keepdims:
        return out
    return c.reshape(out, tuple(s for d, s in enumerate(x.shape) if d not in axes))


def _from_cutaway(name: str, function: Any) -> None:
    def body(a):
        return function(_floating(a))

    body.__name__, body.__doc__ = name, f"np.linalg.{name}, by the same routine of LAPACK's."
    numpy_function(f"linalg.{name}")(body)


_from_cutaway("inv", decompositions.inverse)
_from_cutaway("det", decompositions.det)


@numpy_function("linalg.solve", scalar=False)
def solve(a, b):
    """x with a @ x = b."""
    a, b = operands(_floating(a), _floating(b))
    vector = b.ndim == 1
    out = c.solve(a, c.reshape(b, (b.shape[0], 1)) if vector else b)
    return c.reshape(out, b.shape) if vector else out


@numpy_function("linalg.matrix_power", scalar=False)
def matrix_power(a, n):
    """a multiplied with itself n times."""
    a = array(a)
    if n < 0 or not isinstance(n, int):
        raise NotHere("a negative power of a matrix")
    if n == 0:
        size = a.shape[-1]
        return c.clone(c.expand(creation.eye(size, dtype=a.dtype), a.shape))
    if n == 3:  # in NumPy's order
        return _matmul(_matmul(a, a), a)
    out, square = None, a
    while n:
        if n & 1:
            out = square if out is None else _matmul(out, square)
        n >>= 1
        square = _matmul(square, square) if n else square
    return c.clone(out) if out is a else out


@numpy_function("linalg.trace")
def linalg_trace(x, *, offset=0, dtype=None):
    """The sum of the diagonal of the last two axes."""
    x = array(x)
    return shapes.trace(x, offset, axis_of(-2, x.ndim), axis_of(-1, x.ndim), dtype)
