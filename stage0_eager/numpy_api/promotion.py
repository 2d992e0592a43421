"""NumPy's promotion as a table (NEP 50): the dtype in which an operation on arrays and Python numbers computes.

Input: dtypes of arrays (0-d arrays count like any other) and Python numbers, which are weak: their kind counts, not
their size. The table is written out here, not taken from NumPy; a test compares each entry with np.result_type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.dtype import BOOL, FLOATING, INTEGER, DType
from stage_contracts.symbolic import SymInt

# What an array program may hold here: the dtypes of NumPy's own that Tensor has. Other arrays are left to NumPy.
ARRAY_DTYPES: tuple[DType, ...] = (
    dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64,
)  # fmt: skip

# The smallest floating dtype that holds every value of a dtype: where integers meet floats, and what a function
# that has results between the integers (sin, sqrt, arctan2) computes integers in.
FLOAT_FOR: dict[DType, DType] = {
    dt.bool_: dt.float16, dt.uint8: dt.float16, dt.int8: dt.float16, dt.int16: dt.float32,
    dt.int32: dt.float64, dt.int64: dt.float64,
    dt.float16: dt.float16, dt.float32: dt.float32, dt.float64: dt.float64,
}  # fmt: skip

# Two dtypes of one category: the larger, but
_MIXED = {frozenset({dt.uint8, dt.int8}): dt.int16}
_ORDER = {d: i for i, d in enumerate(ARRAY_DTYPES)}

DEFAULT = {BOOL: dt.bool_, INTEGER: dt.int64, FLOATING: dt.float64}  # of Python's bool, int and float alone

# The rules as sentences with an example each: the site's page shows them, a test runs them on NumPy.
RULES: tuple[tuple[str, str, str], ...] = (
    ("two arrays of one kind: the larger dtype", "int16, int32", "int32"),
    ("signed and unsigned of one size: the next larger signed", "int8, uint8", "int16"),
    ("an integer array and a floating one: the float that holds both", "int32, float32", "float64"),
    ("a small integer array and a floating one", "int16, float32", "float32"),
    ("bool and anything: the other", "bool, int8", "int8"),
    ("an array without dimensions counts as any array", "float32, float64", "float64"),
    ("a Python int beside an array of numbers: the array's dtype", "int8, 1", "int8"),
    ("a Python int beside an array of bools", "bool, 1", "int64"),
    ("a Python float beside a floating array: the array's dtype", "float32, 1.0", "float32"),
    ("a Python float beside an array of integers or bools", "int8, 1.0", "float64"),
    ("a Python bool: as an array of bools", "int8, True", "int8"),
    ("Python numbers alone: int64, float64", "1, 1.0", "float64"),
)


def promote(a: DType, b: DType) -> DType:
    """The dtype of two arrays together. Raises TypeError for a dtype that NumPy does not have."""
    for d in (a, b):
        if d not in FLOAT_FOR:
            raise TypeError(f"NumPy does not have the dtype {d.name}")
    if a.category != b.category and FLOATING in (a.category, b.category):
        a, b = FLOAT_FOR[a], FLOAT_FOR[b]
    return _MIXED.get(frozenset({a, b})) or max(a, b, key=_ORDER.__getitem__)


def category_of(number: Any) -> int:
    """The kind of a Python number. Raises TypeError for anything else."""
    kind = type(number)
    if kind is bool:
        return BOOL
    if kind is int or isinstance(number, SymInt):
        return INTEGER
    if kind is float:
        return FLOATING
    raise TypeError(f"expected an array or a number, but got {kind.__name__}")


def result_type(operands: Iterable[Any]) -> DType:
    """The dtype of several operands: DTypes for arrays, Python numbers as they are."""
    found: DType | None = None
    weak = -1
    for operand in operands:
        if isinstance(operand, DType):
            found = operand if found is None else promote(found, operand)
        else:
            weak = max(weak, category_of(operand))
    if found is None:
        return DEFAULT[weak]
    if weak == BOOL:
        return promote(found, dt.bool_)
    return DEFAULT[weak] if weak > found.category else found


def sum_dtype(dtype: DType) -> DType:
    """What sums and products of an array are accumulated in, and are. Unsigned ones need a dtype Tensor lacks."""
    if dtype is dt.uint8:
        raise TypeError("the sum of uint8 is uint64 in NumPy, which is not a dtype of tensors")
    return dt.int64 if dtype.category < FLOATING else dtype


def can_cast_same_kind(source: DType, target: DType) -> bool:
    """Whether NumPy writes `source` into an array of `target` unasked: downwards in size, never in kind."""
    if source.category == INTEGER and target is dt.uint8:
        return source is dt.uint8
    return source.category <= target.category
