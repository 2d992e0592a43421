"""Tensor hooks inside compiled functions, and hooks registered outside on what goes in and comes out.

Input: hooks that change gradients, so that they must have run, once each and in the right place.
"""

import numpy as np
import pytest

import cutaway
from stage_contracts.breaks import Unsupported

FACTOR = 3.0


def hook_inside(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: g * FACTOR)
    return (y * y).sum()


def hooks_in_order(x, w):
    """They see the gradient of every use, also of those before them."""
    y = cutaway.sin(x) * w
    z = y * 2
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * w.detach())
    return (y * z).sum()


def hook_that_reads_its_tensor(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: g * y)
    return (y * y).sum()


def hook_that_reads_a_later_value(x, w):
    y = cutaway.sin(x)
    k = y.detach() * w
    y.register_hook(lambda g: g * k)
    return (y * w).sum()


def hook_that_writes(x, w):
    y = cutaway.sin(x) * w

    def clipped(g):
        g = g.clone()
        g[y > 0] = 0.5
        return g

    y.register_hook(clipped)
    return (y * y).sum()


def hook_without_result(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: None)
    return (y * y).sum()


def hook_on_a_view(x, w):
    y = cutaway.sin(x) * w
    y[:2].register_hook(lambda g: g * 3)
    return (y[:2] * y[1:]).sum()


def hook_and_gradient_inside(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: g * FACTOR)
    (d,) = cutaway.autograd.grad((y * y).sum(), x, create_graph=True)
    return (d * w).sum()


def hook_on_an_input(x, w):
    x.register_hook(lambda g: g * 3)
    return (cutaway.sin(x) * w).sum()


def hook_removed(x, w):
    y = cutaway.sin(x) * w
    first, second = y.register_hook(lambda g: g * 3), x.register_hook(lambda g: g * 5)
    z = (y * y).sum()
    first.remove()
    second.remove()
    return z


def hook_as_a_context(x, w):
    y = cutaway.sin(x) * w
    with y.register_hook(lambda g: g * 3):
        z = (y * y).sum()
    return z


def hook_after_accumulation(x, w):
    def clear(tensor):
        tensor.grad = tensor.grad * 0 + 7

    x.register_post_accumulate_grad_hook(clear)
    return (cutaway.sin(x) * w).sum()


def retained_input(x, w):
    x.retain_grad()
    return (cutaway.sin(x) * w).sum()


def random_in_a_hook(x, w):
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: g * cutaway.rand_like(g))
    return (y * y).sum()


def late_binding(x, w):
    y = cutaway.sin(x) * w
    for i in range(3):
        y.register_hook(lambda g: g * i)  # noqa: B023  (all hooks see the last)
    return (y * y).sum()


def side_effect(x, w):
    seen = []
    y = cutaway.sin(x) * w
    y.register_hook(lambda g: seen.append(g))
    return (y * y).sum()


def retained(x, w):
    y = cutaway.sin(x) * w
    y.retain_grad()
    return (y * y).sum()


def handle_leaves(x, w):
    y = cutaway.sin(x) * w
    handles = [y.register_hook(lambda g: g * 2)]
    print("", end="")
    handles[0].remove()
    return (y * y).sum()


CAPTURED = (
    hook_inside, hooks_in_order, hook_that_reads_its_tensor, hook_that_reads_a_later_value, hook_that_writes,
    hook_without_result, hook_on_a_view, hook_and_gradient_inside, hook_on_an_input, hook_removed, hook_as_a_context,
    hook_after_accumulation, retained_input,
)  # fmt: skip
REFUSED = {
    random_in_a_hook: "hook.backward draws random numbers",
    late_binding: "what a hook reads is changed after the call",
    side_effect: "a hook: a side effect in a function that runs in the backward",
    retained: "retain_grad of a value computed inside",
    handle_leaves: "print",
}


def inputs():
    values = ([0.3, -1.2, 0.8], [1.3, 0.2, 0.8])
    return [cutaway.tensor(v, dtype=cutaway.float64, requires_grad=True) for v in values]


def gradients(function):
    cutaway.manual_seed(7)
    tensors = inputs()
    out = function(*tensors)
    out.backward()
    return out.item(), [t.grad.numpy() for t in tensors]


def check(compiled, program, rtol=1e-12):
    (value, found), (wanted_value, wanted) = gradients(compiled), gradients(program)
    assert value == pytest.approx(wanted_value, rel=rtol)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", CAPTURED)
def test_one_graph_with_eagers_gradients(program, backend):
    compiled = cutaway.compile(program, backend=backend, fullgraph=True)
    check(compiled, program)
    check(compiled, program)
    assert len(compiled.artifacts) == 1


@pytest.mark.parametrize("program", [hooks_in_order, hook_that_writes, hook_on_an_input])
def test_the_kernels_compute_the_same(program):
    check(cutaway.compile(program, backend="inductor", fullgraph=True), program, rtol=1e-9)


