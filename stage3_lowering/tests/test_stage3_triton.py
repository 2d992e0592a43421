"""Triton kernels: interpreted on NumPy with bounds checks, and compiled to PTX for a GPU that is not here.

Input: a representative set: every pointwise operator, reductions that fit a block and that do not, fused
chains. The interpreter finds wrong numbers and indices, the compiler wrong types and sizes; neither needs
torch or a GPU.
"""

import importlib.util

import numpy as np
import pytest

from stage3_lowering.tests import programs
from stage3_lowering.tests import test_stage3_pointwise as pointwise
from stage3_lowering.tests.graphs import TRITON, assert_close, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
F = np.float32
RNG = np.random.default_rng(5)
X = RNG.standard_normal((5, 12)).astype(F)


def emitted(seam, function, *arrays):
    return seam("emit")(seam("fuse")(seam("lower")(trace(function, *arrays))), TRITON)


def interpret(program, arrays):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    return run_in_interpreter(program, arrays)


def compile_all(program):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    compiled = compile_to_ptx(program)
    for name, result in compiled.items():
        assert f".visible .entry {name}(" in result["ptx"] and ".target sm_90" in result["ptx"]
    return compiled


def pointwise_calls(dtype):
    """Every operator once, on operands laid out in different ways, and with a number."""
    for name in pointwise.UNARY:
        if pointwise.legal(name, dtype):
            yield name, ("x",)
    for name in pointwise.BINARY:
        if not pointwise.legal(name, dtype):
            continue
        if name not in pointwise.EXTERNAL or dtype != "int64":
            yield name, ("x", "y")
        yield name, ("x", pointwise.scalars(dtype)[0])


@pytest.mark.conformance("emit")
@pytest.mark.parametrize("dtype", pointwise.VALUES)
def test_every_pointwise_operator(seam, dtype):
    values = pointwise.VALUES[dtype]
    arrays = {"x": np.repeat(values, len(values)), "y": np.tile(values, len(values))}
    calls = list(pointwise_calls(dtype))

    def function(c, x, y):
        nodes = {"x": x, "y": y}
        return [
            getattr(c, name)(*[nodes.get(o, o) if isinstance(o, str) else o for o in os])
            for name, os in calls
        ]

    program = emitted(seam, function, *arrays.values())
    outputs = interpret(program, list(arrays.values()))
    for (name, operands), output in zip(calls, outputs, strict=True):
        given = [arrays[o] if isinstance(o, str) else o for o in operands]
        want, ulps = pointwise.expected(name, dtype, *given)
        assert_close(
            output,
            want,
            ulps,
            f"{name}{operands} of {dtype}",
            signed_zeros=name not in ("maximum", "minimum"),
        )
    compile_all(program)


CHAINS = {
    "sin_cos": (programs.sin_cos, [X], lambda x: np.sin(np.cos(x))),
    "gelu": (programs.gelu, [X], None),
    "softmax": (programs.softmax, [X], programs.numpy_softmax),
    "softmax of one row": (programs.softmax, [X[:1]], programs.numpy_softmax),
    "softmax that loops": (
        programs.softmax,
        [RNG.standard_normal((2, 17000)).astype(F)],
        programs.numpy_softmax,
    ),
    "log_softmax": (programs.log_softmax, [X], programs.numpy_log_softmax),
    "layer_norm": (
        programs.layer_norm,
        [X, *RNG.standard_normal((2, 12)).astype(F)],
        programs.numpy_layer_norm,
    ),
}


@pytest.mark.conformance("emit")
@pytest.mark.parametrize("name", CHAINS)
def test_fused_chains(seam, name):
    function, arrays, reference = CHAINS[name]
    program = emitted(seam, function, *arrays)
    assert len(program.kernels) == 1
    (got,) = interpret(program, arrays)
    if reference is not None:
        np.testing.assert_allclose(
            got, reference(*[a.astype(np.float64) for a in arrays]), rtol=4e-6, atol=1e-6
        )
    compile_all(program)


