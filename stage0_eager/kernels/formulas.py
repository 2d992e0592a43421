"""The formulas of the core operators on arrays, each written once for the array namespace (`xp`: numpy, cupy).

Input: arrays and Python arguments in core_ops.py's normal form. Operands of pointwise formulas already have the dtype
of the arithmetic; eager.py takes care of that, of layouts and of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.kernels import complex_formulas, host_copies, indexing_formulas
from stage0_eager.kernels import convolution as convolution_kernels
from stage0_eager.kernels.conversion import converted, number_as
from stage0_eager.kernels.power import power
from stage0_eager.kernels.sorting import sort
from stage0_eager.kernels.tensor_core_products import tensor_core_matmul
from stage0_eager.random.philox import philox_words
from stage_contracts import core_metas, view_metas
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.matmul_precision import tf32_allowed

# ---- more than one library call -------------------------------------------------------------


def special_functions(xp: Any) -> Any:
    if xp is np:
        import scipy.special as special
    else:
        import cupyx.scipy.special as special
    return special


def _half_safe(function: Callable) -> Callable:
    """For library functions without half-precision loops: compute in float32, round once."""

    def kernel(xp: Any, x: Any) -> Any:
        if x.dtype.itemsize == 2:
            return function(xp, x.astype(np.float32)).astype(x.dtype)
        return function(xp, x)

    return kernel


def _sigmoid(xp: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return 1 / (1 + xp.exp(-x))
    # e^-|x| never overflows; the two branches are 1/(1+e) and e/(1+e). The numerator x==x keeps NaN.
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, xp.ones_like(x), e) / (1 + e)


def _sign(xp: Any, x: Any) -> Any:
    if x.dtype.kind == "b":
        return arrays.copy_as_laid_out(xp, x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)  # 0 for NaN and for -0


def _divides_by_zero(x: Any, y: Any) -> bool:
    return bool(np.size(x) and np.any(np.equal(y, 0)))  # of no elements none is divided


def _floor_divide(xp: Any, x: Any, y: Any) -> Any:
    if np.result_type(x).kind in "iu":
        if _divides_by_zero(x, y):
            raise RuntimeError("ZeroDivisionError: integer division by zero")
        return xp.floor_divide(x, y)
    return xp.floor_divide(x, y) if xp is np else _divmod_on_cuda(xp, x, y)[0]


def _remainder(xp: Any, x: Any, y: Any) -> Any:
    if np.result_type(x).kind in "iu" and _divides_by_zero(x, y):
        raise RuntimeError("ZeroDivisionError: integer modulo by zero")
    if xp is np or np.result_type(x).kind in "iu":
        return xp.remainder(x, y)
    return _divmod_on_cuda(xp, x, y)[1]


def _divmod_on_cuda(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Floats' (floor division, remainder), from the exact fmod: CuPy's own round the quotient first."""
    rest = xp.fmod(x, y)
    across = (rest != 0) & ((rest < 0) != (y < 0))  # fmod has the sign of x, remainder that of y
    ratio = (x - rest) / y - across
    whole = xp.floor(ratio)
    whole = xp.where(ratio - whole > 0.5, whole + 1, whole)
    whole = xp.where(ratio == 0, xp.copysign(0 * whole, x / y), whole)
    rest = xp.where(across, rest + y, xp.where(rest == 0, xp.copysign(rest, y), rest))
    whole = xp.where(y == 0, x / y, whole)
    return whole.astype(x.dtype), rest.astype(x.dtype)  # CuPy gives float32 for bfloat16


def _fmod(xp: Any, x: Any, y: Any) -> Any:
    if np.result_type(x).kind in "iu" and _divides_by_zero(x, y):
        raise RuntimeError("ZeroDivisionError: integer modulo by zero")
    if xp is not np and x.dtype.kind in "iu":  # CuPy's goes through floats, which lose large numbers
        rest = xp.remainder(x, y)
        return rest - xp.where((rest != 0) & ((rest < 0) != (x < 0)), y, 0).astype(x.dtype)
    return xp.fmod(x, y)


