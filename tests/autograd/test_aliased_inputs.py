"""Compiled functions on inputs that share memory, one of them written: values, memory and counters are eager's.

Input: views of one array as arguments, with every built-in backend of the CPU.
"""

import numpy as np
import pytest
from cutaway.utils.checkpoint import checkpoint

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
        mark = events.EVENT_LOG.mark()
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
        assert not [e for e in events.EVENT_LOG.since(mark) if e.kind == "fallback"]


def test_one_graph_for_each_pattern_of_places():
    compiled = cutaway.compile(write_one, backend="aot_eager")
    mark = events.EVENT_LOG.mark()
    for _ in range(3):
        for views in (overlapping, transposed):
            compiled(*map(cutaway.from_numpy, views(MEMORY.copy())))
    made = [e for e in events.EVENT_LOG.since(mark) if e.kind == "recompile" and e.name == "aliased inputs"]
    assert len(made) == 2


def test_gradients_flow_to_the_other_inputs():
    memory = MEMORY.copy()
    x, y = map(cutaway.from_numpy, overlapping(memory))
    w = cutaway.ones(4, 4, dtype=cutaway.float64, requires_grad=True)
    mark = events.EVENT_LOG.mark()
    out = cutaway.compile(lambda x, y, w: write_one(x, y) * w, backend="aot_eager")(x, y, w)
    out.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), (x + y).numpy())
    assert not [e for e in events.EVENT_LOG.since(mark) if e.kind == "fallback"]


# ---- what runs eagerly: inputs that require grad, and memory seen as two dtypes -----------------------------------


def silent_write(x, y, w):
    with cutaway.no_grad():
        x.mul_(2)
    return (x * y.reshape(x.shape) * w).sum()


def recorded_write(x, y, w):
    x.mul_(w)
    return (x * y.reshape(x.shape)).sum()


def write_the_other(x, y, w):
    y.add_(1)
    return (cutaway.sin(x) * w).sum() + y.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [silent_write, recorded_write, write_the_other], ids=lambda f: f.__name__)
def test_views_of_a_tensor_that_requires_grad(program, backend):
    """Values, the written memory, counters and the gradient of the tensor that both are views of."""

    def run(function):
        leaf = cutaway.tensor(np.linspace(-1, 1, 24), dtype=cutaway.float64, requires_grad=True)
        w = cutaway.full((4, 4), 1.5, dtype=cutaway.float64, requires_grad=True)
        base = leaf * 1
        x, y = base[:16].reshape(4, 4), base[8:]
        outcome = []
        try:
            loss = function(x, y[:16], w)
            loss.backward()
            outcome += [loss.item(), leaf.grad.tolist(), w.grad.tolist()]
        except RuntimeError as error:
            outcome.append(str(error).split(":")[0])
        return [*outcome, base.tolist(), x.tolist(), y.tolist(), base.version]

    found, wanted = run(cutaway.compile(program, backend=backend)), run(program)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, str):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_memory_seen_as_two_dtypes(backend):
    def program(x, y):
        x.add_(1)
        y[0] = 7
        return x * 2, y + 1

    compiled = cutaway.compile(program, backend=backend)
    for _ in range(2):
        ours, theirs = MEMORY.copy(), MEMORY.copy()
        got = compiled(cutaway.from_numpy(ours[:4]), cutaway.from_numpy(ours.view(np.int64)[2:]))
        want = program(cutaway.from_numpy(theirs[:4]), cutaway.from_numpy(theirs.view(np.int64)[2:]))
        np.testing.assert_array_equal(ours.view(np.int64), theirs.view(np.int64))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w.numpy())


# ---- an input that the backward reads, or recomputes from, is written before it runs ------------------------------


def from_a_product(w, x):
    return (x @ w).pow(2).sum()


def from_a_recomputed_chain(w, x):
    return cutaway.exp(cutaway.sin(w) * cutaway.cos(w * 2)).sum() * x.sum()


def does_not_read_it(w, x):
    return (w.sum() * x).sum()


def second(function):
    """The gradient of a loss, after the optimizer has written the parameter."""
    w = cutaway.tensor(np.linspace(-1, 1, 12).reshape(3, 4), dtype=cutaway.float64, requires_grad=True)
    x = cutaway.tensor(np.linspace(0, 2, 6).reshape(2, 3), dtype=cutaway.float64)
    optimizer = cutaway.optim.SGD([w], lr=0.5)
    loss = function(w, x)
    (w * 3).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return w.grad.numpy()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("budget", [1.0, 0.0])
