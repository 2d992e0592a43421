"""Writes to a part of an input, compiled: only that part is written, where nobody needs what was there before.

Input: functions that write slices and elements at places of their arguments. The oracle is eager, on copies; a program
says which inputs its kernels write, and which kernels copy a whole input.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutaway
from stage_contracts.in_place import copies

ROWS, COLUMNS = 96, 400


def rows(x, y):
    x[2:6] = y[:4]


def a_step(x, y):
    x[1:9:3, 5:25] = y[:3, :20] * 2


def negative(x, y):
    x[-3:] = 1.0


def doubled(x, y):
    x[0] += y[0]


def twice(x, y):
    x[0] = y[0]
    x[5] = y[1]
    x[0, 3] = 7.0


def overlapping(x, y):
    x[0:4] = y[0:4]
    x[2:6] = y[6:10]


def moved(x, y):
    x[1:] = x[:-1].clone()


def read_again(x, y):
    x[0] = x[0] + y[0]
    x[1] = x[0] * x[2]


def read_after(x, y):
    x[3] = y[3]
    return (x * 2).sum(0)


def read_before(x, y):
    before = x.sum(0)
    x[3] = y[3]
    return before


def kept_too(x, y):
    old = x * 1
    x[3] = y[3]
    return old


def both(x, y):
    x[3] = y[3]
    y[3] = 0.0


def swapped(x, y):
    x[0] = y[1]
    y[0] = x[1]


def returned(x, y):
    x[3] = y[3]
    return x


def rows_returned(x, y):
    x[3] = y[3]
    return x[2:5]


def column_returned(x, y):
    x[:, 3].mul_(2)
    return x.t()[3]


def turned(x, y):
    x.t()[3] = y[:, 3]


def columns(x, y):
    x[:, 1] = y[:, 0]
    x[:, 2] = y[:, 1]


def a_row_of_its_own(x, y):
    row = x.t()[:, 0]
    row.as_strided((2,), (2,)).fill_(2)
    above = row[None]
    above.narrow(0, 0, 1).zero_()
    return above * y[0, 0]


def of_a_view(x, y):
    x.view(-1)[3:70] = y.view(-1)[:67]


def at_places(x, y, p):
    x[p] = y[: len(p)]


def in_columns(x, y, p):
    x[:, p] = y[:, : len(p)]


def a_number(x, y, p):
    x[p] = 0.0


def added(x, y, p):
    x.index_add_(0, p, y[: len(p)])


def scattered(x, y, p):
    x.scatter_(0, p[:, None].expand(len(p), COLUMNS), y[: len(p)])


def each_its_own(x, y, p):
    x.scatter_(1, (p[None] * 3).expand(ROWS, len(p)), y)


def of_itself(x, y, p):
    x[p] = x[p] + 1


def two_caches(x, y, p):
    x[p] = 1.5
    y[p] = 2.5
    return (x[:4] * y[:4]).sum()


def two_places(x, y, p):
    x[p] = 1.5
    y[p + 1] = 2.5


def first_a_part_then_places(x, y, p):
    x[1:3] = y[1:3]
    x[p] += y[0]


PLACES = {"some": [1, 3, 5], "one twice": [3, 7, 3], "from the end": [-1, 2, -ROWS]}
# name -> the inputs that are written where they are; those that are copied first have no letter
SLICES = {
    rows: "x", a_step: "x", negative: "x", doubled: "x", twice: "", overlapping: "x", moved: "", read_again: "",
    read_after: "x", read_before: "x", kept_too: "", both: "xy", swapped: "xy", returned: "x", rows_returned: "x",
    column_returned: "x", turned: "",
    columns: "x", of_a_view: "", a_row_of_its_own: "",
}  # fmt: skip
AT_PLACES = {
    at_places: "x", in_columns: "x", a_number: "x", added: "x", scattered: "x", each_its_own: "x", of_itself: "x",
    two_caches: "xy", two_places: "y", first_a_part_then_places: "",
}  # fmt: skip


def given(places=None, dtype="float32"):
    rng = np.random.default_rng(7)
    x, y = (cutaway.tensor(rng.integers(-9, 9, (ROWS, COLUMNS)).astype(dtype)) for _ in range(2))
    return [x, y] if places is None else [x, y, cutaway.tensor(places)]


def bits(value):
    return None if value is None else value.detach().numpy().tobytes()


def state(function, tensors):
    """What it gives and leaves: all bits, whose memory a result is in, and the error if there is one."""
    try:
        result = function(*tensors)
        shares = [result is not None and np.shares_memory(result.numpy(), t.numpy()) for t in tensors]
        gives = bits(result), shares
    except (IndexError, RuntimeError) as error:
        gives = type(error)
    return gives, [bits(t) for t in tensors]


def written(compiled):
    """The inputs that the program's kernels write, without those that are copied whole first."""
    program = compiled.artifacts[-1].forward.run.program
    pairs = [pair for step in program.steps for pair in copies(step, program).items()]
    copied = {into for out, into in pairs if out != into}  # a row of a table may copy an input onto itself
    assert not copied & {*program.written_inputs}
    return "".join(sorted(program.written_inputs))


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("function", SLICES, ids=lambda f: f.__name__)
def test_slices(function, dtype):
    if dtype == "bool" and function in (doubled, read_again, kept_too, read_after, read_before):
        pytest.skip("arithmetic")
    compiled = cutaway.compile(function)
    for _ in range(2):
        tensors, others = given(dtype=dtype), given(dtype=dtype)
        assert state(compiled, tensors) == state(function, others)
    if dtype == "float32":
        assert written(compiled) == SLICES[function]


@pytest.mark.parametrize("function", AT_PLACES, ids=lambda f: f.__name__)
def test_places(function):
    compiled = cutaway.compile(function)
    for places in PLACES.values():
        tensors, others = given(places), given(places)
        assert state(compiled, tensors) == state(function, others)
    assert written(compiled) == AT_PLACES[function]


@pytest.mark.parametrize("function", AT_PLACES, ids=lambda f: f.__name__)
def test_a_bad_place_leaves_what_eager_leaves(function):
    """Nothing of a write is there when its places are bad; what was written before it is."""
    compiled = cutaway.compile(function)
    for places in ([1, 3, 5], [1, ROWS, 2], [-ROWS - 1, 0, 1], [COLUMNS, 1, 2]):
        tensors, others = given(places), given(places)
        assert state(compiled, tensors) == state(function, others)


def test_rows_of_open_length():
    """One compile for caches of many lengths, and for many places."""

    def cached(cache, new, places):
        cache[:, places] = new
        return cache[:, : len(places)].sum()

    compiled = cutaway.compile(cached, dynamic=True)
    rng = np.random.default_rng(3)
    for length, count in [(9, 2), (30, 3), (17, 5), (64, 1), (5, 4)]:
        draw = lambda *shape: rng.integers(-9, 9, shape).astype("float32")  # noqa: E731
        arrays = draw(3, length, 8), draw(3, count, 8), rng.integers(0, length, count)
        tensors, others = ([cutaway.tensor(a) for a in arrays] for _ in range(2))
        assert state(compiled, tensors) == state(cached, others)