def _left_shift(xp: Any, x: Any, y: Any) -> Any:
    bits = 8 * np.result_type(x).itemsize
    if isinstance(y, np.integer) and 0 <= int(y) < bits:  # one number for all: nothing to choose
        return xp.left_shift(x, y)
    return xp.where((y >= 0) & (y < bits), xp.left_shift(x, xp.clip(y, 0, bits - 1)), xp.zeros_like(x))


def _right_shift(xp: Any, x: Any, y: Any) -> Any:
    bits = 8 * np.result_type(x).itemsize
    if isinstance(y, np.integer) and 0 <= int(y) < bits:  # one number for all: nothing to choose
        return xp.right_shift(x, y)
    far = xp.where(xp.less(x, 0), -1, 0)  # all bits shifted out: the sign is left
    return xp.where((y >= 0) & (y < bits), xp.right_shift(x, xp.clip(y, 0, bits - 1)), far.astype(x.dtype))


def _axes(x: Any, dims: tuple) -> tuple:
    if x.ndim:
        return dims
    if dims not in ((), (0,), (-1,)):
        raise ValueError("the meta rule says why")
    return ()  # dimension 0 of a 0-d tensor is a way to say: the one element


MANY = 4096  # from this number of elements on, another way to reduce is faster
_BETWEEN = {"sum": np.add, "prod": np.multiply}


ROWS = 32  # that are added up before their sum is added to another


def _in_blocks(x: Any, axes: tuple) -> Any:
    """What to sum over `axes` in place of x: sums of blocks of rows, where NumPy would add row after row.

    It adds in pairs along memory alone. Across it, the error of n additions grows with n; in blocks, with n / 32.
    """
    places = {d % x.ndim for d in axes}
    wide = [d for d in range(x.ndim) if x.shape[d] > 1]
    if min(wide, key=lambda d: abs(x.strides[d]), default=0) in places:
        return x
    while x.shape[d := max(places, key=lambda d: x.shape[d])] >= 2 * ROWS:
        blocks, left = divmod(x.shape[d], ROWS)
        before = (slice(None),) * d
        shape = (*x.shape[:d], blocks, ROWS, *x.shape[d + 1 :])
        sums = np.add.reduce(x[*before, : blocks * ROWS].reshape(shape), d + 1)
        rest = [np.add.reduce(x[*before, -left:], d, keepdims=True)] if left else []
        x = np.concatenate([sums, *rest], d) if left else sums
    return x


def _reduce_few(combine: Any, x: Any, axes: tuple, keepdim: bool) -> Any:
    """A reduction of few elements each, slice by slice: along a short last axis NumPy's own takes ten times as long."""
    places = [range(size) if d in axes or d - x.ndim in axes else (None,) for d, size in enumerate(x.shape)]
    parts = [
        x[tuple(slice(None) if i is None else slice(i, i + 1) if keepdim else i for i in at)]
        for at in product(*places)
    ]
    out = combine(parts[0], parts[1])
    for part in parts[2:]:
        combine(out, part, out=out)
    return out


def _wide_reduction(name: str) -> Callable:
    """sum and prod: integers in int64; half precision in float32, rounded once."""

    on_numpy = REDUCE[name]

    def kernel(xp: Any, x: Any, dims: tuple, keepdim: bool = False) -> Any:
        axes, dtype = dims if x.ndim else _axes(x, dims), x.dtype
        if xp is np and dtype.kind == "f" and dtype.itemsize > 2:
            few = x.size > MANY and 1 < math.prod([x.shape[d] for d in axes]) <= 8
            if few and len({d % x.ndim for d in axes}) == len(axes):
                return _reduce_few(_BETWEEN[name], x, axes, keepdim)
            if name == "sum" and x.size > MANY and dtype == np.float32:
                x = _in_blocks(x, axes)
            return on_numpy(x, axes, None, None, keepdim)
        reduce = getattr(xp, name)
        if dtype.kind in "biu":
            return reduce(x, axis=axes, keepdims=keepdim, dtype=np.int64)
        if dtype.itemsize == 2:
            return reduce(x, axis=axes, keepdims=keepdim, dtype=np.float32).astype(dtype)
        return reduce(x, axis=axes, keepdims=keepdim)

    return kernel


