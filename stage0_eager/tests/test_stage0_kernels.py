"""Every pointwise core operator on edge values, in every dtype, against references.py, and nothing is ever printed.

Input: the table of core operators; a row without a reference here fails, so that none can be forgotten.
"""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.kernels import eager as kernels
from stage0_eager.table.core import core
from stage0_eager.tests import references as ref
from stage0_eager.tests.layouts import DTYPES, FLOATS, INTEGERS, edges
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS

POINTWISE = [n for n, row in CORE_OPS.items() if row.kind == "pointwise" and n not in ("where", "cast")]
UNARY = [n for n in POINTWISE if CORE_OPS[n].params == "input"]
BINARY = [n for n in POINTWISE if CORE_OPS[n].params == "input, other"]
IN_FLOATS = {n for n in POINTWISE if CORE_OPS[n].meta.__name__ == "pointwise_float"}
NO_BOOL = "sub neg floor_divide remainder fmod pow bitwise_left_shift bitwise_right_shift".split()
INTEGERS_ONLY = [n for n in POINTWISE if n.startswith("bitwise")]

# Units in the last place that a library may be off where the result is not exact by IEEE 754. Half precision is
# computed in float32 and rounded once, but the float32 value may itself be off, so one unit.
EXACT = set(POINTWISE) - IN_FLOATS - {"pow"} | {"sqrt", "reciprocal", "div", "copysign"}
ULPS = {"float16": 1, "bfloat16": 1, "float32": 4, "float64": 4}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def wrap(value, dtype):
    """An unbounded int as the dtype holds it."""
    if dtype is dt.bool_:
        return bool(value)
    bits = 8 * dtype.itemsize
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value


