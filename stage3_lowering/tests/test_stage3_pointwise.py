"""Every pointwise core operator, on edge values, in every dtype it takes and every layout, against
references.py.

Input: one graph per dtype with all operators in it, so that one translation unit tests them all.
"""

from functools import lru_cache

import numpy as np
import pytest

from stage3_lowering.tests import references as ref
from stage3_lowering.tests.graphs import assert_close, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.tensor_meta import TensorMeta

FLOATS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.5, 1e-40, -1e-310, 3.7, 1e30, -1e30,
    88.0,
    -104.0, 2.0, 3.0, -7.0, 1e-8, 0.99999, 1e5,
]  # fmt: skip
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
VALUES = {
    "float32": np.array(FLOATS).astype(np.float32),
    "float64": np.array(FLOATS),
    "int64": np.array([0, 1, -1, 2, -3, 5, 7, 63, 64, -64, LEAST, MOST, 10**12, -(10**15)]),
    "bool": np.array([False, True]),
}
POINTWISE = [row for row in CORE_OPS.values() if row.kind == "pointwise"]
UNARY = [r.name for r in POINTWISE if r.params == "input"]
BINARY = [r.name for r in POINTWISE if r.params == "input, other"]
EXTERNAL = {"floor_divide", "remainder", "fmod"}  # of integer tensors: the eager kernel checks for zeros


def legal(name, dtype):
    """Whether the meta rule accepts operands of this dtype."""
    operand = TensorMeta((2,), dt.dtype_of(dtype))
    try:
        CORE_OPS[name].meta(*[operand] * (1 + (name in BINARY)))
    except (RuntimeError, TypeError):
        return False
    return True


def layouts(dtype):
    """The same kind of data laid out in all the ways a tensor may be."""
    values = VALUES[dtype]
    row = np.resize(values, 24)
    return {
        "dense": row.reshape(4, 6).copy(),
        "transposed": row.reshape(6, 4).copy().T,
        "sliced": np.resize(values, (8, 13))[::2, 1::2],
        "broadcast": np.broadcast_to(row[:6], (4, 6)),
        "0-d": np.array(values[-1]),
        "empty": np.zeros((0, 6), values.dtype),
    }


def pairs(dtype):
    """Operands of binary operators: all pairs of values by broadcasting, mixed layouts, scalars."""
    values = VALUES[dtype]
    forms = layouts(dtype)
    return {
        "all pairs": (values[:, None].copy(), values[None, :].copy()),
        "dense, transposed": (forms["dense"], forms["transposed"]),
        "0-d, sliced": (forms["0-d"], forms["sliced"]),
        "empty": (forms["empty"], forms["dense"][:1]),
    }


def scalars(dtype):
    return {"float32": (2.5, -0.0), "float64": (0.1, np.inf), "int64": (-3, 5), "bool": (True,)}[dtype]


def compute_dtype(name, dtype):
    """float32 for integers in functions that give floats; else the operands' own."""
    floats = CORE_OPS[name].meta.__name__ == "pointwise_float"
    return np.float32 if floats and not dtype.startswith("float") else np.dtype(dtype).type


def expected(name, dtype, *operands):
    """The reference's answer, and how many ulps it may be off."""
    with np.errstate(all="ignore"):
        cast = [np.asarray(o).astype(compute_dtype(name, dtype)) for o in operands]
        if name in ("abs", "sign", "floor", "ceil", "round", "trunc") and dtype == "bool":
            return cast[0], 0
        if name in ref.INTEGER and cast[0].dtype.kind in "ib":
            return ref.INTEGER[name](*cast), 0
        for table, ulps in (
            (ref.TRANSCENDENTAL, ref.ULPS),
            (ref.TRANSCENDENTAL_2, ref.ULPS),
            (ref.UNARY, 0),
            (ref.BINARY, 0),
        ):
            if name in table:
                return np.asarray(table[name](*cast)), ulps
    raise AssertionError(f"no reference for {name}: add one to references.py")


def cases(dtype):
    """(operator, what, operands): every call that the graph of this dtype makes; arrays or Python numbers."""
    for name in UNARY:
        if legal(name, dtype):
            yield from ((name, form, (array,)) for form, array in layouts(dtype).items())
    for name in BINARY:
        if not legal(name, dtype):
            continue
        whole = name not in EXTERNAL or dtype != "int64"
        yield from ((name, form, pair) for form, pair in pairs(dtype).items() if whole)
        for number in scalars(dtype):
            yield name, f"scalar {number}", (VALUES[dtype], number)
            if whole and name != "pow":
                yield name, f"scalar {number} first", (number, VALUES[dtype])
        if not whole:
            yield name, "scalar -1", (VALUES[dtype], -1)


