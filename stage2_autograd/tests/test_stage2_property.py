"""Random small programs: compiled is eager, whatever the operators, the partitioner and who requires grad.

Input: hypothesis draws a list of steps; each reads earlier values. The same examples every run.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_eager import TABLE
from stage2_autograd.partition import recompute_pointwise
from stage2_autograd.tests.helpers import SEAMS, activations, check_against_eager, dropout, inplace, tensor

# Each keeps shape (3, 3) and values of moderate size, so that any sequence is a program.
_SHAPE = (3, 3)
c = {name.removeprefix("core."): op for name, op in TABLE.items() if name.startswith("core.")}
_ONE = {
    "tanh": c["tanh"],
    "sigmoid": c["sigmoid"],
    "sin": c["sin"],
    "relu": activations.relu,
    "gelu": activations.gelu,
    "softmax": lambda x: TABLE["cutaway.softmax"](x, 1),
    "dropout": lambda x: dropout.dropout(x, 0.5),
    "transpose": lambda x: c["permute"](x, (1, 0)),
    "mean": lambda x: c["expand"](c["mul"](c["sum"](x, (0,), True), 1 / 3), _SHAPE),
    "flip": lambda x: c["flip"](x, (0,)),
    "roll": lambda x: c["cat"]([c["slice"](x, 0, 1, 3), c["slice"](x, 0, 0, 1)], 0),
    "detach": c["detach"],
    "scaled in place": lambda x: inplace.mul_(c["clone"](x), 0.5),
}
_TWO = {
    "add": c["add"],
    "mul": lambda x, y: c["mul"](c["tanh"](x), y),
    "maximum": c["maximum"],
    "matmul": lambda x, y: c["mul"](c["matmul"](x, y), 1 / 3),
    "where": lambda x, y: c["where"](c["gt"](x, 0), x, y),
    "added in place": lambda x, y: inplace.add_(c["clone"](x), y),
}
_step = st.tuples(st.sampled_from(sorted({**_ONE, **_TWO})), st.integers(0, 7), st.integers(0, 7))


@pytest.mark.conformance(*SEAMS)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    steps=st.lists(_step, min_size=1, max_size=7),
    grads=st.tuples(st.booleans(), st.booleans()),
    results=st.integers(1, 2),
    recompute=st.booleans(),
)
def test_a_random_program_is_as_in_eager(seam, steps, grads, results, recompute):
    def program(x, y):
        values = [x, y]
        for name, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(_ONE[name](a) if name in _ONE else _TWO[name](a, b))
        return tuple(v * 1.0 for v in values[-results:])

    def seams(name):
        # the second partitioner in half of the programs, unless the partitioner is what is under test
        own = recompute and seam.target(name) == "stage2_autograd.tiny:partition"
        return recompute_pointwise if own else seam(name)

    check_against_eager(seams, program, *(tensor(*_SHAPE, seed=i, grad=g) for i, g in enumerate(grads)))
