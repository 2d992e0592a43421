"""A slice of the random programs, the same ones every time; `make programs` runs ten thousand others.

Input: programs.py's strategy. Eager against an interpreter in float64.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.oracle.compare import Mismatch
from tests.oracle.programs import Program, Step, check, eager, programs

SLICE = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@SLICE
@given(programs())
def test_eager_gives_what_the_interpreter_gives(program):
    check(program)


def written_through(name, *options):
    """x, a slice of it, a write to the slice, and a sum over x, which must see it."""
    steps = (Step("slice", (0,), (0, 0, 2, 1)), Step(name, (1,), options), Step("sum", (0,), (None, False)))
    return Program((("float64", (3, 2), 1),), steps)


def test_a_write_through_a_view_is_seen_in_the_base():
    program = written_through("zero_")
    check(program)
    assert (eager(program)[0].numpy()[:2] == 0).all()


@pytest.mark.parametrize(
    "change", [lambda v: v + 1e-9, lambda v: v.astype(np.float32), lambda v: v[..., None]]
)
def test_a_wrong_value_dtype_or_shape_is_seen(change):
    from stage0_eager.tensor import Tensor

    program = Program((("float64", (3,), 1),), (Step("neg", (0,), ()),))
    check(program)
    with pytest.raises(Mismatch):
        check(program, lambda p: [*eager(p)[:-1], Tensor(change(eager(p)[-1].numpy()))])


def test_a_view_that_is_a_copy_is_seen():
    def copying(program):
        from stage0_eager.tensor import Tensor

        values = eager(program)
        return [Tensor(np.abs(values[0].numpy()) + 1), *values[1:]]

    with pytest.raises(Mismatch):
        check(written_through("zero_"), copying)
