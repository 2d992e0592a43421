"""Eager kernels, made from formulas: operands promoted, warnings off, results laid out, errors explained.

Input: formulas.py's table and the meta rules. Eager calls `eager_kernel(name)` for a core operator, and so do stages 3
and 4 where they have no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.kernels import collectives as kernels_collectives
from stage0_eager.kernels import fft as kernels_fft
from stage0_eager.kernels import formulas, sorting
from stage0_eager.kernels import linalg as kernels_linalg
from stage0_eager.kernels import special as kernels_special
from stage0_eager.kernels.formulas import MANY, ON_NUMPY, REDUCE
from stage0_eager.kernels.half_arithmetic import number_last, rounded_once
from stage0_eager.meta_arrays import META, MetaArray, as_arrays
from stage0_eager.table.registry import OPAQUE
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.complex_metas import TAKES_COMPLEX
from stage_contracts.core_ops import COPY_, CORE_OPS, CoreOp
from stage_contracts.dtype import DType
from stage_contracts.half_numbers import KEPT, kept_number
from stage_contracts.tensor_meta import TensorMeta

KERNELS = {
    **formulas.KERNELS,
    **kernels_special.KERNELS,
    **kernels_linalg.KERNELS,
    **kernels_fft.KERNELS,
    **kernels_collectives.KERNELS,
}


def run_kernel(op: Any, data: list) -> Any:
    """The result array of core operator `op` on `data` (arrays where tensors were)."""
    kernel = op.kernel if op.opaque else eager_kernel(op.name)
    return kernel(namespace_of_all(data), *data)


def namespace_of_all(data: Sequence[Any]) -> Any:
    """The array namespace of the first array in `data` that has dimensions; NumPy when there is none."""
    for value in data:
        if type(value) is np.ndarray and value.ndim:
            return np
        if hasattr(value, "__cuda_array_interface__"):
            return arrays.cupy()
        if type(value) is MetaArray:
            return META
        if type(value) in (list, tuple) and value and hasattr(value[0], "dtype"):  # cat's tensors
            return namespace_of_all(value)
    return np


PRODUCT_AND_ROW = "matmul_add_row"  # a step that lowering makes of two operators, where a library does both
FIRST_OF_SORTED = (
    "sort_first"  # one that lowering makes of a sort, where only the first elements of rows are read
)


@cache
def eager_kernel(name: str) -> Callable[..., Any]:
    """The kernel of a core operator as it is run: `kernel(xp, *args)`, arrays in, array out.

    Around the formula of KERNELS: operands brought to one dtype, NumPy's warnings off, and the result laid out as
    the meta rule says. This is what eager calls, and stages 3 and 4 where they have no kernel of their own. The
    kernel of an opaque operator (by its qualname) is the one it came with.
    """
    if name == PRODUCT_AND_ROW:
        return lambda xp, x, y, row: eager_kernel("add")(xp, eager_kernel("matmul")(xp, x, y), row)
    if name == FIRST_OF_SORTED:
        return sorting.first_of_sorted
    if "." in name:
        op = OPAQUE[name]
        return lambda xp, *args, **kwargs: op.kernel(xp, *op.bind(*args, **kwargs))  # type: ignore[misc]
    core = COPY_ if name == "copy_" else CORE_OPS[name]
    kernel = KERNELS[name]
    if core.kind == "pointwise" and name not in ("cast", "bitcast"):
        return _elementwise(core, kernel)
    if core.kind in ("view", "creation", "random"):
        return _explained(core, kernel)  # nothing to silence; strides are given, or row-major anyway
    if name == "nonzero":  # its rule only refuses
        return lambda xp, x: core.meta(_meta_of(x)) if xp is META else kernel(xp, x)
    return _laid_out(core, kernel)


# A stack of contexts in which NumPy is silent about overflow and 0/0. A context cannot be entered twice at once, so a
# call takes one off the stack; entering one is ten times as fast as `with np.errstate(...)`. A call that raises
# leaves its context to the garbage collector, which spares the others a `finally`.
_SILENT: list[Context] = []


def _silent_context() -> Context:
    try:
        return _SILENT.pop()
    except IndexError:
        context = Context()
        context.run(np.seterr, all="ignore")
        return context


def silently(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)` without warnings."""
    context = _silent_context()
    out = context.run(function, *args)
    _SILENT.append(context)
    return out