@pytest.mark.parametrize("program", REFUSED)
def test_the_break_says_what_it_is_and_eager_runs_it(program):
    with pytest.raises(Unsupported, match=REFUSED[program]):
        cutaway.compile(program, backend="aot_eager", fullgraph=True)(*inputs())
    compiled = cutaway.compile(program, backend="aot_eager")
    check(compiled, program)
    check(compiled, program)


def test_what_a_hook_reads_is_guarded(monkeypatch):
    compiled = cutaway.compile(hook_inside, backend="aot_eager", fullgraph=True)
    check(compiled, hook_inside)
    monkeypatch.setitem(globals(), "FACTOR", -2.0)
    check(compiled, hook_inside)
    assert len(compiled.artifacts) == 2


def test_a_hook_on_an_input_before_a_backward_inside_runs_eagerly():
    def program(x, w):
        x.register_hook(lambda g: g * 3)
        (cutaway.sin(x) * w).sum().backward()
        return (x.grad * w).sum()

    with pytest.raises(Unsupported, match="a backward that reaches x, which has a hook"):
        cutaway.compile(program, backend="aot_eager", fullgraph=True)(*inputs())
    check(cutaway.compile(program, backend="aot_eager"), program)


def test_a_hook_on_an_input_stays_after_the_call():
    """Each call registers one more, as in eager; the handle it returns takes its own away."""

    def program(x, w):
        return x.register_hook(lambda g: g * 3), (x * w).sum()

    def grads(function):
        x, w = inputs()
        first, loss = function(x, w)
        (x * 2).sum().backward()
        second, again = function(x, w)
        (loss + again).backward()
        first.remove()
        (x * 5).sum().backward()
        return x.grad.tolist()

    assert grads(cutaway.compile(program, backend="aot_eager", fullgraph=True)) == grads(program)


def test_the_hook_of_a_hooked_result_sees_the_whole_gradient():
    """The value is used inside, and outside by the caller."""

    def program(x, w):
        y = cutaway.sin(x) * w
        y.register_hook(lambda g: g * g)
        return y, (y * 2).sum()

    def scalar(function):
        return lambda x, w: (lambda y, s: (y * y).sum() + s)(*function(x, w))

    check(scalar(cutaway.compile(program, backend="aot_eager", fullgraph=True)), scalar(program))


# ---- registered outside -------------------------------------------------------------------------------------------


def plain(x, w):
    y = cutaway.sin(x) * w
    return y, (y * y).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_hooks_on_inputs_and_results_are_called_as_in_eager(backend):
    def traced(function):
        said = []
        x, w = inputs()
        inner = x * 1
        inner.retain_grad()
        inner.register_hook(lambda g: said.append(("inner", g.numpy().round(9).tolist())))
        w.register_hook(lambda g: said.append(("w", g.numpy().round(9).tolist())) or g * 2)
        w.register_post_accumulate_grad_hook(
            lambda t: said.append(("after", t.grad.numpy().round(9).tolist()))
        )
        y, loss = function(inner, w)
        loss.register_hook(lambda g: said.append(("loss", g.numpy().tolist())) or g * 3)
        loss.backward()
        return sorted(said, key=lambda s: s[0]), inner.grad.numpy(), x.grad.numpy(), w.grad.numpy()

    compiled = cutaway.compile(plain, backend=backend, fullgraph=True)
    found, wanted = traced(compiled), traced(plain)
    assert found[0] == wanted[0]
    for a, b in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_hooks_on_parameters_are_called_as_in_eager():
    def train(compiles):
        cutaway.manual_seed(0)
        model = cutaway.nn.Sequential(cutaway.nn.Linear(3, 4), cutaway.nn.Tanh(), cutaway.nn.Linear(4, 1))
        run = cutaway.compile(model, backend="aot_eager") if compiles else model
        norms = []
        for p in model.parameters():
            p.register_hook(lambda g: norms.append(float((g * g).sum())) or g * 0.5)
        x = cutaway.tensor(np.linspace(-1, 1, 6).reshape(2, 3), dtype=cutaway.float32)
        run(x).sum().backward()
        return sorted(norms), [p.grad.numpy() for p in model.parameters()]

    (norms, found), (wanted_norms, wanted) = train(True), train(False)
    np.testing.assert_allclose(norms, wanted_norms, rtol=1e-6)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_retained_result_keeps_what_the_caller_gave_it():
    """As in torch: the graph is one step on the tape, so what it does inside with a result it returns is not seen."""
    x, w = inputs()
    y, loss = cutaway.compile(plain, backend="aot_eager")(x, w)
    y.retain_grad()
    (y.sum() * 2 + loss).backward()
    assert y.grad.tolist() == [2, 2, 2]
