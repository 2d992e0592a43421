"""The run-time wrapper: to the user's tape a compiled graph is one operator, with eager's rules and messages.

Input: small programs run by aot_eager.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from stage0_eager import Tensor, enable_grad, no_grad
from stage0_eager.autograd import backward_pass
from stage0_eager.core_interpreter import interpreter
from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper
from stage2_autograd.tests.helpers import capture, compile_with, pointwise, reductions, tensor
from stage_contracts.breaks import Unsupported


def square(x):
    return x * x


def compiled(seam, function=square, *tensors):
    return compile_with(seam, function, *(tensors or (tensor(3),))).run


# ---- backward ----------------------------------------------------------------------------------------------


def test_one_node_per_call(seam):
    (y,) = compiled(seam, lambda x: pointwise.sin(pointwise.exp(x) * 2))(x := tensor(3))
    assert repr(y.grad_fn) == "<CompiledFunctionBackward>" and not y.is_leaf
    assert [e.leaf for e in y.grad_fn.edges] == [x]


def test_backward_twice_raises_as_in_eager_and_retain_graph_allows_it(seam):
    (y,) = compiled(seam)(x := tensor(3))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * x._data)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()


def test_it_joins_eager_on_both_sides(seam):
    run = compiled(seam)
    x = tensor(3)
    (y,) = run(pointwise.exp(x))
    (z,) = run(y + 1)
    z.sum().backward()
    e = np.exp(x._data)
    np.testing.assert_allclose(x.grad.numpy(), 2 * (e * e + 1) * 2 * e * e)


def test_gradients_accumulate_and_grad_gives_them_apart(seam):
    run, x = compiled(seam), tensor(3)
    for _ in range(2):
        run(x)[0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * x._data)
    (g,) = backward_pass.grad(run(x)[0].sum(), x)
    np.testing.assert_allclose(g._data, 2 * x._data)


def test_outputs_not_used_in_the_loss_count_as_zero(seam):
    run = compiled(seam, lambda x, y: (x * y, pointwise.exp(y), x.sum()), tensor(3), tensor(3))
    x, y = tensor(3), tensor(3, seed=1)
    run(x, y)[0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y._data)
    np.testing.assert_allclose(y.grad.numpy(), x._data)


def test_inputs_that_no_output_depends_on_get_none(seam):
    run = compiled(seam, lambda x, y: x * 2, tensor(3), tensor(3))
    x, y = tensor(3), tensor(3)
    run(x, y)[0].sum().backward()
    assert y.grad is None and x.grad is not None


def test_no_two_leaves_share_a_grad(seam):
    run = compiled(seam, lambda x, y: (x + y).sum(), tensor(3), tensor(3))
    for call in (run, lambda x, y: ((x + y).sum(),)):
        x, y = tensor(3), tensor(3)
        call(x, y)[0].backward()
        x.grad.zero_()
        np.testing.assert_array_equal(y.grad.numpy(), np.ones(3))


def test_tangents_of_any_layout(seam):
    run = compiled(seam, lambda x: x * 2, tensor(2, 3))
    base = np.arange(6.0).reshape(3, 2)
    for tangent in (Tensor(base.T), Tensor(np.broadcast_to(np.float64(3), (2, 3)))):
        run(x := tensor(2, 3))[0].backward(tangent)
        np.testing.assert_array_equal(x.grad.numpy(), 2 * tangent._data)


def test_the_backward_gets_the_strides_it_was_compiled_for(seam):
    x = Tensor(np.ones((3, 2)).T, True)  # the output is laid out as x is: column by column
    made = compile_with(seam, lambda x: x * 2, x)
    seen = []

    def backward(*arrays):
        seen.append(arrays[-1].strides)
        return interpreter(made.partition.backward)(*arrays)

    forward = interpreter(made.partition.forward)
    run = make_runtime_wrapper(made.functional, forward, backward, made.decomposed, made.partition)
    run(x)[0].backward(Tensor(np.arange(6.0).reshape(2, 3)))
    assert seen == [(8, 16)]
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.arange(6.0).reshape(2, 3))


def test_double_backward_raises_only_when_it_is_taken(seam):
    run, x = compiled(seam), tensor(3)
    (g,) = backward_pass.grad(run(x)[0].sum(), x, create_graph=True)
    np.testing.assert_allclose(g._data, 2 * x._data)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        g.sum().backward()


# ---- grad mode and requires_grad ---------------------------------------------------------------------------


def test_grad_mode_may_change_between_calls(seam):
    run = compiled(seam)
    with no_grad():
        (y,) = run(tensor(3))
        assert not y.requires_grad and y.grad_fn is None
        with enable_grad():
            assert run(tensor(3))[0].requires_grad
    assert run(tensor(3))[0].requires_grad
    assert not run(tensor(3, grad=False))[0].requires_grad


def test_inference_has_no_backward(seam):
    made = seam("functionalize")(capture(square, tensor(3, grad=False)))
    run = make_runtime_wrapper(made, interpreter(seam("decompose")(made.graph)))
    (y,) = run(tensor(3))
    assert not y.requires_grad and y.grad_fn is None


def test_integer_results_and_detached_ones_require_no_grad(seam):
    run = compiled(seam, lambda x: (x * 2, reductions.argmax(x, 0), x.detach() + 1))
    assert [y.requires_grad for y in run(tensor(3))] == [True, False, False]


# ---- saved values ------------------------------------------------------------------------------------------


def test_a_saved_input_written_in_between_raises_as_in_eager(seam):
    run = compiled(seam, lambda x, w: x * w, tensor(3), tensor(3, grad=False))
    for call in (run, lambda x, w: (x * w,)):
        x, w = tensor(3), tensor(3, grad=False)
        (y,) = call(x, w)
        w.add_(1)
        with pytest.raises(
            RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"
        ):
            y.sum().backward()


def test_an_input_that_is_not_saved_may_be_written(seam):
    run = compiled(seam, lambda x, w: x + w, tensor(3), tensor(3, grad=False))
    x, w = tensor(3), tensor(3, grad=False)
    (y,) = run(x, w)
    w.add_(1)
    y.sum().backward()


@pytest.mark.parametrize("function", [pointwise.exp, lambda x: pointwise.exp(x).reshape(3, 1)])
def test_a_saved_output_written_in_between_raises_as_in_eager(seam, function):
    run = compiled(seam, function)
    for call in (run, lambda x: (function(x),)):
        (y,) = call(tensor(3))
        total = y.sum()
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()


def test_an_input_the_graph_itself_writes_keeps_its_old_value_for_the_backward(seam):
    def program(x, state):
        y = x * state
        state.mul_(2)
        return y

    run = compiled(seam, program, tensor(3), tensor(3, grad=False))
    x, state = tensor(3), tensor(3, seed=1, grad=False)
    old = state._data.copy()
    run(x, state)[0].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), old)
    np.testing.assert_array_equal(state._data, 2 * old)


def test_saved_values_are_freed_after_backward_and_with_the_result(seam):
    class Watched(np.ndarray):
        """An array that can be weakly referred to from a test."""

    made = compile_with(seam, lambda x: pointwise.sin(pointwise.exp(x)), tensor(3))
    alive: list[weakref.ref] = []

    def forward(*arrays):
        outputs = [a.view(Watched) for a in interpreter(made.partition.forward)(*arrays)]
        alive.extend(weakref.ref(a) for a in outputs[1:])
        return tuple(outputs)

    backward = interpreter(made.partition.backward)
    run = make_runtime_wrapper(made.functional, forward, backward, made.decomposed, made.partition)
    gc.disable()  # by reference counts alone: no cycle may hold an activation
    try:
        (y,) = run(tensor(3))
        assert alive and all(r() is not None for r in alive)
        y.sum().backward()
        assert all(r() is None for r in alive)
        alive.clear()
        (y,) = run(tensor(3))
        del y
        assert alive and all(r() is None for r in alive)
    finally:
        gc.enable()


# ---- inputs that share memory ------------------------------------------------------------------------------


def test_writing_to_one_of_two_inputs_that_share_memory_is_refused(seam):
    def program(x, state):
        state.add_(1)
        return x * 2

    run = compiled(seam, program, tensor(3), tensor(3, grad=False))
    memory = np.zeros(5)
    with pytest.raises(Unsupported, match="inputs 1 and 0 .* share memory"):
        run(Tensor(memory[:3], True), Tensor(memory[2:]))
    assert not memory.any()


def test_a_write_reaches_every_view_of_the_input(seam):
    def program(x, state):
        state.add_(x.detach())
        return x * 2

    run = compiled(seam, program, tensor(3), tensor(3, grad=False))
    state = Tensor(np.zeros(3))
    view = state.reshape(3, 1)
    run(x := tensor(3), state)
    np.testing.assert_array_equal(view._data[:, 0], x._data)
    assert view.version == state.version == 1
