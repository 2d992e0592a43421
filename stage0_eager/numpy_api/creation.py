"""NumPy's arrays from shapes, numbers and lists: zeros, arange, linspace, eye and their like.

Input: shapes, Python numbers, nested lists, tensors. The default dtype is float64, of integers int64.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.numpy_api import promotion
from stage0_eager.numpy_api.rows import NotHere, array, cast, fitted, kind_of, numpy_function, operands
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.dtype import FLOATING, INTEGER


def shape_of(shape: Any) -> tuple:
    """`3` or `(2, 3)` as a tuple."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _order(order: Any) -> None:
    if order not in ("C", "K", "A"):
        raise NotHere(f"order={order!r}")


@numpy_function("zeros", "empty", scalar=False)
def zeros(shape, dtype=dt.float64, order="C"):
    """Zeros. What np.empty leaves open is zero too."""
    _order(order)
    return c.full(shape_of(shape), fitted(0, dtype), dtype, CPU)


@numpy_function("ones", scalar=False)
def ones(shape, dtype=dt.float64, order="C"):
    """Ones."""
    _order(order)
    return c.full(shape_of(shape), fitted(1, dtype), dtype, CPU)


@numpy_function("full", scalar=False)
def full(shape, fill_value, dtype=None, order="C"):
    """Every element `fill_value`, in its own dtype unless one is given."""
    _order(order)
    if isinstance(fill_value, (Tensor, list, tuple)):
        value = array(fill_value, dtype)
        return c.clone(c.expand(value, shape_of(shape)))
    wanted = dtype or promotion.result_type([fill_value])
    return c.full(shape_of(shape), fitted(fill_value, wanted), wanted, CPU)


def _like(a: Any, value: Any, dtype: Any, shape: Any) -> Any:
    a = array(a)
    wanted = dtype or a.dtype
    return c.full(a.shape if shape is None else shape_of(shape), fitted(value, wanted), wanted, a.device)


@numpy_function("zeros_like", "empty_like", scalar=False)
def zeros_like(a, dtype=None, order="K", subok=True, shape=None):
    """Zeros of the shape and dtype of `a`."""
    _order(order)
    return _like(a, 0, dtype, shape)


@numpy_function("ones_like", scalar=False)
def ones_like(a, dtype=None, order="K", subok=True, shape=None):
    """Ones of the shape and dtype of `a`."""
    _order(order)
    return _like(a, 1, dtype, shape)


@numpy_function("full_like", scalar=False)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None):
    """`fill_value` in the shape and dtype of `a`."""
    _order(order)
    if isinstance(fill_value, (Tensor, list, tuple)):
        a = array(a)
        value = array(fill_value, dtype or a.dtype)
        return c.clone(c.expand(value, a.shape if shape is None else shape_of(shape)))
    return _like(a, fill_value, dtype, shape)


@numpy_function("array", scalar=False)
def new_array(object, dtype=None, *, copy=True, order="K", ndmin=0):
    """A new array of numbers, lists or arrays."""
    _order(order)
    out = array(object, dtype)
    if copy and out is object:
        out = c.clone(out)
    return c.reshape(out, (*([1] * (ndmin - out.ndim)), *out.shape)) if ndmin > out.ndim else out


@numpy_function("asarray", "asanyarray", scalar=False, view=True)
def asarray(a, dtype=None, order=None):
    """The array itself where it has the dtype, else one made of it."""
    _order(order or "K")
    return array(a, dtype)


@numpy_function("ascontiguousarray", scalar=False, view=True)
def ascontiguousarray(a, dtype=None):
    """The array in row-major order: itself where it is; at least one dimension."""
    out = array(a, dtype)
    return c.contiguous(out) if out.ndim else c.reshape(out, (1,))


@numpy_function("copy", scalar=False, method=True)
def copy(a, order="K"):
    """A copy."""
    _order(order)
    return c.clone(array(a))


@numpy_function("arange", scalar=False)
def arange(start, stop=None, step=1, dtype=None):
    """start, start + step, ... below stop."""
    start, stop = (0, start) if stop is None else (start, stop)
    numbers = (start, stop, step)
    if any(isinstance(n, Tensor) for n in numbers):
        raise NotHere("arange with arrays as its limits")
    wanted = dtype or promotion.result_type(numbers)
    if wanted is dt.bool_ or step == 0:
        raise NotHere("arange with a step of 0, or of dtype bool")
    if all(promotion.category_of(n) <= INTEGER for n in numbers):
        span = stop - start + (step - 1 if step > 0 else step + 1)
        length = span if step == 1 else span // step
        length = length if length > 0 else 0
    else:
        import math

        length = max(0, math.ceil((stop - start) / step))
    if wanted.category == FLOATING:  # NumPy fills by the difference of the first two, in the dtype itself
        first = fitted(start, wanted)
        delta = (start + step) - start
        return cast(c.iota(length, float(first), float(delta), dt.float64, CPU), wanted)
    if any(isinstance(n, float) for n in numbers):
        raise NotHere("arange of floats with an integer dtype")
    return c.iota(length, start, step, wanted, CPU)