# What np.sum and its like call in the end: 2 µs less.
REDUCE: dict[str, Callable] = {
    "sum": np.add.reduce, "prod": np.multiply.reduce, "amax": np.maximum.reduce, "amin": np.minimum.reduce,
    "any": np.logical_or.reduce, "all": np.logical_and.reduce,
}  # fmt: skip


def _reduction(name: str) -> Callable:
    on_numpy = REDUCE[name]

    def kernel(xp: Any, x: Any, dims: tuple, keepdim: bool = False) -> Any:
        axes = dims if x.ndim else _axes(x, dims)
        if xp is np:
            return on_numpy(x, axes, None, None, keepdim)
        return getattr(xp, name)(x, axis=axes, keepdims=keepdim)

    return kernel


def _arg_extremum(name: str) -> Callable:
    def kernel(xp: Any, x: Any, dim: int, keepdim: bool = False) -> Any:
        if not _axes(x, (dim,)):
            return xp.zeros((), np.int64)
        return getattr(xp, name)(x, axis=dim, keepdims=keepdim).astype(np.int64)

    return kernel


def _cumsum(xp: Any, x: Any, dim: int) -> Any:
    if x.dtype.kind in "biu":
        x = x.astype(np.int64)
    if not _axes(x, (dim,)):
        return x.copy()
    if x.dtype.itemsize == 2:
        return xp.cumsum(x, axis=dim, dtype=np.float32).astype(x.dtype)
    return xp.cumsum(x, axis=dim)


