"""Other configurations of a Triton kernel: which are tried, that each gives the kernel's results, and that each compiles.

Input: a kernel of each kind. Kernels run in Triton's interpreter, every access checked for bounds.
"""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.tests.graphs import TRITON, configured, trace
from stage3_lowering.tests.programs import layer_norm, softmax
from stage3_lowering.tests.test_stage3_open_sizes import open_metas
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.program import Target
from stage_contracts.symbolic import NOMINAL

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
MEASURED = Target("triton", arch="sm_90", options={"max_autotune": True})


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def pointwise(c, x, y):
    return c.add(c.mul(x, 2.0), y)


def turned(c, x, y):
    return c.add(c.permute(x, (1, 0)), y)


def column_sums(c, x):
    return c.sum(x, (0,), False)


def row_sums(c, x):
    return c.sum(c.mul(x, x), (1,), False)


def largest(c, x):
    return c.argmax(x, 1, False)


def attend(c, q, k, v):
    scores = c.mul(c.matmul(q, c.permute(k, (0, 2, 1))), 0.3)
    row = c.reshape(c.iota(scores.val.shape[1], 0, 1, dt.int64, CPU), (1, -1, 1))
    column = c.reshape(c.iota(scores.val.shape[2], 0, 1, dt.int64, CPU), (1, 1, -1))
    low = c.full(scores.val.shape, float("-inf"), dtype=dt.float16, device=CPU)
    seen = c.where(c.ge(row, column), scores, low)
    e = c.exp(c.sub(seen, c.amax(seen, (-1,), True)))
    return c.matmul(c.div(e, c.sum(e, (-1,), True)), v)


def halves(*shape, seed=0):
    return floats(*shape, seed=seed).astype(np.float16)


KINDS = {
    "pointwise": (pointwise, (floats(70, 90), floats(70, 90, seed=1))),
    "turned": (turned, (floats(100, 90), floats(90, 100, seed=1))),
    "softmax": (softmax, (floats(10, 3000),)),
    "short rows": (softmax, (floats(50, 40),)),
    "layer norm": (layer_norm, (floats(9, 1000), floats(1000, seed=1), floats(1000, seed=2))),
    "long rows": (softmax, (floats(2, 20000),)),
    "columns": (column_sums, (floats(300, 200),)),
    "row sums": (row_sums, (floats(40, 600),)),
    "argmax": (largest, (floats(40, 600),)),
    "attention": (attend, tuple(halves(1, 100, 24, seed=s) for s in range(3))),
}


def emitted(seam, name, target=MEASURED):
    function, arrays = KINDS[name]
    program = seam("fuse")(seam("lower")(trace(function, *arrays)))
    return seam("emit")(seam("schedule")(program, target), target), program, arrays


@needs_triton
@pytest.mark.parametrize("name", KINDS)
def test_each_configuration_gives_the_kernels_results(seam, name):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    made, program, arrays = emitted(seam, name)
    every = [*configured(made)]
    assert len(every) > 2
    for want, *given in zip(
        interpret_program(program, arrays), *(run_in_interpreter(one, arrays) for one in every), strict=True
    ):
        for got in given:
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(
                got.astype(np.float64), want.astype(np.float64), rtol=3e-3 if got.dtype == np.float16 else 1e-5,
                atol=2e-3 if got.dtype == np.float16 else 1e-5,
            )  # fmt: skip


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("name", KINDS)
def test_each_configuration_compiles(seam, name, arch):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    for one in configured(emitted(seam, name, replace(MEASURED, arch=f"sm_{arch}"))[0]):
        assert all(made["ptx"] for made in compile_to_ptx(one, arch).values())


def test_none_is_given_unless_asked_for(seam):
    for name in ("pointwise", "softmax", "attention"):
        plain = emitted(seam, name, TRITON)[0]
        assert all(not unit.alternatives and not unit.arguments for unit in plain.units)
        asked = emitted(seam, name)[0]
        assert [unit.text for unit in asked.units] == [unit.text for unit in plain.units], (
            "the rule's is first"
        )
        assert [unit.grids for unit in asked.units] == [unit.grids for unit in plain.units]


def test_what_a_kernel_takes_is_told(seam):
    (unit,) = emitted(seam, "layer norm")[0].units
    assert unit.arguments == (("float32", 9000), ("float32", 1000), ("float32", 1000), ("float32", 9000))
    assert len({alternative.label for alternative in unit.alternatives}) == len(unit.alternatives) > 1


def test_an_open_size_is_measured_at_the_nominal_one(seam):
    program = seam("fuse")(seam("lower")(trace(lambda c, x: c.mul(x, 2.0), *open_metas(("s", 32))[1])))
    (unit,) = seam("emit")(seam("schedule")(program, MEASURED), MEASURED).units
    assert unit.arguments == (("float32", 32 * NOMINAL), ("float32", 32 * NOMINAL), ("size", NOMINAL))
