"""autograd.Function and tensor hooks inside compiled functions: a named break, and eager's values and gradients.

Input: programs whose tape holds the user's own Python between what is compiled.
"""

import numpy as np
import pytest

import cutaway
from cutaway import autograd
from stage_contracts.breaks import Unsupported


class Scaled(autograd.Function):
    """k x^3 w, with a derivative by w that is wrong on purpose, so that only it can have been used."""

    needed = None

    @staticmethod
    def forward(ctx, x, k, w):
        ctx.save_for_backward(x, w)
        ctx.k = k
        return x * x * x * k * w

    @staticmethod
    def backward(ctx, g):
        Scaled.needed = ctx.needs_input_grad
        x, w = ctx.saved_tensors
        by_x = g * 3 * x * x * ctx.k * w if ctx.needs_input_grad[0] else None
        by_w = g * x * 100 if ctx.needs_input_grad[2] else None
        return by_x, None, by_w


def own_backward(x, w):
    y = cutaway.sin(x) * 2
    return (Scaled.apply(y, 2.0, w) + y).sum()


def one_constant(x, w):
    y = cutaway.sin(x) * w
    return (Scaled.apply(y, 2.0, w.detach()) * y).sum()


def hook_inside(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: g * 3)
    return (y * y).sum()


def hook_on_an_input(x, w):
    x.register_hook(lambda g: g * 3)
    return (cutaway.sin(x) * w).sum()


def hook_removed(x, w):
    y = cutaway.sin(x) * w
    handle = y.register_hook(lambda g: g * 3)
    z = (y * y).sum()
    handle.remove()
    return z


def hook_after_accumulation(x, w):
    def clear(tensor):
        tensor.grad = tensor.grad * 0 + 7

    x.register_post_accumulate_grad_hook(clear)
    return (cutaway.sin(x) * w).sum()


REASONS = {
    own_backward: "Scaled.*apply: an autograd.Function with a backward of its own",
    one_constant: "Scaled.*apply: an autograd.Function",
    hook_inside: "register_hook: a function of yours",
    hook_on_an_input: "register_hook: a function of yours",
    hook_removed: "register_hook: a function of yours",
    hook_after_accumulation: "register_post_accumulate_grad_hook: a function of yours",
}


def inputs():
    values = ([0.3, -1.2, 0.8], [1.3, -0.2, 0.8])
    return [cutaway.tensor(v, dtype=cutaway.float64, requires_grad=True) for v in values]


def gradients(function):
    tensors = inputs()
    out = function(*tensors)
    out.backward()
    return out.item(), [t.grad.numpy() for t in tensors]


@pytest.mark.parametrize("program", REASONS)
def test_values_and_gradients_are_eagers(program):
    compiled = cutaway.compile(program, backend="aot_eager")
    wanted_value, wanted = gradients(program)
    for _ in range(2):
        value, found = gradients(compiled)
        assert value == pytest.approx(wanted_value, rel=1e-12)
        for g, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)
    assert compiled.artifacts  # what is around it is compiled


@pytest.mark.parametrize("program", REASONS)
def test_the_break_says_what_it_is(program):
    with pytest.raises(Unsupported, match=REASONS[program]):
        cutaway.compile(program, backend="aot_eager", fullgraph=True)(*inputs())


def test_needs_input_grad_between_graphs():
    gradients(cutaway.compile(one_constant, backend="aot_eager"))
    assert Scaled.needed == (True, False, False)
