"""Where collectives start: as soon as what they send is there, however late the graph asks for it.

Input: graphs whose gradients are asked for at the end, as a trace of a whole training step has them.
"""

import numpy as np

from stage3_lowering.tests.graphs import trace
from stage_contracts.program import Await, Collective, External

X = np.random.default_rng(3).standard_normal((8, 8))


def steps_of(seam, function):
    program = seam("fuse")(seam("lower")(trace(function, X)))
    return program.verify().steps


def positions(steps, kind, target=""):
    return [n for n, s in enumerate(steps) if isinstance(s, kind) and getattr(s, "target", target) == target]


def chain(c, x, count=6):
    values = [c.matmul(x, x)]
    for _ in range(count - 1):
        values.append(c.matmul(values[-1], x))
    return values


def test_a_bucket_leaves_as_soon_as_its_gradients_are_there(seam):
    def function(c, x):
        values = chain(c, x)
        flat = [c.reshape(v, (64,)) for v in values]
        first = c.all_reduce(c.cat([*flat[:2], *[c.exp(flat[1])] * 10], 0), "avg", "world")
        return values[-1], first, c.all_reduce(c.exp(flat[3]), "avg", "world")

    steps = steps_of(seam, function)
    products, starts, awaits = (positions(steps, k) for k in (External, Collective, Await))
    products = positions(steps, External, "matmul")
    assert products[1] < starts[0] < products[2] and products[3] < starts[1] < products[4]
    assert awaits[0] > products[-1]


def test_what_others_read_too_keeps_its_place(seam):
    """Nothing runs early that the computation needs anyway: only what goes to a collective alone."""

    def function(c, x):
        values = chain(c, x)
        return values[-1], c.all_reduce(values[2], "avg", "world")

    steps = steps_of(seam, function)
    products, (start,) = positions(steps, External, "matmul"), positions(steps, Collective)
    assert products == sorted(products) and products[2] < start < products[3]


def test_collectives_keep_their_order(seam):
    def function(c, x):
        values = chain(c, x)
        late = c.all_reduce(c.exp(values[-1]), "sum", "world")
        early = c.all_reduce(c.exp(values[0]), "sum", "world")
        return late, early

    steps = steps_of(seam, function)
    started = [s for s in steps if isinstance(s, Collective)]
    assert [s.token for s in started] == [0, 1]
    assert positions(steps, Collective)[0] > positions(steps, External, "matmul")[-1]