@pytest.mark.conformance("emit")
@pytest.mark.parametrize("shape", [(3, 5), (1, 17000)], ids=["fits", "loops"])
def test_reductions(seam, shape):
    x = np.round(RNG.standard_normal(shape) * 4).astype(F)
    x[0, 2] = np.nan
    y = RNG.integers(-3, 4, shape)

    def function(c, x, y):
        kinds = ("sum", "amax", "amin", "any", "all")
        return (
            [getattr(c, k)(x, (1,)) for k in kinds]
            + [getattr(c, k)(y, (1,)) for k in (*kinds, "prod")]
            + [
                c.argmax(x, 1),
                c.argmin(x, 1),
                c.argmax(y, 1),
                c.argmin(y, 1),
                c.sum(c.gt(y, 0), (1,)),
                c.prod(c.cast(y, dt.float64), (1,)),
            ]
        )

    program = emitted(seam, function, x, y)
    want = [
        x.sum(1),
        x.max(1),
        x.min(1),
        x.any(1),
        x.all(1),
        y.sum(1),
        y.max(1),
        y.min(1),
        y.any(1),
        y.all(1),
        y.prod(1),
    ]
    want += [x.argmax(1), x.argmin(1), y.argmax(1), y.argmin(1), (y > 0).sum(1), y.prod(1).astype(np.float64)]
    for k, (got, wanted) in enumerate(zip(interpret(program, [x, y]), want, strict=True)):
        assert_close(got, np.asarray(wanted), 0, f"output {k}", signed_zeros=False)
    compile_all(program)


@pytest.mark.conformance("emit")
def test_views_sizes_and_what_is_made_from_nothing(seam):
    x, rng, at = np.arange(24, dtype=F).reshape(2, 3, 4), np.array([7, 9]), np.array([[2, -1], [0, 1]])
    empty, point = np.zeros((0, 3), F), np.array(2.5, F)

    def function(c, x, rng, at, empty, point):
        return (
            c.add(c.reshape(c.permute(x, (2, 0, 1)), (8, 3)), point), c.sum(c.permute(x, (2, 0, 1)), (0, 2)),
            c.neg(c.slice(x, 2, 1, None, 2)), c.sum(x, (0, 1, 2)), c.neg(point), c.sum(empty, (0,)),
            c.exp(empty),
            c.full((2,), True, dt.bool_, CPU), c.iota(5, 0.5, 0.25, dt.float64, CPU),
            c.random_bits(rng, 1, (3, 3)),
            c.gather(c.reshape(x, (6, 4)), 1, at), c.where(c.gt(x, 3.0), 1.0, 2.0), c.random_bits(rng, 0, ()),
        )  # fmt: skip

    from stage0_eager.random.philox import philox_words

    t = x.transpose(2, 0, 1)
    want = [
        t.reshape(8, 3) + point, t.sum((0, 2)), -x[:, :, 1::2], x.sum(), -point, np.zeros(3, F), empty,
        np.ones(2, bool),
        np.arange(5) * 0.25 + 0.5, philox_words(np, rng, 1, (3, 3)),
        np.take_along_axis(x.reshape(6, 4)[:2], at, 1),
        np.where(x > 3, F(1), F(2)), philox_words(np, rng, 0, ()),
    ]  # fmt: skip
    arrays = [x, rng, at, empty, point]
    program = emitted(seam, function, *arrays)
    for k, (got, wanted) in enumerate(zip(interpret(program, arrays), want, strict=True)):
        assert_close(got, np.asarray(wanted), 0, f"output {k}", signed_zeros=False)
    compile_all(program)


def test_an_access_out_of_bounds_is_caught(seam):
    program = emitted(seam, programs.sin_cos, X)
    (unit,) = program.units
    careless = program.with_(
        units=(type(unit)(unit.name, "triton", unit.text.replace("< 60", "< 64"), unit.kernels, TRITON),)
    )
    with pytest.raises(RuntimeError, match="lanes are out of bounds"):
        interpret(careless, [X])
