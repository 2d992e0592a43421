"""The promotion table against expectations written down from torch's rules, and against torch where it is installed.

Input: every pair of dtypes in every pair of rank classes.
"""

import pickle

import numpy as np
import pytest

from stage_contracts import dtype as dt
from stage_contracts.core_metas import promoted_dtype
from stage_contracts.tensor_meta import TensorMeta

SHORT = dict(zip("b u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128".split(), dt.DTYPES, strict=True))

# Two tensors with dimensions (and two 0-d ones). Rows and columns in the order of SHORT.
SAME_RANK_CLASS = """
   b    b   u8   i8  i16  i32  i64  f16 bf16  f32  f64  c64 c128
  u8   u8   u8  i16  i16  i32  i64  f16 bf16  f32  f64  c64 c128
  i8   i8  i16   i8  i16  i32  i64  f16 bf16  f32  f64  c64 c128
 i16  i16  i16  i16  i16  i32  i64  f16 bf16  f32  f64  c64 c128
 i32  i32  i32  i32  i32  i32  i64  f16 bf16  f32  f64  c64 c128
 i64  i64  i64  i64  i64  i64  i64  f16 bf16  f32  f64  c64 c128
 f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64 c128
bf16 bf16 bf16 bf16 bf16 bf16 bf16  f32 bf16  f32  f64  c64 c128
 f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64 c128
 f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64 c128 c128
 c64  c64  c64  c64  c64  c64  c64  c64  c64  c64 c128  c64 c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""
# Rows: a tensor with dimensions; columns: a 0-d tensor.
WITH_ZERO_DIM = """
   b    b   u8   i8  i16  i32  i64  f16 bf16  f32  f64  c64 c128
  u8   u8   u8   u8   u8   u8   u8  f16 bf16  f32  f64  c64 c128
  i8   i8   i8   i8   i8   i8   i8  f16 bf16  f32  f64  c64 c128
 i16  i16  i16  i16  i16  i16  i16  f16 bf16  f32  f64  c64 c128
 i32  i32  i32  i32  i32  i32  i32  f16 bf16  f32  f64  c64 c128
 i64  i64  i64  i64  i64  i64  i64  f16 bf16  f32  f64  c64 c128
 f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  c64  c64
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16  c64  c64
 f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  c64  c64
 f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64 c128 c128
 c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""
# Rows: a tensor, of any rank; columns: True, 1, 1.0, 1j.
WITH_NUMBERS = """
   b    b  i64  f32  c64
  u8   u8   u8  f32  c64
  i8   i8   i8  f32  c64
 i16  i16  i16  f32  c64
 i32  i32  i32  f32  c64
 i64  i64  i64  f32  c64
 f16  f16  f16  f16  c64
bf16 bf16 bf16 bf16  c64
 f32  f32  f32  f32  c64
 f64  f64  f64  f64 c128
 c64  c64  c64  c64  c64
c128 c128 c128 c128 c128
"""
NUMBERS = (True, 1, 1.0, 1j)


def entries(table, columns):
    """(row dtype, column, expected dtype) for each cell."""
    for line in table.strip().splitlines():
        head, *cells = line.split()
        assert len(cells) == len(columns)
        for column, cell in zip(columns, cells, strict=True):
            yield dt.DTYPES[SHORT[head]], column, dt.DTYPES[SHORT[cell]]


def meta(dtype, rank):
    return TensorMeta((2,) * rank, dtype)


def all_cases():
    """(operand, operand, expected) with metas for tensors."""
    columns = list(dt.DTYPES.values())
    for a, b, want in entries(SAME_RANK_CLASS, columns):
        yield meta(a, 1), meta(b, 1), want
        yield meta(a, 1), meta(b, 3), want
        yield meta(a, 0), meta(b, 0), want
    for a, b, want in entries(WITH_ZERO_DIM, columns):
        yield meta(a, 2), meta(b, 0), want
    for a, number, want in entries(WITH_NUMBERS, NUMBERS):
        yield meta(a, 1), number, want
        yield meta(a, 0), number, want


def test_the_table():
    cases = list(all_cases())
    assert len(cases) == 4 * 144 + 2 * 48
    for x, y, want in cases:
        assert promoted_dtype((x, y)) is want, f"{x} with {y}"
        assert promoted_dtype((y, x)) is want, f"{y} with {x}"


def test_the_expectations_are_torchs():
    torch = pytest.importorskip("torch")

    def there(x):
        return torch.ones(x.shape, dtype=getattr(torch, x.dtype.name)) if isinstance(x, TensorMeta) else x

    for x, y, want in all_cases():
        theirs = torch.result_type(there(x), there(y))
        theirs = torch.complex64 if theirs is torch.complex32 else theirs  # of float16: there is none here
        assert theirs is getattr(torch, want.name), f"{x} with {y}"


def test_three_operands_and_none():
    f32, f64, i64 = dt.float32, dt.float64, dt.int64
    assert promoted_dtype((meta(i64, 1), meta(f64, 0), 2.5)) is f64
    assert promoted_dtype((meta(f32, 1), None, meta(f64, 0))) is f32
    assert (
        promoted_dtype((2, 3.0)) is f32
        and promoted_dtype((True, 2)) is i64
        and promoted_dtype((True,)) is dt.bool_
    )
    assert promoted_dtype((np.float64(2), meta(i64, 1))) is f32  # a NumPy number counts as a Python one
    with pytest.raises(TypeError, match="expected a number, got str 'a'"):
        promoted_dtype((meta(f32, 1), "a"))
    with pytest.raises(TypeError, match="at least one operand"):
        dt.result_type([])


def test_one_instance_per_name():
    for d in dt.DTYPES.values():
        assert pickle.loads(pickle.dumps(d)) is d
        assert dt.dtype_of(d.name) is d and dt.dtype_of(d.numpy) is d and dt.dtype_of(d.numpy.type) is d
        assert d.itemsize == d.numpy.itemsize and repr(d) == f"cutaway.{d.name}"
    assert dt.dtype_of(float) is dt.float64 and dt.dtype_of(int) is dt.int64 and dt.dtype_of(bool) is dt.bool_
    assert (
        dt.uint8.limits == (0, 255) and dt.int64.limits == (-(2**63), 2**63 - 1) and dt.float32.limits is None
    )
    assert not dt.uint8.is_signed and not dt.bool_.is_signed and dt.int8.is_signed and dt.bfloat16.is_signed
    assert [d.name for d in dt.DTYPES.values() if d.is_floating_point] == [
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ]


@pytest.mark.parametrize(
    "wrong", ["float31", np.clongdouble, object, np.dtype("U3"), np.uint16, None.__class__, 3]
)
def test_other_types_are_refused_by_name(wrong):
    with pytest.raises(TypeError, match="is not supported; expected one of bool, uint8"):
        dt.dtype_of(wrong)
