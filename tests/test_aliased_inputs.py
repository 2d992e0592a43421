"""Compiled functions on inputs that share memory, one of them written: values, memory and counters are eager's.

Input: views of one array as arguments, with every built-in backend of the CPU.
"""

import numpy as np
import pytest

import cutaway
from stage_contracts import events

MEMORY = np.arange(24.0)


def overlapping(memory):
    return memory[:16].reshape(4, 4), memory[8:].reshape(4, 4)


def transposed(memory):
    square = memory[:16].reshape(4, 4)
    return square, square.T


def the_same(memory):
    square = memory[4:20].reshape(4, 4)
    return square, square.reshape(4, 4)


def neighbours(memory):
    rows = memory.reshape(4, 6)
    return rows[:, :4], rows[:, 1:5]


def write_one(x, y):
    x.mul_(2)
    return x + y


def write_both(x, y):
    x.add_(1)
    y[0].mul_(3)
    return x * 1.0, y


def views_of_both(x, y):
    y.add_(x.sum())
    return x[0], y.reshape(-1), x


def exchange(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return y[1]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "program", [write_one, write_both, views_of_both, exchange], ids=lambda f: f.__name__
)
def test_as_in_eager(program, backend):
    compiled = cutaway.compile(program, backend=backend)
    for views in (overlapping, transposed, the_same, neighbours):
        ours, theirs = MEMORY.copy(), MEMORY.copy()
        mark = events.LEDGER.mark()
        x, y = map(cutaway.from_numpy, views(ours))
        a, b = map(cutaway.from_numpy, views(theirs))
        got, want = compiled(x, y), program(a, b)
        got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{views.__name__}: the memory")
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w.numpy(), err_msg=views.__name__)
            assert np.shares_memory(g.numpy(), ours) == np.shares_memory(w.numpy(), theirs)
            assert [g is x, g is y] == [w is a, w is b]
        assert (x.version > 0) >= (a.version > 0) and (y.version > 0) >= (b.version > 0)
        assert not [e for e in events.LEDGER.since(mark) if e.kind == "fallback"]


def test_one_graph_for_each_pattern_of_places():
    compiled = cutaway.compile(write_one, backend="aot_eager")
    mark = events.LEDGER.mark()
    for _ in range(3):
        for views in (overlapping, transposed):
            compiled(*map(cutaway.from_numpy, views(MEMORY.copy())))
    made = [e for e in events.LEDGER.since(mark) if e.kind == "recompile" and e.name == "aliased inputs"]
    assert len(made) == 2


def test_gradients_flow_to_the_other_inputs():
    memory = MEMORY.copy()
    x, y = map(cutaway.from_numpy, overlapping(memory))
    w = cutaway.ones(4, 4, dtype=cutaway.float64, requires_grad=True)
    mark = events.LEDGER.mark()
    out = cutaway.compile(lambda x, y, w: write_one(x, y) * w, backend="aot_eager")(x, y, w)
    out.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), (x + y).numpy())
    assert not [e for e in events.LEDGER.since(mark) if e.kind == "fallback"]