@numpy_function("linspace", scalar=False)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """`num` numbers from start to stop, evenly spaced."""
    if retstep or axis != 0:
        raise NotHere("linspace with retstep or axis")
    first, last = operands(start, stop)
    inner = promotion.result_type([first.dtype, last.dtype, float(num)])
    first, last = cast(first, inner), cast(last, inner)
    parts = num - 1 if endpoint else num
    shape = (num, *([1] * max(first.ndim, last.ndim)))
    index = c.reshape(c.iota(num, 0, 1, inner, CPU), shape)
    span = c.sub(last, first)
    if parts > 0:
        step = c.div(span, parts)
        # a step that rounds to 0 is applied after the division
        out = c.where(c.eq(step, 0), c.mul(c.div(index, parts), span), c.mul(index, step))
    else:
        out = c.mul(index, span)
    out = c.add(out, first)
    if endpoint and num > 1:
        out = c.cat([c.slice(out, 0, 0, num - 1, 1), _row(last, out.shape)], 0)
    wanted = dtype or inner
    return cast(c.floor(out) if wanted.category < FLOATING else out, wanted)


def _row(x: Any, shape: tuple) -> Any:
    return c.expand(c.reshape(x, (1, *x.shape)), (1, *shape[1:]))


@numpy_function("logspace", scalar=False)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None):
    """base ** linspace(start, stop)."""
    exponents = linspace(start, stop, num, endpoint)
    base, exponents = operands(base, exponents)
    out = c.pow(base, exponents)
    return out if dtype is None else cast(out, dtype)


@numpy_function("eye", scalar=False)
def eye(N, M=None, k=0, dtype=dt.float64, order="C"):
    """Ones on the k-th diagonal."""
    _order(order)
    rows = c.reshape(c.iota(N, 0, 1, dt.int64, CPU), (N, 1))
    columns = c.reshape(c.iota(N if M is None else M, 0, 1, dt.int64, CPU), (1, N if M is None else M))
    return c.cast(c.eq(c.sub(columns, rows), k), dtype)


@numpy_function("identity", scalar=False)
def identity(n, dtype=dt.float64):
    """The identity matrix."""
    return eye(n, dtype=dtype)


@numpy_function("tri", scalar=False)
def tri(N, M=None, k=0, dtype=dt.float64):
    """Ones at and below the k-th diagonal."""
    rows = c.reshape(c.iota(N, 0, 1, dt.int64, CPU), (N, 1))
    columns = c.reshape(c.iota(N if M is None else M, 0, 1, dt.int64, CPU), (1, N if M is None else M))
    return c.cast(c.le(c.sub(columns, rows), k), dtype)


@numpy_function("vander", scalar=False)
def vander(x, N=None, increasing=False):
    """Powers of x as columns, the highest first."""
    x = array(x)
    x = cast(x, promotion.promote(x.dtype, dt.int64))
    n = x.shape[0] if N is None else N
    one = c.full(x.shape, fitted(1, x.dtype), x.dtype, x.device)
    powers = [one]
    for _ in range(1, n):
        powers.append(c.mul(powers[-1], x))
    columns = powers[:n] if increasing else powers[:n][::-1]
    if not columns:
        return c.full((x.shape[0], 0), 0, x.dtype, x.device)
    return c.cat([c.reshape(p, (x.shape[0], 1)) for p in columns], 1)


@numpy_function("meshgrid", scalar=False)
def meshgrid(*, xi, indexing="xy"):
    """Coordinate arrays of a grid; capture gives the vectors as one tuple."""
    vectors = [array(x) for x in xi]
    sizes = [v.numel() for v in vectors]
    n = len(vectors)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[:2] = [1, 0]
        sizes[:2] = [sizes[1], sizes[0]]
    out = []
    for v, at in zip(vectors, places, strict=True):
        shape = tuple(v.numel() if d == at else 1 for d in range(n))
        out.append(c.clone(c.expand(c.reshape(v, shape), tuple(sizes))))
    return tuple(out)


__all__ = ["kind_of", "shape_of"]
