"""The first tier of lower, fuse, schedule and emit: what a naive version computes right, however many kernels it makes.

Input: nine programs of few operators on float32 arrays, and NumPy's answer to each.
"""

import numpy as np
import pytest

from stage3_lowering.tests import programs
from stage3_lowering.tests.graphs import check

F = np.float32
RNG = np.random.default_rng(5)
X, Y, ROW = (RNG.standard_normal(shape).astype(F) for shape in ((4, 6), (4, 6), (6,)))
# name: the program, its arrays, NumPy's answers
PROGRAMS = {
    "one operator": (lambda c, x, y: c.add(x, y), (X, Y), (X + Y,)),
    "a chain": (lambda c, x: c.mul(c.neg(c.exp(x)), 2.0), (X,), (-np.exp(X) * 2,)),
    "a broadcast row": (lambda c, x, row: c.sub(x, row), (X, ROW), (X - ROW,)),
    "a transposed view": (lambda c, x: c.mul(c.permute(x, (1, 0)), 3.0), (X,), (X.T * 3,)),
    "a sum over rows": (lambda c, x: c.sum(x, (1,)), (X,), (X.astype("f8").sum(1).astype(F),)),
    "a maximum over columns": (lambda c, x: c.amax(x, (0,)), (X,), (X.max(0),)),
    "a value read twice": (lambda c, x: (lambda e: (c.add(e, 1.0), c.mul(e, e)))(c.exp(x)), (X,),
                           (np.exp(X) + 1, np.exp(X) ** 2)),
    "a library call": (lambda c, x, y: c.neg(c.matmul(x, c.permute(y, (1, 0)))), (X, Y), (-(X @ Y.T),)),
    "softmax": (programs.softmax, (X,), (programs.numpy_softmax(X.astype("f8")).astype(F),)),
}  # fmt: skip


def tier_of_emit(name):
    """The default fuse makes one kernel of several loop nests of softmax: a first emit knows one."""
    return pytest.mark.conformance("emit", tier="full" if name == "softmax" else "first")


@pytest.mark.conformance("lower", "fuse", "schedule", tier="first")
@pytest.mark.parametrize("name", [pytest.param(name, marks=tier_of_emit(name)) for name in PROGRAMS])
def test_a_small_program_computes_what_numpy_does(seam, name):
    """Lowered, fused, scheduled and emitted, a program computes what its core operators do, in this order of steps."""
    function, arrays, expected = PROGRAMS[name]
    check(seam, function, arrays, expected, ulps=32)


# What a machine without a special case computes: name of the core operator -> NumPy's function.
COMMON = {
    "float": {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
        "reciprocal": np.reciprocal, "floor": np.floor, "ceil": np.ceil, "maximum": np.maximum, "minimum": np.minimum,
        "eq": np.equal, "lt": np.less, "ge": np.greater_equal, "isnan": np.isnan,
    },
    "int": {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "eq": np.equal, "lt": np.less},
}  # fmt: skip


@pytest.mark.conformance("lower", "fuse", "schedule", "emit", tier="core")
@pytest.mark.parametrize("layout", ["dense", "transposed", "broadcast", "empty"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_common_operators_in_every_layout(seam, dtype, layout):
    """A pointwise operator computes what NumPy does, with NaN and infinities, wherever its elements lie."""
    edge = (
        [np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5, -1.5, 3.0]
        if dtype.startswith("float")
        else [0, 1, -1, 7, -3]
    )
    x = np.resize(np.array(edge, dtype), (5, 8))
    y = np.ascontiguousarray(x[::-1, ::-1])
    x = {"dense": x, "transposed": np.ascontiguousarray(x.T).T, "broadcast": x[:1], "empty": x[:, :0]}[layout]
    y = y[:, : x.shape[1]]
    operators = COMMON[dtype.rstrip("0123456789")]

    def arguments(function):
        return (x, y)[: function.nin]

    with np.errstate(all="ignore"):
        expected = [function(*arguments(function)) for function in operators.values()]

    def program(c, *nodes):
        return [getattr(c, name)(*nodes[: function.nin]) for name, function in operators.items()]

    check(seam, program, (x, y), expected, ulps=8)


@pytest.mark.conformance("lower", "fuse", "schedule", "emit", tier="core")
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("kind", ["sum", "amax", "amin"])
def test_reductions_over_any_dims(seam, kind, dims):
    """A reduction takes all the elements of its dims, and keeps or drops them as it was asked."""
    exact = getattr(np, kind)(X.astype("f8"), axis=dims)
    kept = getattr(np, kind)(X.astype("f8"), axis=dims, keepdims=True)

    def program(c, x):
        return getattr(c, kind)(x, dims), getattr(c, kind)(x, dims, True)

    check(seam, program, (X,), (exact.astype(F), kept.astype(F)), ulps=16)