def agree(got, want, name, dtype, arguments):
    """Equal, or as many ulps apart as the operator may be; NaN for NaN; zeros with the same sign."""
    with np.errstate(all="ignore"):
        want = np.asarray(want, np.float64).astype(got.dtype)
        wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
        one_up = np.nextafter(np.abs(want), np.asarray(np.inf, got.dtype)).astype(np.float64)
        ulp = np.where(np.isfinite(one_up), one_up, np.inf) - np.abs(wide_want)
        allowed = 0 if name in EXACT else ULPS[dtype.name]
        apart = np.abs(wide_got - wide_want)
        close = (
            (wide_got == wide_want) | (np.isnan(wide_got) & np.isnan(wide_want)) | (apart <= allowed * ulp)
        )
    zero_sign = np.signbit(wide_got) == np.signbit(wide_want)
    keeps_zero_sign = name not in ("remainder", "maximum", "minimum", "floor_divide")
    close &= zero_sign | (wide_want != 0) | (not keeps_zero_sign)
    assert close.all(), "\n".join(
        f"{name}{tuple(a.flat[i] for a in arguments)} in {dtype.name}: {got.flat[i]!r}, expected {want.flat[i]!r}"
        for i in np.flatnonzero(~close)[:5]
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", [n for n in UNARY if n not in INTEGERS_ONLY])
def test_unary_floats(name, dtype):
    x = edges(dtype)
    out = getattr(core, name)(Tensor(x)).numpy()
    want = [ref.UNARY[name](float(v)) for v in x]
    if out.dtype == bool:
        assert out.tolist() == want
    else:
        assert out.dtype == x.dtype
        agree(out, want, name, dtype, [x])


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", [n for n in BINARY if n not in INTEGERS_ONLY])
def test_binary_floats(name, dtype):
    x, y = (a.ravel() for a in np.meshgrid(edges(dtype), edges(dtype)))
    out = getattr(core, name)(Tensor(x), Tensor(y)).numpy()
    want = [ref.BINARY[name](float(a), float(b)) for a, b in zip(x, y, strict=True)]
    if out.dtype == bool:
        assert out.tolist() == want
        return
    assert out.dtype == x.dtype
    if name in ("floor_divide", "remainder", "fmod") and dtype.itemsize < 8:
        # the exact quotient in float64 may round where the narrow dtype's own does not: compare where they are small
        kept = (np.abs(np.asarray(want, np.float64)) < 1000) | ~np.isfinite(np.asarray(want, np.float64))
        out, want, x, y = out[kept], np.asarray(want)[kept], x[kept], y[kept]
    agree(out, want, name, dtype, [x, y])


@pytest.mark.parametrize("dtype", [*INTEGERS, dt.bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("name", UNARY)
def test_unary_integers(name, dtype):
    x = edges(dtype)
    if dtype is dt.bool_ and name in NO_BOOL:
        return
    out = getattr(core, name)(Tensor(x)).numpy()
    if name in IN_FLOATS:
        assert out.dtype == np.float32
        agree(out, [ref.UNARY[name](float(np.float32(v))) for v in x], name, dt.float32, [x])
        return
    if dtype is dt.bool_ and name == "bitwise_not":
        assert out.tolist() == [not v for v in x]
        return
    want = [ref.INT_UNARY[name](int(v)) for v in x]
    wanted = dt.bool_ if isinstance(want[0], bool) else dtype
    assert out.dtype == wanted.numpy and out.tolist() == [wrap(v, wanted) for v in want]


@pytest.mark.parametrize("dtype", [*INTEGERS, dt.bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("name", BINARY)
def test_binary_integers(name, dtype):
    if dtype is dt.bool_ and name in NO_BOOL:
        return
    x, y = (a.ravel() for a in np.meshgrid(edges(dtype), edges(dtype)))
    if name in ("floor_divide", "remainder", "fmod"):
        x, y = x[y != 0], y[y != 0]
    if name == "pow":  # exponents that Python can compute
        x, y = x[np.abs(y.astype(float)) < 70], y[np.abs(y.astype(float)) < 70]
    out = getattr(core, name)(Tensor(x), Tensor(y)).numpy()
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    if name in IN_FLOATS:
        assert out.dtype == np.float32
        narrow = [(float(np.float32(a)), float(np.float32(b))) for a, b in pairs]
        agree(out, [ref.BINARY[name](a, b) for a, b in narrow], name, dt.float32, [x, y])
        return
    function = ref.INT_BINARY[name]
    extra = (8 * dtype.itemsize,) if "shift" in name else ()
    want = [function(int(a), int(b), *extra) for a, b in pairs]
    wanted = dt.bool_ if isinstance(want[0], bool) else dtype
    assert out.dtype == wanted.numpy
    assert out.tolist() == [wrap(v, wanted) for v in want]


def test_where_picks_each_element_and_nothing_leaks_from_the_other_side():
    for dtype in DTYPES:
        x = edges(dtype)
        flags = np.arange(x.size) % 2 == 0
        out = core.where(Tensor(flags), Tensor(x), Tensor(x[::-1].copy())).numpy()
        want = [a if f else b for f, a, b in zip(flags, x, x[::-1], strict=True)]
        assert out.dtype == x.dtype and out.tobytes() == np.array(want, x.dtype).tobytes()


@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("target", DTYPES, ids=lambda d: d.name)
def test_cast(source, target):
    x = edges(source)
    # what does not fit is undefined in C and here
    if source.is_floating_point and target.category == dt.INTEGER:
        low, high = target.limits
        wide = x.astype(np.float64)
        x = x[np.isfinite(wide) & (wide > low - 1) & (wide < high)]
        assert x.size > 10
    out = core.cast(Tensor(x), target).numpy()
    assert out.dtype == target.numpy
    if target is dt.bool_:
        want = [bool(v != 0) for v in x]
    elif target.category == dt.INTEGER:
        want = [wrap(int(v), target) for v in x]
    else:
        with np.errstate(all="ignore"):  # bfloat16 is reached by way of float32, as in torch
            by_way = x.astype(np.float32) if target is dt.bfloat16 else x
            want = by_way.astype(target.numpy)
    assert np.array_equal(out.astype(np.float64), np.asarray(want).astype(np.float64), equal_nan=True)


@pytest.mark.parametrize("name", NO_BOOL)
def test_bool_is_refused_as_torch_refuses_it(name):
    x = Tensor(np.array([True, False]))
    with pytest.raises(RuntimeError, match="bool"):
        getattr(core, name)(*[x] * len(getattr(core, name).params))
    if name in ("sub", "neg"):
        return
    with pytest.raises(NotImplementedError):
        getattr(core, name)(*[x] * len(getattr(core, name).params))


@pytest.mark.parametrize("name", INTEGERS_ONLY)
def test_bitwise_operators_refuse_floats(name):
    x = Tensor(np.ones(2, np.float32))
    with pytest.raises(NotImplementedError, match="float32"):
        getattr(core, name)(*[x] * len(getattr(core, name).params))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero_raises(name, dtype):
    x, zero = Tensor(np.ones(3, dtype.numpy)), Tensor(np.array([1, 0, 1], dtype.numpy))
    for divisor in (zero, 0):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(core, name)(x, divisor)


def test_numbers_wrap_to_the_tensors_dtype_as_in_torch():
    x = Tensor(np.array([200, 1], np.uint8))
    assert core.add(x, 300).numpy().tolist() == [244, 45]
    assert core.lt(x, 300).numpy().tolist() == [False, True]  # 300 is 44 here
    assert core.eq(x, -1).numpy().tolist() == [False, False]
    assert core.add(x, 2**40).numpy().tolist() == [200, 1]


def test_what_is_no_operand_is_named():
    with pytest.raises(TypeError, match="add: expected tensors and numbers, got str"):
        core.add(Tensor(np.ones(2)), "a")


def test_every_pointwise_row_has_a_reference():
    assert {n for n in UNARY if n not in INTEGERS_ONLY} == set(ref.UNARY)
    assert {n for n in BINARY if n not in INTEGERS_ONLY} == set(ref.BINARY)
    assert set(UNARY) - IN_FLOATS == set(ref.INT_UNARY)
    assert set(BINARY) - IN_FLOATS == set(ref.INT_BINARY)


@pytest.mark.parametrize("name", CORE_OPS)
def test_a_row_binds_its_parameters_by_name(name):
    op = getattr(core, name)
    assert str(inspect.signature(op.bind)).replace(" ", "") == f"({CORE_OPS[name].params})".replace(" ", "")


def test_silence_is_the_kernels_own():
    """NumPy's settings of the caller neither reach a kernel nor are changed by one; also nested, and in threads."""
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    with np.errstate(all="raise"):
        before = np.geterr()
        assert core.div(Tensor(one), Tensor(zero)).tolist() == [np.inf, np.inf]
        assert np.geterr() == before
        with pytest.raises(FloatingPointError):
            np.divide(one, zero)
    nested = kernels.silently(lambda: kernels.silently(np.divide, one, zero))  # as from a finalizer
    assert nested.tolist() == [np.inf, np.inf]
    with pytest.raises(ZeroDivisionError):
        kernels.silently(lambda: 1 // 0)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: core.div(Tensor(one), Tensor(zero)).tolist(), range(200)))
    assert results == [[np.inf, np.inf]] * 200