def _matmul(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":  # half precision: products and sums in float32
        if xp is not np:
            return tensor_core_matmul(xp, x, y)
        return xp.matmul(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    if xp is not np and x.dtype.char in "fF" and tf32_allowed() and x.ndim > 1 and y.ndim > 1:
        return tensor_core_matmul(xp, x, y)
    return x.dot(y) if x.ndim == 2 == y.ndim else xp.matmul(x, y)  # dot: 0.9 µs less on tiny matrices


def _expand(xp: Any, x: Any, shape: tuple) -> Any:
    lead = len(shape) - x.ndim
    sizes = [x.shape[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(shape)]
    out = xp.broadcast_to(x, tuple(sizes))
    if xp is np:
        out.flags.writeable = x.flags.writeable
        return out
    steps = [0 if size == 1 else stride for size, stride in zip(x.shape, x.strides, strict=True)]
    # as NumPy: a size of 1 never steps
    return xp.lib.stride_tricks.as_strided(out, out.shape, [0] * lead + steps)


def _permute(xp: Any, x: Any, dims: tuple) -> Any:
    return x.transpose(dims)


def _reshape(xp: Any, x: Any, shape: tuple) -> Any:
    return x.reshape(shape)


def _slice(xp: Any, x: Any, dim: int, start: Any, stop: Any, step: int = 1) -> Any:
    return x[_window(x.ndim, dim, start, stop, step)]


@lru_cache(maxsize=4096)  # programs cut at the same places again and again: 0.8 µs less
def _window(ndim: int, dim: int, start: Any, stop: Any, step: int) -> tuple:
    if step <= 0:
        raise ValueError(f"step must be greater than zero, got {step}")
    index: list[Any] = [slice(None)] * ndim
    index[core_metas.wrap_dim(dim, ndim)] = slice(start, stop, step)
    return tuple(index)


def _diagonal(xp: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    first, second, length = view_metas.diagonal_window(x.shape, offset, dim1, dim2)
    rest = [d for d in range(x.ndim) if d not in (first, second)]
    x = x.transpose([*rest, first, second])
    x = x[..., max(-offset, 0) :, max(offset, 0) :][..., :length, :length]
    return _strided(x, (*x.shape[:-2], length), (*x.strides[:-2], x.strides[-2] + x.strides[-1]))


def _unfold(xp: Any, x: Any, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return x.reshape(1)[:size]
    dim = core_metas.wrap_dim(dim, x.ndim)
    shape, strides = list(x.shape), list(x.strides)
    shape[dim], strides[dim] = (x.shape[dim] - size) // step + 1, strides[dim] * step
    return _strided(x, (*shape, size), (*strides, x.strides[dim]))


def _as_strided(xp: Any, x: Any, shape: tuple, strides: tuple, offset: int) -> Any:
    flat = x.reshape(-1)[offset:]
    return _strided(flat, shape, [step * x.itemsize for step in strides])


def _strided(x: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A view with other strides, in bytes; the meta rule has seen to it that it stays inside."""
    library = np if type(x) is np.ndarray else arrays.cupy()
    return library.lib.stride_tricks.as_strided(x, tuple(shape), tuple(strides))


def _slice_scatter(xp: Any, x: Any, src: Any, dim: int, start: Any, stop: Any, step: int = 1) -> Any:
    out = arrays.copy_as_laid_out(xp, x)
    out[_window(x.ndim, dim, start, stop, step)] = src
    return out


def _flip(xp: Any, x: Any, dims: tuple) -> Any:
    out = arrays.copy_as_laid_out(xp, x)
    out[...] = xp.flip(x, dims) if x.ndim else x
    return out


def _cat(xp: Any, tensors: list, dim: int) -> Any:
    if len({t.dtype for t in tensors}) == 1:
        return xp.concatenate(tensors, axis=dim)
    common = dt.result_type((dt.dtype_of(t.dtype), 0 if t.ndim else 1) for t in tensors)
    return xp.concatenate([t.astype(common.numpy, copy=False) for t in tensors], axis=dim)


def _constant_pad(xp: Any, x: Any, pads: tuple, value: Any) -> Any:
    value = number_as(value, dt.dtype_of(x.dtype))  # the meta rule has checked it
    if not x.ndim:
        return x.copy()
    crop = tuple(slice(max(-a, 0), x.shape[i] - max(-b, 0)) for i, (a, b) in enumerate(pads))
    x = x[crop]
    out = xp.full(
        [max(a, 0) + s + max(b, 0) for s, (a, b) in zip(x.shape, pads, strict=True)], value, x.dtype
    )
    out[tuple(slice(max(a, 0), max(a, 0) + s) for s, (a, _) in zip(x.shape, pads, strict=True))] = x
    return out  # 10 µs less than xp.pad


def _nonzero(xp: Any, x: Any) -> Any:
    if xp is not np or x.ndim < 2 or not x.size:
        return xp.ascontiguousarray(xp.argwhere(x)).reshape(-1, x.ndim)
    # NumPy finds places of a vector ten times as fast as those of a grid
    grid = np.ascontiguousarray(x != 0)
    rows = grid.reshape(-1, grid.shape[-1])
    counts = np.count_nonzero(rows, axis=-1)
    last, starts = np.flatnonzero(rows), np.arange(len(rows)) * rows.shape[-1]
    out = np.empty((len(last), x.ndim), np.int64)
    for d, places in enumerate(np.unravel_index(np.arange(len(rows)), x.shape[:-1])):
        out[:, d] = np.repeat(places, counts)
    np.subtract(last, np.repeat(starts, counts), out[:, -1])
    return out


def _full(xp: Any, shape: tuple, value: Any, dtype: DType, device: Any) -> Any:
    dt.check_number(value, dtype)
    number, there = number_as(value, dtype), arrays.namespace(device)
    if number == 0 and not np.signbit(np.real(number)) and not np.signbit(np.imag(number)):
        return there.zeros(shape, dtype.numpy)  # pages that nobody has written yet
    if dtype.itemsize == 2 and dtype.is_floating_point:  # it may be larger than any half
        with np.errstate(over="ignore"):
            return there.full(shape, number, dtype.numpy)
    return there.full(shape, number, dtype.numpy)


def _iota(xp: Any, length: int, start: Any, step: Any, dtype: DType, device: Any) -> Any:
    there = arrays.namespace(device)
    return converted(there, start + there.arange(length) * step, dtype.numpy)


def _cast(xp: Any, x: Any, dtype: DType) -> Any:
    return converted(xp, x, dtype.numpy)


def _bitcast(xp: Any, x: Any, dtype: DType) -> Any:
    core_metas.check_bitcast(dt.dtype_of(x.dtype), dtype)
    return arrays.copy_as_laid_out(xp, x).view(dtype.numpy)


OVERLAPS = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)


def _copy_(xp: Any, dst: Any, src: Any) -> Any:
    if src.ndim > dst.ndim:
        raise ValueError("the meta rule says why")  # NumPy would drop leading sizes of 1
    if dst.size and any(
        stride == 0 and size > 1 for size, stride in zip(dst.shape, dst.strides, strict=True)
    ):
        raise RuntimeError(OVERLAPS)
    dst[...] = converted(xp, src, dst.dtype)
    return dst


# ---- the table ------------------------------------------------------------------------------------------------

# Operators that are one function of the array namespace under its NumPy name.
_NUMPY_NAMES = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "abs": "absolute", "floor": "floor", "ceil": "ceil", "round": "rint",
    "trunc": "trunc", "neg": "negative", "sign": "sign", "isnan": "isnan", "isinf": "isinf",
    "logical_not": "logical_not", "bitwise_not": "invert", "add": "add", "sub": "subtract", "mul": "multiply",
    "div": "true_divide", "maximum": "maximum", "minimum": "minimum", "atan2": "arctan2", "copysign": "copysign",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "where": "where",
}  # fmt: skip


def _library(name: str) -> Callable:
    return lambda xp, *args: getattr(xp, name)(*args)


def _unless(kinds: str, numpy_name: str) -> Callable:
    """The identity on dtypes of these kinds, where NumPy has no such function or gives floats."""
    return lambda xp, x: (
        arrays.copy_as_laid_out(xp, x) if x.dtype.kind in kinds else getattr(xp, numpy_name)(x)
    )


# Rows that are one NumPy function can be called without a layer in between.
ON_NUMPY: dict[str, Callable[..., Any]] = {
    name: getattr(np, np_name) for name, np_name in _NUMPY_NAMES.items()
}

KERNELS: dict[str, Callable[..., Any]] = {name: _library(np_name) for name, np_name in _NUMPY_NAMES.items()}
for _name in ("floor", "ceil", "round", "trunc", "sign"):
    del ON_NUMPY[_name]  # not on every dtype
KERNELS |= {name: _unless("biu", _NUMPY_NAMES[name]) for name in ("floor", "ceil", "round", "trunc")}
KERNELS |= {
    "conj": lambda xp, x: xp.conjugate(x),
    "view_as_real": complex_formulas.view_as_real,
    "view_as_complex": complex_formulas.view_as_complex,
    "sign": _sign,
    "rsqrt": _half_safe(lambda xp, x: 1 / xp.sqrt(x)),
    "reciprocal": lambda xp, x: 1 / x,
    "erf": _half_safe(lambda xp, x: special_functions(xp).erf(x)),
    "erfc": _half_safe(lambda xp, x: special_functions(xp).erfc(x)),
    "sigmoid": _half_safe(_sigmoid),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "pow": power,
    "bitwise_left_shift": _left_shift,
    "bitwise_right_shift": _right_shift,
    "cast": _cast,
    "bitcast": _bitcast,
    "sum": _wide_reduction("sum"),
    "prod": _wide_reduction("prod"),
    "amax": _reduction("amax"),
    "amin": _reduction("amin"),
    "any": _reduction("any"),
    "all": _reduction("all"),
    "argmax": _arg_extremum("argmax"),
    "argmin": _arg_extremum("argmin"),
    "cumsum": _cumsum,
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "slice_scatter": _slice_scatter,
    "flip": _flip,
    "cat": _cat,
    "constant_pad": _constant_pad,
    "gather": indexing_formulas.gather,
    "scatter": indexing_formulas.scatter,
    "scatter_add": indexing_formulas.scatter_add,
    "scatter_reduce": indexing_formulas.scatter_reduce,
    "sort": sort,
    "nonzero": _nonzero,
    "matmul": _matmul,
    "convolution": convolution_kernels.convolution,
    "convolution_weight_gradient": convolution_kernels.convolution_weight_gradient,
    "full": _full,
    "iota": _iota,
    "random_bits": lambda xp, rng, offset, shape: philox_words(xp, rng, offset, shape),
    "clone": arrays.copy_as_laid_out,
    "contiguous": lambda xp, x: xp.ascontiguousarray(x).reshape(x.shape),
    "detach": lambda xp, x: x[...],
    "average_gradient": lambda xp, x, limit, group: arrays.copy_as_laid_out(xp, x),
    "to_device": lambda xp, x, device, non_blocking=False: host_copies.move(x, device, non_blocking),
    "copy_": _copy_,
}