@pytest.mark.parametrize(
    "program",
    [from_a_product, from_a_recomputed_chain, does_not_read_it],
    ids=lambda f: f.__name__,
)
def test_an_optimizers_step_before_the_second_backward(program, budget, backend):
    """Eager's error, or eager's gradient: never one of the new values."""
    compiled = cutaway.compile(
        program, backend=backend, options={"autograd.activation_memory_budget": budget}
    )
    try:
        wanted = second(program)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        with pytest.raises(
            RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"
        ):
            second(compiled)
        return
    try:
        found = second(compiled)
    except RuntimeError as error:  # it recomputes from w, where eager kept something else
        assert "modified by an inplace operation" in str(error)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_under_a_checkpoint_the_error_comes_where_eager_would_be_wrong(backend):
    """Eager, as torch, runs a checkpoint again on whatever its argument holds by then."""

    def program(w, x):
        return checkpoint(lambda v: cutaway.tanh(x @ v).sum(), w, use_reentrant=False)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        second(cutaway.compile(program, backend=backend, fullgraph=True))


# ---- a tensor's memory is replaced --------------------------------------------------------------------------------


def set_input(x, y):
    x.set_(y)
    y.add_(1)
    return x * 2


def set_data(x, y):
    x.data = y[1:]
    return x.sum() * y


def set_inside(x, y):
    z = x * 3
    z.set_(y)
    z.mul_(2)
    return z + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [set_input, set_data, set_inside], ids=lambda f: f.__name__)
def test_memory_that_is_replaced(program, backend):
    """A named break: size, sharing and values afterwards are eager's."""

    def run(function):
        x, y = cutaway.tensor([1.0, 2.0]), cutaway.tensor([3.0, 4.0, 5.0])
        out = function(x, y)
        y.mul_(10)
        return [t.tolist() for t in (out, x, y)]

    compiled = cutaway.compile(program, backend=backend)
    assert run(compiled) == run(program)
    assert {b.code for b in compiled.breaks} == {"GB0101" if program is set_data else "GB0091"}


def test_set_takes_a_tensor_of_its_own_dtype():
    x = cutaway.ones(2)
    assert x.set_(cutaway.zeros(3)) is x and x.shape == (3,) and x.version == 1
    with pytest.raises(RuntimeError, match="set_ expects a tensor of dtype float32"):
        x.set_(cutaway.zeros(3, dtype=cutaway.float64))
    with pytest.raises(RuntimeError, match="in-place operation"):
        cutaway.ones(2, requires_grad=True).set_(x)


# ---- a gradient that is there already grows in place --------------------------------------------------------------


def another_step(p, x):
    held = p.grad
    (p * x).sum().backward()
    return held * 1, p.grad


def set_to_zero_first(p, x):
    p.grad.zero_()
    (p * p * x).sum().backward()
    return (p.grad * 2,)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
@pytest.mark.parametrize("program", [another_step, set_to_zero_first], ids=lambda f: f.__name__)
def test_a_gradient_is_accumulated_in_place(program, backend):
    """As torch: the same tensor, one write more; its layout stays."""
    function = program if backend is None else cutaway.compile(program, backend=backend, fullgraph=True)
    p = cutaway.full((2, 3), 2.0, requires_grad=True)
    p.grad = held = cutaway.ones(3, 2).t()
    x = cutaway.tensor([1.0, 2.0, 3.0])
    total = np.ones((2, 3))
    for calls in (1, 2):
        results = function(p, x)
        total = total + x.numpy() if program is another_step else 4 * np.tile(x.numpy(), (2, 1))
        assert p.grad is held and held.stride() == (1, 2)
        assert held.version == calls * (1 if program is another_step else 2)
        np.testing.assert_array_equal(held.numpy(), total)
        np.testing.assert_array_equal(results[0].numpy(), total if program is another_step else 2 * total)
        assert program is set_to_zero_first or results[1] is held


def test_with_create_graph_the_sum_is_a_new_tensor():
    p = cutaway.full((3,), 2.0, requires_grad=True)
    p.grad = held = cutaway.ones(3)
    (p * p).sum().backward(create_graph=True)
    assert p.grad is not held and p.grad.requires_grad and held.tolist() == [1.0] * 3


def test_a_gradient_given_as_the_seed():
    """Its own growth must not be seen by the other leaf that gets it."""
    p, q = cutaway.ones(2, requires_grad=True), cutaway.ones(2, requires_grad=True)
    p.grad = cutaway.full((2,), 3.0)
    (p + q).backward(p.grad)
    assert p.grad.tolist() == [6.0, 6.0] and q.grad.tolist() == [3.0, 3.0]
