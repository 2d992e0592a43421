"""Element types (dtypes), and the promotion table: the dtype of `float32 + int64`, defined once for every stage.

Input: two or more operands' dtypes with their rank class. Source of the rules: the "type promotion" section of torch's
tensor-attributes page (three classes: tensors with dimensions, 0-d tensors, Python scalars).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = 0, 1, 2, 3  # categories, in promotion order


@dataclass(frozen=True, eq=False)
class DType:
    """One element type. There is exactly one instance per name: compare with `is`."""

    name: str
    category: int
    itemsize: int  # bytes
    numpy: np.dtype
    limits: tuple[float, float] | None = None  # smallest and largest value of an integer type

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def is_differentiable(self) -> bool:
        """Whether tensors of it can have gradients: floating and complex dtypes."""
        return self.category >= FLOATING

    @property
    def is_signed(self) -> bool:
        return self.name not in ("bool", "uint8")

    def __repr__(self) -> str:
        return f"cutaway.{self.name}"

    def __reduce__(self) -> tuple:  # unpickling gives the one instance of that name
        return dtype_of, (self.name,)


def _make(name: str, category: int, numpy_type: object) -> DType:
    np_dtype = np.dtype(numpy_type)  # type: ignore[call-overload]
    limits = None
    if category == INTEGER:
        limits = (int(np.iinfo(np_dtype).min), int(np.iinfo(np_dtype).max))
    return DType(name, category, np_dtype.itemsize, np_dtype, limits)


bool_ = _make("bool", BOOL, np.bool_)
uint8 = _make("uint8", INTEGER, np.uint8)
int8 = _make("int8", INTEGER, np.int8)
int16 = _make("int16", INTEGER, np.int16)
int32 = _make("int32", INTEGER, np.int32)
int64 = _make("int64", INTEGER, np.int64)
float16 = _make("float16", FLOATING, np.float16)
bfloat16 = _make("bfloat16", FLOATING, ml_dtypes.bfloat16)
float32 = _make("float32", FLOATING, np.float32)
float64 = _make("float64", FLOATING, np.float64)
complex64 = _make("complex64", COMPLEX, np.complex64)
complex128 = _make("complex128", COMPLEX, np.complex128)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128,
    )
}  # fmt: skip
_BY_NUMPY: dict[np.dtype, DType] = {d.numpy: d for d in DTYPES.values()}
_BY_PYTHON: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}


@dataclass(frozen=True, eq=False)
class NamedDType:
    """An element type that files and libraries name, and that no tensor here can have: dtype_of refuses it."""

    name: str
    itemsize: int  # bytes
    numpy: np.dtype

    def __repr__(self) -> str:
        return f"cutaway.{self.name}"


_NARROW = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn".split()
_NAMED = {name: np.dtype(getattr(ml_dtypes, name)) for name in _NARROW}
_NAMED |= {name: np.dtype(name) for name in ("uint16", "uint32", "uint64")}
NAMED_DTYPES = {name: NamedDType(name, numpy.itemsize, numpy) for name, numpy in _NAMED.items()}
NAMED_DTYPES["float4_e2m1fn_x2"] = NAMED_DTYPES.pop("float4_e2m1fn")  # torch's name: two in a byte

# The promotion of two dtypes of the same rank class, if it is not simply the later one in DTYPES.
_PROMOTION_EXCEPTIONS: dict[frozenset[str], DType] = {
    frozenset({"uint8", "int8"}): int16,
    frozenset({"float16", "bfloat16"}): float32,
    frozenset({"float64", "complex64"}): complex128,
}
_ORDER = {d: i for i, d in enumerate(DTYPES.values())}


def dtype_of(value: object) -> DType:
    """The DType for a DType, a name, a NumPy dtype or a Python scalar type.

    Raises TypeError for a type that Cutaway's Tensor does not have (object, structured, ...).
    """
    if isinstance(value, DType):
        return value
    found = None
    if isinstance(value, str):
        found = DTYPES.get(value)
    elif isinstance(value, type) and value in _BY_PYTHON:
        found = _BY_PYTHON[value]
    if found is None:
        try:
            found = _BY_NUMPY.get(np.dtype(value))  # type: ignore[call-overload]
        except TypeError:
            found = None
    if found is None:
        raise TypeError(f"dtype {value!r} is not supported; expected one of {', '.join(DTYPES)}")
    return found


@cache
def promote(a: DType, b: DType) -> DType:
    """The smallest dtype that can hold both, for operands of the same rank class."""
    exception = _PROMOTION_EXCEPTIONS.get(frozenset({a.name, b.name}))
    return exception or max(a, b, key=_ORDER.__getitem__)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold numbers of a floating dtype; a complex dtype itself."""
    if dtype.category == COMPLEX:
        return dtype
    return complex128 if dtype is float64 else complex64


def real_of(dtype: DType) -> DType:
    """The dtype of the two parts of a complex dtype; any other dtype itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """The dtype of two rank classes: the lower class counts only if its category is higher."""
    if higher is None or lower is None:
        return higher or lower
    if higher.category == COMPLEX:
        return higher
    if higher.category == FLOATING:  # its precision stays: float64 beside 1j is complex128
        return complex_of(higher) if lower.category == COMPLEX else higher
    if higher.category == BOOL or lower.category >= FLOATING:
        return promote(higher, lower)
    return higher


DIMENSIONED, ZERO_DIM, SCALAR = 0, 1, 2  # rank classes, strongest first


def result_type(operands: Iterable[tuple[DType, int]]) -> DType:
    """The dtype of an elementwise operation: `operands` are (dtype, rank class) pairs."""
    strongest: list[DType | None] = [None, None, None]
    for dtype, rank in operands:
        seen = strongest[rank]
        strongest[rank] = dtype if seen is None else promote(seen, dtype)
    result = _combine(strongest[0], _combine(strongest[1], strongest[2]))
    if result is None:
        raise TypeError("result_type expects at least one operand, but got none")
    return result


class _Default:
    """The dtype of a Python float: float32, unless the program sets another for the whole process, as in torch."""

    dtype: DType = float32


DEFAULT_DTYPE = _Default()


def check_number(value: object, dtype: DType) -> None:
    """Raise RuntimeError if a dtype cannot hold a Python number, which is too large or not real. (A cast does not.)

    As in torch, an unsigned type accepts negative numbers, too: -1 means its largest number.
    """
    if type(value) is complex and dtype.category != COMPLEX and value.imag:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")
    if dtype.limits is None or type(value) not in (int, float):
        return
    assert isinstance(value, (int, float))
    low, high = dtype.limits
    low = -high if low == 0 and type(value) is int else low
    if not (math.isfinite(value) and low <= value <= high):
        raise RuntimeError(f"value {value} cannot be converted to type {dtype.name} without overflow")


def scalar_dtype(value: object, default: DType | None = None) -> DType:
    """The dtype of a Python scalar. `default`: the dtype of a float; without it, the default dtype."""
    default = default or DEFAULT_DTYPE.dtype
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return default
    if isinstance(value, (complex, np.complexfloating)):
        return complex_of(default)
    open_number = {"SymInt": int64, "SymFloat": default}.get(
        type(value).__name__
    )  # without reading its value
    if open_number is not None:
        return open_number
    raise TypeError(f"expected a number, got {type(value).__name__} {value!r}")
