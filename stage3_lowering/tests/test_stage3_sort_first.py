"""On a CPU, a sort of which the first elements are read: the call gives these alone, equal ones in their order.

Input: top-k, k-th values and more of sorts, of rows with NaN and repeats. The oracle is NumPy's stable sort.
"""

import operator

import numpy as np
import pytest

from stage3_lowering.tests.graphs import CPP, check, trace
from stage_contracts.program import External


def read(k, largest, dim, places=(0, 1)):
    """The first k of some results, each read by a kernel."""

    def function(c, x):
        made = c.sort(x, dim, largest, False)
        parts = [c._graph.call_function(operator.getitem, (made, p), {}, val=made.val[p]) for p in places]
        return tuple(c.add(c.slice(part, dim, 0, k, 1), 1) for part in parts)

    def want(x):
        last = x.shape[dim] - 1
        keys = x.astype(np.float64)
        up, down = keys, np.flip(keys, dim)
        order = (
            np.flip(last - np.argsort(down, axis=dim, kind="stable"), dim)
            if largest
            else np.argsort(up, axis=dim, kind="stable")
        )
        order = np.take(order, range(k), dim)
        found = np.take_along_axis(x, order, dim), order
        return tuple(found[place] + found[place].dtype.type(1) for place in places)

    return function, want


# (function and oracle, how many elements of each row the call gives; 0: all)
CASES = {
    "largest": (read(3, True, 1), 3),
    "smallest, columns": (read(2, False, 0), 2),
    "values": (read(8, True, 1, (0,)), 8),
    "places": (read(1, False, 1, (1,)), 1),
    "too many": (read(20, True, 1), 0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("case", CASES)
def test_no_more_than_is_read_is_sorted(seam, case, dtype):
    (function, want), count = CASES[case]
    rng = np.random.default_rng(2)
    x = rng.integers(0, 9, (40, 40)).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[x == 0] = np.copysign(x[x == 0], rng.choice([-1, 1], (x == 0).sum()))
    check(seam, function, [x], want(x))
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, x))), CPP)
    (call,) = (step for step in program.steps if isinstance(step, External))
    assert call.target == ("sort_first" if count else "sort") and call.args[4:] == (count,) * bool(count)


def test_one_number(seam):
    def function(c, x):
        made = c.sort(x, 0, False, False)
        return c.add(c._graph.call_function(operator.getitem, (made, 0), {}, val=made.val[0]), 1)

    check(seam, function, [np.float32(3).reshape(())], [np.float32(4)])
