"""autograd.grad inside compiled functions: one graph, no break, and what it gives can be differentiated again.

Input: gradient penalties and the like, against eager.
"""

import numpy as np
import pytest

import cutaway
from cutaway import autograd


def gradient_penalty(x, w):
    h = cutaway.softmax(cutaway.tanh(x * w), 0)
    (d,) = autograd.grad(h.pow(2).sum(), w, create_graph=True, only_inputs=True)
    return h.sum() + (d.pow(2).sum() - 1) ** 2


def third_derivative(x, w):
    (d,) = autograd.grad([(x * x * x * w).sum()], [x], create_graph=True)
    (e,) = autograd.grad(d.sum(), x, create_graph=True)
    return (d * e).sum()


def constants_without_create_graph(x, w):
    dx, dw = autograd.grad(cutaway.sin(x * w), (x, w), grad_outputs=cutaway.ones_like(x) * 2)
    return (dx * w).sum() + (dw * x).sum()


def of_a_value_inside(x, w):
    h = cutaway.exp(x)
    (d,) = autograd.grad((h * h * w).sum(), h, create_graph=True)
    return (d * x).sum()


def gradients(function, *values):
    tensors = [cutaway.tensor(v, dtype=cutaway.float64, requires_grad=True) for v in values]
    out = function(*tensors)
    out.backward()
    return out.item(), [t.grad.numpy() for t in tensors]


VALUES = ([0.3, -1.2, 0.8], [1.1, 0.4, -0.7])
PROGRAMS = (gradient_penalty, third_derivative, constants_without_create_graph, of_a_value_inside)


@pytest.mark.parametrize(
    ("program", "backend"),
    [*((p, b) for p in PROGRAMS for b in ("eager", "aot_eager")), (gradient_penalty, "inductor")],
)
def test_as_in_eager(program, backend):
    compiled = cutaway.compile(program, backend=backend, fullgraph=True)
    value, found = gradients(compiled, *VALUES)
    wanted_value, wanted = gradients(program, *VALUES)
    assert value == pytest.approx(wanted_value, rel=1e-12)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)


def test_the_penalty_is_right_by_differences():
    value, found = gradients(cutaway.compile(gradient_penalty, backend="aot_eager"), *VALUES)
    step = 1e-6
    for which in range(2):
        for at in range(3):
            ends = []
            for sign in (1, -1):
                moved = [list(v) for v in VALUES]
                moved[which][at] += sign * step
                ends.append(gradients(gradient_penalty, *moved)[0])
            assert found[which][at] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_what_cannot_be_in_the_graph_runs_eagerly():
    def unused(x, w):
        d, e = autograd.grad((x * x).sum(), (x, w), allow_unused=True)
        return (d * x).sum() + (w if e is None else e).sum()

    value, found = gradients(cutaway.compile(unused, backend="eager"), *VALUES)
    wanted_value, wanted = gradients(unused, *VALUES)
    assert value == wanted_value
    np.testing.assert_array_equal(found, wanted)