@lru_cache(maxsize=8)
def results(dtype, seam):
    """(operator, what) -> (operands, {way: output}): one graph, one compilation."""
    calls = list(cases(dtype))
    arrays, position = [], {}
    for _, _, operands in calls:
        for o in operands:
            if isinstance(o, np.ndarray) and id(o) not in position:
                position[id(o)] = len(arrays)
                arrays.append(o)

    def all_calls(c, *nodes):
        return [
            getattr(c, name)(*[nodes[position[id(o)]] if isinstance(o, np.ndarray) else o for o in operands])
            for name, _, operands in calls
        ]

    graph = trace(all_calls, *arrays)
    ways = run_every_way(seam, graph, arrays)
    return {
        (name, what): (operands, {way: outputs[k] for way, outputs in ways.items()}, graph.outputs[k])
        for k, (name, what, operands) in enumerate(calls)
    }


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_pointwise(seam, name, dtype):
    if not legal(name, dtype):
        assert not any(called == name for called, _, _ in cases(dtype))
        return
    found = {what: case for (called, what), case in results(dtype, seam).items() if called == name}
    assert found
    for what, (operands, outputs, node) in found.items():
        want, ulps = expected(name, dtype, *operands)
        for way, output in outputs.items():
            zeros = name not in ("maximum", "minimum")
            assert_close(output, want, ulps, f"{name} of {dtype}, {what} ({way})", signed_zeros=zeros)
            assert node.val.strides == tuple(s // output.itemsize for s in output.strides) or output.size < 2


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("emit")
def test_where_and_cast(seam):
    x = VALUES["float32"]
    y = np.array([1, 0, -5, 2**40], np.int64)

    def function(c, x, y):
        return (
            c.where(c.gt(x, 0.5), x, 0.0),
            c.where(c.isnan(x), y_scalar(c, y), 1.5),
            c.cast(c.where(c.isinf(c.add(x, 0.0)), 7.9, x), dt.float64),
            c.cast(y, dt.int32),
            c.cast(y, dt.bool_),
            c.cast(x, dt.bool_),
            c.cast(c.cast(y, dt.float64), dt.float32),
            c.cast(c.cast(y, dt.uint8), dt.int64),
        )

    def y_scalar(c, y):
        return c.reshape(c.slice(y, 0, 3, 4), ())

    arrays = [x, y]
    graph = trace(function, *arrays)
    with np.errstate(all="ignore"):
        want = [
            np.where(x > 0.5, x, np.float32(0)),
            np.where(np.isnan(x), np.float32(2**40), np.float32(1.5)),
            np.where(np.isinf(x), np.float32(7.9), x).astype(np.float64),
            y.astype(np.int32),
            y != 0,
            x != 0,
            y.astype(np.float64).astype(np.float32),
            (y % 256),
        ]
    for way, outputs in run_every_way(seam, graph, arrays).items():
        for k, (output, wanted) in enumerate(zip(outputs, want, strict=True)):
            assert_close(output, wanted, 0, f"output {k} ({way})")


@pytest.mark.conformance("lower", "fuse", "emit")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_small_integers_wrap(seam, dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, limits.min, limits.max, 7], dtype)
    y = x[::-1].copy()

    def function(c, x, y):
        return (
            c.add(x, y),
            c.sub(x, y),
            c.mul(x, y),
            c.maximum(x, y),
            c.bitwise_left_shift(x, 3),
            c.neg(x),
            c.lt(x, y),
        )

    with np.errstate(all="ignore"):
        want = [x + y, x - y, x * y, np.maximum(x, y), x << 3, np.negative(x), x < y]
    graph = trace(function, x, y)
    for way, outputs in run_every_way(seam, graph, [x, y]).items():
        for output, wanted in zip(outputs, want, strict=True):
            assert_close(output, np.asarray(wanted), 0, way)


def test_mixed_dtypes_promote(seam):
    f, i, b = np.array([1.5, -2.0], np.float32), np.array([3, -4]), np.array([True, False])

    def function(c, f, i, b):
        return c.add(f, i), c.mul(i, b), c.add(i, 0.5), c.div(i, 2), c.lt(i, 2.5), c.where(b, f, i)

    want = [f + i.astype(np.float32), i * b, i.astype(np.float32) + np.float32(0.5),
        (i / 2).astype(np.float32), i < 2.5,
            np.where(b, f, i.astype(np.float32))]  # fmt: skip
    graph = trace(function, f, i, b)
    for way, outputs in run_every_way(seam, graph, [f, i, b]).items():
        for output, wanted in zip(outputs, want, strict=True):
            assert_close(output, wanted, 0, way)
