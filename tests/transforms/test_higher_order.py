"""Branches and loops on data, and function transforms, inside compiled code: one graph, eager's results and gradients.

Input: small functions with a backend that counts graphs.
"""

import numpy as np
import pytest

import cutaway
from cutaway import compiler, func


@pytest.fixture
def counter():
    return compiler.CompileCounter()


def same(a, b):
    assert a.shape == b.shape and a.dtype is b.dtype and a.requires_grad is b.requires_grad
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def chooses(x, scale):
    shift = x.sum() * 0.5

    def up(y, s):
        return y * s + shift

    return cutaway.cond(x.sum() > 0, up, lambda y, s: (y - s).sin(), (x, scale))


def test_cond_is_one_node_and_takes_what_it_closes_over(counter):
    compiled = cutaway.compile(chooses, backend=counter, fullgraph=True)
    scale = cutaway.tensor(3.0)
    for x in (cutaway.ones(4), -cutaway.ones(4)):
        same(compiled(x, scale), chooses(x, scale))
    assert counter.frame_count == 1
    assert "higher_order.cond(" in str(compiled.entries[0].frame.graph)


def test_gradients_flow_through_the_branch_that_ran(counter):
    compiled = cutaway.compile(chooses, backend=counter, fullgraph=True)
    for start in (1.0, -1.0):
        gradients = []
        for f in (chooses, compiled):
            x = (cutaway.ones(4) * start).requires_grad_()
            f(x, cutaway.tensor(2.0)).sum().backward()
            gradients.append(x.grad)
        same(*gradients)


def test_branches_must_agree():
    def f(x):
        return cutaway.cond(x.sum() > 0, lambda x: x, lambda x: x.sum(), (x,))

    with pytest.raises(cutaway.Unsupported, match=r"cond whose branches return float32\[3\] and float32\[\]"):
        cutaway.compile(f, backend="eager", fullgraph=True)(cutaway.ones(3))
    assert cutaway.compile(f, backend="eager")(cutaway.ones(3)).shape == (3,)
    with pytest.raises(RuntimeError, match="single-element tensor"):
        cutaway.cond(cutaway.ones(2), lambda: 1, lambda: 2)


def test_a_side_effect_in_a_branch_is_a_break():
    seen = []

    def f(x):
        return cutaway.cond(x.sum() > 0, lambda x: seen.append(1) or x, lambda x: x * 2, (x,))

    with pytest.raises(cutaway.Unsupported, match="side effect inside a function given to cond"):
        cutaway.compile(f, backend="eager", fullgraph=True)(cutaway.ones(3))
    assert not seen
    cutaway.compile(f, backend="eager")(cutaway.ones(3))
    assert seen == [1]


def test_a_predicate_known_at_capture_chooses_there(counter):
    f = cutaway.compile(
        lambda x: cutaway.cond(x.ndim == 1, lambda x: x + 1, lambda x: x - 1, (x,)),
        backend=counter,
        fullgraph=True,
    )
    assert f(cutaway.zeros(2)).tolist() == [1, 1] and counter.op_count == 1


def test_while_loop(counter):
    def collatz(n):
        steps = cutaway.zeros((), dtype=cutaway.int64)

        def advance(n, steps):
            return cutaway.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        return cutaway.while_loop(lambda n, steps: n > 1, advance, (n, steps))[1]

    compiled = cutaway.compile(collatz, backend=counter, fullgraph=True)
    for n, steps in ((1, 0), (6, 8), (27, 111)):
        assert compiled(cutaway.tensor(n)).item() == collatz(cutaway.tensor(n)).item() == steps
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_every_backend_gives_what_eager_gives(backend):
    compiled = cutaway.compile(chooses, backend=backend)
    scale = cutaway.tensor(3.0)
    for x in (cutaway.ones(4), -cutaway.ones(4)):
        np.testing.assert_allclose(compiled(x, scale).numpy(), chooses(x, scale).numpy(), rtol=1e-6)


def test_grad_and_vmap_inside(counter):
    weight = cutaway.randn(3)

    def loss(w, x, y):
        return ((x @ w - y) ** 2).sum()

    def step(w, x, y):
        gradient = func.grad(loss)(w, x, y)
        rows = func.vmap(lambda row: (row * weight).sum())(x)
        return w - 0.1 * gradient, rows

    args = cutaway.randn(3), cutaway.randn(5, 3), cutaway.randn(5)
    compiled = cutaway.compile(step, backend=counter, fullgraph=True)
    for got, want in zip(compiled(*args), step(*args), strict=True):
        same(got, want)
    assert counter.frame_count == 1
    whole = cutaway.compile(step, backend="aot_eager", fullgraph=True)
    for got, want in zip(whole(*args), step(*args), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_transforms_of_compiled_functions():
    def f(x):
        return (x.sin() * x).sum()

    compiled, x = cutaway.compile(f, backend="eager"), cutaway.randn(4)
    same(func.grad(compiled)(x), func.grad(f)(x))
    same(func.vmap(compiled)(cutaway.ones(2, 3)), func.vmap(f)(cutaway.ones(2, 3)))
