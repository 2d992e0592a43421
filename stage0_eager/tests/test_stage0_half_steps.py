"""Short ways of small halves: the bits, layouts, errors and silence of the operators' own way, which a tape takes.

Input: halves of every size with infinities, NaN and what overflows in between, and numbers that no half holds.
"""

import warnings

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.functions import in_float32
from stage0_eager.functions import pointwise as P
from stage_contracts import dtype as dt

SHAPES = [(8,), (3, 5), (4, 1), (1,), (), (0, 3)]
NUMBERS = [1, 0.3, -70_001.0, 1e-9, float("inf"), 3]
PROGRAMS = {
    "lerp": lambda x, y, z, n: P.lerp(x, y, n),
    "lerp of a tensor": lambda x, y, z, n: P.lerp(x, y, z),
    "addcmul": lambda x, y, z, n: P.addcmul(x, y, z, value=n),
    "addcdiv": lambda x, y, z, n: P.addcdiv(x, y, z, value=n),
    "mul": lambda x, y, z, n: P.mul(x, n),
    "div": lambda x, y, z, n: P.div(x, n),
    "add": lambda x, y, z, n: P.add(x, y, alpha=n),
    "sub": lambda x, y, z, n: P.sub(x, y, alpha=n),
    "cast": lambda x, y, z, n: x.to(dt.float32),
    "cast to a half": lambda x, y, z, n: x.to(dt.float32).to(dt.bfloat16),
}


def halves(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(shape, np.float32) * rng.choice(np.float32([1, 300, 60_000]), shape)
    array = np.where(rng.random(shape) < 0.1, np.float32(rng.choice([np.nan, np.inf, 1e-7])), array)
    return Tensor(np.asarray(array, np.float32)).to(dtype)


def bits(tensor):
    return str(tensor.dtype), tensor.shape, tensor.stride(), tensor.detach().to(dt.float64).numpy().tobytes()


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_short_way_is_the_operators_way(name, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k, (shape, number) in enumerate((s, n) for s in SHAPES for n in NUMBERS):
            given = [halves(shape, dtype, 3 * k + i) for i in range(3)]
            every_second = [x[..., ::2] if shape else x for x in given]
            expanded = [given[0], given[1][..., :1] if shape else given[1], given[2]]
            for operands in (given, every_second, expanded):
                short = PROGRAMS[name](*operands, number)
                on_tape = PROGRAMS[name](*(x.detach().requires_grad_(True) for x in operands), number)
                assert bits(short) == bits(on_tape), (shape, number)


def test_shapes_that_do_not_fit_are_told_as_by_the_operators():
    x, y = Tensor(np.ones(3)).to(dt.float16), Tensor(np.ones(4)).to(dt.float16)
    with pytest.raises(RuntimeError) as of_halves:
        P.lerp(x, y, 0.5)
    with pytest.raises(RuntimeError) as of_floats:
        P.lerp(x.to(dt.float32), y.to(dt.float32), 0.5)
    assert str(of_halves.value) == str(of_floats.value)


def test_a_few_halves_take_no_step_of_the_operators(monkeypatch):
    """A cast of each operand and of the result would take twice as long as the steps."""
    x = Tensor(np.ones(8)).to(dt.float16)
    monkeypatch.setattr(in_float32, "_wide", None)
    assert P.lerp(x, 2 * x, 0.5).tolist() == [1.5] * 8
    assert P.addcmul(x, x, x, value=0.5).tolist() == [1.5] * 8
    with pytest.raises(TypeError):
        P.lerp(x.requires_grad_(True), x, 0.5)