# What the meta rule need not see, as the library refuses all that it would refuse: 4 µs less.
_OBVIOUS: dict[str, Callable[..., bool]] = {
    "matmul": lambda x, y: x.ndim > 1 and y.ndim > 1 and x.dtype is y.dtype and x.dtype.kind != "b",
    "cat": lambda tensors, dim: type(dim) is int and type(tensors[0]) is np.ndarray,
}


# An index outside, or parts that are not neighbours, would read other memory.
_UNSAFE = ("diagonal", "unfold", "as_strided", "view_as_real", "view_as_complex")


def _strict(core: CoreOp) -> bool:
    """Whether the library would accept more than the meta rule, so that the rule has to be asked first."""
    unsafe = core.name in _UNSAFE
    return unsafe or core.kind in ("movement", "indexing", "contraction", "external", "collective")


def _explained(core: CoreOp, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """What the library refuses is refused with the meta rule's message; what only the rule refuses, too."""
    strict = _strict(core) or core.name == "iota"  # the library would count in complex numbers
    creates = core.kind == "creation"

    def explained(xp: Any, *args: Any) -> Any:
        if xp is META or (creates and args[-1].type == "meta"):
            return _of_metas(core, args)
        if strict:
            core.meta(*map(_meta_of, args))
        try:
            return kernel(xp, *args)
        except (ValueError, TypeError, IndexError):
            core.meta(*map(_meta_of, args))
            raise

    return explained


def _laid_out(core: CoreOp, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """As _explained, without NumPy's warnings, and with the result laid out."""
    strict, obvious, real = _strict(core), _OBVIOUS.get(core.name), core.name not in TAKES_COMPLEX

    def laid_out(xp: Any, *args: Any) -> Any:
        if xp is META:
            return _of_metas(core, args)
        if real and getattr(args[0], "dtype", _REAL).kind == "c":
            core.meta(*map(_meta_of, args))  # raises; the library would order the numbers
        if strict and not (obvious is not None and obvious(*args)):
            core.meta(*map(_meta_of, args))
        context = _silent_context()
        try:
            out = context.run(kernel, xp, *args)
        except (ValueError, TypeError, IndexError):
            core.meta(*map(_meta_of, args))
            raise
        _SILENT.append(context)
        if type(out) is tuple:
            return tuple([_settle(core, xp, part, args, i) for i, part in enumerate(out)])
        return _settle(core, xp, out, args)

    return laid_out


def _settle(core: CoreOp, xp: Any, out: Any, args: tuple, place: int | None = None) -> Any:
    """`out` as an array laid out as the meta rule promises: row-major or, where operands agree, as they are.

    Libraries choose layouts of their own; compiled code has to know what eager gives, so eager keeps to the rule.
    """
    if isinstance(out, np.generic):  # NumPy gives scalars for 0-d results
        return np.asarray(out)
    if core.kind in ("identity", "mutation"):  # these keep the layout of their operand
        return out
    # NumPy's elementwise results follow their operands; CuPy's are row-major, and not always should be
    by_rows = out.flags.c_contiguous and core.name not in kernels_linalg.BY_COLUMNS
    if by_rows and (xp is np or all(a.flags.c_contiguous for a in args if hasattr(a, "flags"))):
        # sizes of 1 with strides of their own
        return out.ravel().reshape(out.shape) if 1 in out.shape else out
    meta = core.meta(*map(_meta_of, args))
    wanted = (meta if place is None else meta[place]).strides
    if tuple(s // out.itemsize for s in out.strides) == wanted:
        return out
    order = sorted(range(out.ndim), key=lambda d: (-wanted[d], out.shape[d] == 1))
    copy = xp.empty([out.shape[d] for d in order], out.dtype).transpose(np.argsort(order))
    copy[...] = out
    return copy


def _of_refused(core: CoreOp, operands: tuple, error: Exception) -> Any:
    """What NumPy refused raises the meta rule's message on shapes and devices. A number on the CPU beside a tensor on
    meta is no mistake."""
    without_data = any(type(x) is MetaArray for x in operands)
    if isinstance(error, ValueError) or without_data:
        known = core.meta(*map(_meta_of, operands))
        if without_data:
            return as_arrays(known, None)
    raise error


def _of_metas(core: CoreOp, args: tuple) -> Any:
    """The results on the device meta: the rule is all there is to run."""
    if core.name == "to_device":
        return arrays.move(*args[:2])
    source = args[0] if core.kind in ("view", "identity") else None
    return as_arrays(core.meta(*map(_meta_of, args)), source)


def _meta_of(value: Any) -> Any:
    if type(value) in (list, tuple):  # cat's tensors
        return type(value)(map(_meta_of, value))
    if not hasattr(value, "strides"):
        return value
    return arrays.meta_of_array(value)


# ---- promotion of pointwise operands --------------------------------------------------------------------------


def _elementwise(core: CoreOp, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Operands cast to the dtype the arithmetic is done in (where's condition stays), then the formula."""
    first = 1 if core.name == "where" else 0
    as_they_are = _Uncast(core, _BY_DTYPE)
    on_numpy = ON_NUMPY.get(core.name) or partial(kernel, np)

    def elementwise(xp: Any, *operands: Any) -> Any:
        if xp is META:
            return _of_metas(core, operands)
        formula = on_numpy if xp is np else partial(kernel, xp)
        if xp is not np:
            operands = _moved(xp, operands)
        dtype = getattr(operands[first], "dtype", None)
        try:
            if as_they_are[dtype] and dtype is getattr(operands[-1], "dtype", None):
                out = silently(formula, *operands)
            else:
                kinds = tuple(map(_kind_of, operands))
                dtype = _compute_dtype(core.name, kinds)
                once = _keeps_number(core.name, kinds)
                out = (
                    silently(rounded_once, xp, core.name, formula, operands, dtype, _as)
                    if once
                    else silently(_cast_and_run, formula, operands[:first], operands[first:], dtype)
                )
        except (ValueError, TypeError) as error:
            return _of_refused(core, operands, error)
        if type(out) is np.ndarray and out.flags.c_contiguous:
            return out
        if first and xp is not np:  # CuPy widens halves beside a number
            out = out.astype(dtype, copy=False)
        return _settle(core, xp, out, operands)

    return elementwise


# ---- the same for by far the most calls: NumPy arrays of one dtype, or an array and a number ------------------
# Sets of dtypes are sets of their numbers: hashing a dtype takes 0.1 µs, its number 0.02.

FLOATS = {dt.float32.numpy.num, dt.float64.numpy.num}


def _num(value: Any) -> int | None:
    return value.dtype.num if type(value) is np.ndarray else None


def numpy_single(name: str) -> Callable[[Any], Any]:
    """An elementwise kernel of one operand."""
    core, whole = CORE_OPS[name], eager_kernel(name)
    as_they_are = _Uncast(core, _BY_NUMBER)
    formula = ON_NUMPY.get(name) or partial(KERNELS[name], np)

    def single(x: Any) -> Any:
        if type(x) is not np.ndarray or not as_they_are[x.dtype.num]:
            return whole(namespace_of_all((x,)), x)
        context = _silent_context()
        out = context.run(formula, x)
        _SILENT.append(context)
        if type(out) is np.ndarray and out.flags.c_contiguous:
            return out
        return _settle(core, np, out, (x,))

    return single


def numpy_pair(name: str) -> Callable[[Any, Any], Any]:
    """An elementwise kernel of two operands: 0.6 µs less than by way of `elementwise`, 2 µs with a number."""
    # In one piece: the cases of one kernel, decided when it is made; what runs per call is the function at the end.
    core, whole = CORE_OPS[name], number_last(name, eager_kernel(name), silently)
    as_they_are = _Uncast(core, _BY_NUMBER)
    # NumPy, too, takes a Python number beside an array of floats as one of the array's dtype
    with_number = FLOATS if name in ON_NUMPY else set()
    with_int = FLOATS | {dt.int64.numpy.num} if name in ON_NUMPY else set()
    formula = ON_NUMPY.get(name) or partial(KERNELS[name], np)

    def pair(x: Any, y: Any) -> Any:
        if type(x) is np.ndarray:
            if type(y) is np.ndarray:
                plain = x.dtype is y.dtype and as_they_are[x.dtype.num]
            else:
                dtypes = with_number if type(y) is float else with_int if type(y) is int else ()
                plain = x.dtype.num in dtypes and as_they_are[x.dtype.num] and -_SMALL < y < _SMALL
        else:
            number = _num(y)
            plain = (
                type(x) in (float, int)
                and number in with_number
                and as_they_are[number]
                and -_SMALL < x < _SMALL
            )
        if not plain:
            return whole(namespace_of_all((x, y)), x, y)
        context = _silent_context()
        try:
            out = context.run(formula, x, y)
        except ValueError:
            core.meta(_meta_of(x), _meta_of(y))  # raises torch's message where shapes do not match
            raise
        _SILENT.append(context)
        if type(out) is np.ndarray and out.flags.c_contiguous:
            return out
        return _settle(core, np, out, (x, y))

    return pair


def numpy_where(condition: Any, x: Any, y: Any) -> Any:
    """Of two arrays of floats, or one and a number: 3 µs less, as choosing warns of nothing."""
    number = x if type(x) in (float, int) else y if type(y) in (float, int) else None
    if number is None:
        plain = _num(x) in FLOATS and _num(x) == _num(y)
    else:
        plain = _num(y if number is x else x) in FLOATS and -_SMALL < number < _SMALL
    if plain and type(condition) is np.ndarray and condition.dtype.kind == "b":
        try:
            out = np.where(condition, x, y)
            if out.flags.c_contiguous:
                return out
        except ValueError:
            pass  # the whole kernel says why
    return eager_kernel("where")(namespace_of_all((condition, x, y)), condition, x, y)


def numpy_reduction(name: str) -> Callable[..., Any]:
    """A reduction: 0.8 µs less than by way of `laid_out`."""
    core, whole, reduce = CORE_OPS[name], eager_kernel(name), REDUCE[name]
    # integers are added in int64, half precision in float32; the others reduce any dtype as it is
    as_they_are = {
        d.numpy.num
        for d in dt.DTYPES.values()
        if (name not in ("sum", "prod") or d in (dt.float32, dt.float64))
        and (name in TAKES_COMPLEX or not d.is_complex)
    }

    def reduced(x: Any, dims: tuple, keepdim: bool = False) -> Any:
        # what is large can do without the shorter way
        if type(x) is not np.ndarray or not x.ndim or x.size > MANY or x.dtype.num not in as_they_are:
            return whole(namespace_of_all((x,)), x, dims, keepdim)
        context = _silent_context()
        try:
            out = context.run(reduce, x, dims, None, None, keepdim)
        except (ValueError, TypeError, IndexError):
            core.meta(_meta_of(x), dims, keepdim)
            raise
        _SILENT.append(context)
        if type(out) is not np.ndarray:  # a NumPy number, for all dimensions
            return np.asarray(out)
        return _settle(core, np, out, (x, dims, keepdim))

    return reduced


def numpy_cat(tensors: list, dim: int) -> Any:
    """Arrays of one dtype one after another, which NumPy does as the rule says: 1.5 µs less."""
    dtype = tensors[0].dtype if tensors and type(tensors[0]) is np.ndarray else None
    for x in tensors:
        if x.dtype is not dtype:
            break
    else:
        try:
            out = np.concatenate(tensors, dim)
            return (
                out
                if out.flags.c_contiguous and 1 not in out.shape
                else _settle(_CAT, np, out, (tensors, dim))
            )
        except (ValueError, TypeError, IndexError):
            pass  # the whole kernel says why
    return eager_kernel("cat")(namespace_of_all(tensors), tensors, dim)


_CAT = CORE_OPS["cat"]
_REAL = np.dtype(np.float32)
_SMALL = 2**31  # a larger number may not fit the dtype; the written rule says what it becomes


def _moved(xp: Any, operands: tuple) -> tuple:
    """The operands of a GPU's kernel: a tensor without dimensions may be on the CPU."""
    return tuple([xp.asarray(a) if type(a) is np.ndarray and not a.ndim else a for a in operands])


def _cast_and_run(formula: Callable[..., Any], as_is: tuple, operands: tuple, dtype: np.dtype) -> Any:
    return formula(*as_is, *[_as(a, dtype) for a in operands])


_BY_DTYPE = {d.numpy: d for d in dt.DTYPES.values()}
_BY_NUMBER = {d.numpy.num: d for d in dt.DTYPES.values()}


class _Uncast(dict):
    """NumPy dtype, or its number -> whether operands of it are accepted and need no cast. Each is found out when it is
    first met: all of them together are a twentieth of the time of `import cutaway`."""

    def __init__(self, core: CoreOp, dtypes: dict[Any, DType]) -> None:
        super().__init__()
        self.core, self.dtypes = core, dtypes

    def __missing__(self, key: Any) -> bool:
        dtype = self.dtypes.get(key)
        found = self[key] = dtype is not None and _computes_in(self.core, dtype)
        return found


def _computes_in(core: CoreOp, dtype: DType) -> bool:
    kind = (dtype.numpy, True)
    operands = (
        ((dt.bool_.numpy, True), kind, kind)
        if core.name == "where"
        else (kind,) * (core.params.count(",") + 1)
    )
    try:
        return _compute_dtype(core.name, operands) is dtype.numpy
    except (RuntimeError, TypeError):
        return False


def _kind_of(operand: Any) -> Any:
    """What promotion looks at: a dtype and whether there are dimensions, or the type of a Python number."""
    if isinstance(operand, np.generic):  # a NumPy number counts as the Python number it is
        return type(operand.item())
    return (operand.dtype, operand.ndim > 0) if hasattr(operand, "ndim") else type(operand)


_NUMBERS = {bool: False, int: 0, float: 0.0, complex: 0j}


@lru_cache(maxsize=8192)
def _compute_dtype(name: str, kinds: tuple) -> np.dtype:
    """The dtype arithmetic is done in; raises what the meta rule raises for dtypes it refuses."""
    core = CORE_OPS[name]
    operands: list[Any] = []
    for kind in kinds:
        if isinstance(kind, tuple):
            operands.append(TensorMeta((2,) if kind[1] else (), dt.dtype_of(kind[0])))
        elif base := next((b for b in _NUMBERS if issubclass(kind, b)), None):  # an IntEnum is an int
            operands.append(_NUMBERS[base])
        else:
            raise TypeError(f"{name}: expected tensors and numbers, got {kind.__name__}")
    core.meta(*operands)
    dtype = core_metas.promoted_dtype(operands[1:] if name == "where" else operands)
    in_floats = core_metas.computes_in_floats(core.meta) and not dtype.is_differentiable
    return dt.DEFAULT_DTYPE.dtype.numpy if in_floats else dtype.numpy


@lru_cache(maxsize=8192)
def _keeps_number(name: str, kinds: tuple) -> bool:
    """Whether one of the operands is a number that stays in float32 beside halves."""
    if name not in KEPT:
        return False
    operands = [(dt.dtype_of(kind[0]), int(kind[1])) if isinstance(kind, tuple) else None for kind in kinds]
    return kept_number(name, operands, dt.dtype_of(_compute_dtype(name, kinds))) is not None


def forget_dtypes() -> None:
    """The default dtype has changed, and with it what arithmetic with Python floats is done in."""
    _compute_dtype.cache_clear()
    _keeps_number.cache_clear()


def _as(value: Any, dtype: np.dtype) -> Any:
    if hasattr(value, "astype"):
        return value if value.dtype is dtype else value.astype(dtype)
    if dtype.kind in "iu" and isinstance(value, int):  # a Python int that does not fit wraps, as torch's does
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.kind == "i" and value >> (bits - 1):
            value -= 1 << bits
    return dtype.type(value)
