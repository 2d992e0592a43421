"""autograd's public part: Function, hooks and their order, retain_grad, saved tensors' hooks, modes, gradcheck.

Input: expressions whose gradients are known by hand.
"""

import numpy as np
import pytest

from stage0_eager.autograd.function import Function
from stage0_eager.functions.creation import from_dlpack, tensor
from stage0_eager.namespaces import autograd as ag


def leaf(*values):
    return tensor(np.array(values, np.float64), requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Two(Function):
    """x * k and x > 0; the second has no gradient."""

    @staticmethod
    def forward(ctx, x, k, other):
        ctx.k = k
        ctx.needed = ctx.needs_input_grad
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        return x * k, positive

    @staticmethod
    def backward(ctx, g, no_gradient):
        return g * ctx.k, None, None


def test_a_function_and_its_second_derivative():
    x = leaf(0.5, 1.0)
    y = Exp.apply(x)
    assert repr(y.grad_fn) == "<ExpBackward>"
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.tolist(), np.exp([0.5, 1.0]))
    (again,) = ag.grad(g.sum(), x)
    np.testing.assert_allclose(again.tolist(), np.exp([0.5, 1.0]))
    assert ag.gradcheck(Exp.apply, leaf(0.1, -2.0))
    with ag.no_grad():
        assert not Exp.apply(x).requires_grad


def test_a_function_of_several_arguments_and_outputs():
    x = leaf(1, -1)
    y, positive = Two.apply(x, 3.0, tensor([1.0]))
    assert y.grad_fn.ctx.needed == (True, False, False)
    assert positive.tolist() == [True, False] and not positive.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_that_nothing_reached(materialize):
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b)
            return a

    x = leaf(1)
    Pair.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [1]
    assert (seen[0].tolist() == [0]) if materialize else (seen[0] is None)


def wrong(result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return result(g)

    return Wrong


@pytest.mark.parametrize(
    "result, text",
    [
        (lambda g: (g, g), r"WrongBackward returned an incorrect number of gradients \(expected 1, got 2\)"),
        (
            lambda g: g[:1],
            r"invalid gradient at index 0 - got \[1\] but expected shape compatible with \[2\]",
        ),
    ],
)
def test_a_backward_that_returns_the_wrong_thing(result, text):
    with pytest.raises(RuntimeError, match=text):
        wrong(result).apply(leaf(1, 2)).sum().backward()


def test_functions_errors():
    with pytest.raises(NotImplementedError, match="must implement the forward function"):
        Function.apply(leaf(1))
    y = Exp.apply(leaf(1))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    y = Exp.apply(leaf(1))
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_run_in_order_and_change_the_gradient():
    x = leaf(2)
    order = []
    y = x * 3
    first = y.register_hook(lambda g: order.append("first"))
    y.register_hook(lambda g: (order.append("second"), g * 10)[1])
    y.retain_grad()
    y.register_hook(lambda g: (order.append("third"), g + 1)[1])
    x.register_hook(lambda g: (order.append("leaf"), -g)[1])
    x.register_post_accumulate_grad_hook(lambda t: order.append(t.grad.tolist()))
    (y * y).sum().backward()
    assert y.grad.tolist() == [121] and y.retains_grad
    assert x.grad.tolist() == [-363]
    assert order == ["first", "second", "third", "leaf", [-363]]
    first.remove()
    order.clear()
    (x * x).sum().backward()
    assert order == ["leaf", [-367]]


def test_a_leafs_hook_sees_the_whole_gradient_once():
    x, seen = leaf(1), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5]]


def test_hooks_need_a_gradient():
    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        tensor([1.0]).register_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        tensor([1.0]).retain_grad()
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf(1) * 1).register_post_accumulate_grad_hook(print)


def test_grad_runs_only_what_its_inputs_need():
    x, ran = leaf(2), []
    y = x * 3
    y.register_hook(lambda g: ran.append("y"))
    z = y * y
    (g,) = ag.grad(z.sum(), y)
    assert g.tolist() == [12] and ran == ["y"]
    y.sum().backward()  # the node of y was not run, so it is not freed
    assert x.grad.tolist() == [3]


def test_backward_into_chosen_inputs():
    x, y = leaf(2), leaf(3)
    ag.backward((x * y).sum(), inputs=x)
    assert x.grad.tolist() == [3] and y.grad is None


def test_saved_tensors_hooks():
    x, packed = leaf(0.5), []

    def pack(t):
        packed.append(t.tolist())
        return t.numpy().copy()

    with ag.saved_tensors_hooks(pack, lambda array: tensor(array)):
        y = x.exp().sin()
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    (second,) = ag.grad(g.sum(), x)
    e = np.exp(0.5)
    np.testing.assert_allclose(g.tolist(), [np.cos(e) * e])
    np.testing.assert_allclose(second.tolist(), [np.cos(e) * e - np.sin(e) * e * e])
    assert packed == [[e], [e]]


def test_inference_mode_and_detach_():
    x = leaf(1)
    with ag.inference_mode():
        assert ag.is_inference_mode_enabled() and not (x * 2).requires_grad
    assert not ag.is_inference_mode_enabled() and ag.is_grad_enabled()
    assert not ag.inference_mode(lambda: x * 2)().requires_grad
    assert not ag.inference_mode()(lambda: x * 2)().requires_grad
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0:1].detach_()


def test_gradcheck_finds_a_wrong_derivative():
    bad = wrong(lambda g: g * 2)
    with pytest.raises(ag.GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        ag.gradcheck(bad.apply, leaf(1, 2))
    assert not ag.gradcheck(bad.apply, leaf(1, 2), raise_exception=False)
    with pytest.raises(ValueError, match="at least one input"):
        ag.gradcheck(lambda x: x, tensor([1.0]))


def test_dlpack_and_numpy_share_memory():
    array = np.arange(3.0)
    t = from_dlpack(array)
    array[0] = 7
    assert t.tolist() == [7, 1, 2]
    back = np.from_dlpack(t)
    back[1] = 9
    assert t.tolist() == [7, 9, 2] and np.asarray(t)[1] == 9
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(leaf(1))
    with pytest.raises(TypeError, match="__dlpack__"):
        from_dlpack([1])
