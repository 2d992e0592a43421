"""autograd.Function inside compiled functions: one graph, eager's values and gradients, and the backward's own rule.

Input: Functions whose derivatives are wrong on purpose where that tells who computed them. What cannot be captured is a
break that names the class, and runs eagerly.
"""

import numpy as np
import pytest

import cutaway
from cutaway import autograd
from stage0_eager.autograd.function import once_differentiable
from stage_contracts.breaks import Unsupported

SLOPE = 100.0


class Scaled(autograd.Function):
    """k x^3 w: tensors saved, a number on ctx, a gradient only where one is needed, a global."""

    @staticmethod
    def forward(ctx, x, k, w):
        ctx.save_for_backward(x, w)
        ctx.k = k
        return x * x * x * k * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        by_x = g * 3 * x * x * ctx.k * w if ctx.needs_input_grad[0] else None
        by_w = g * x * SLOPE if ctx.needs_input_grad[2] else None
        return by_x, None, by_w


class Clipped(autograd.Function):
    """Its backward writes to a tensor of its own, as torch's tutorial does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        by_x = g.clone()
        by_x[x < 0] = -7
        return by_x


class Several(autograd.Function):
    """Two results with a derivative, one without; an output and a value on the way are saved."""

    @staticmethod
    def forward(ctx, x, y):
        halfway = x * 3
        a, b, top = x * y, cutaway.exp(x), x.argmax()
        ctx.mark_non_differentiable(top)
        ctx.save_for_backward(x, y, b)
        ctx.halfway = halfway
        return a, b, top

    @staticmethod
    def backward(ctx, ga, gb, gtop):
        x, y, b = ctx.saved_tensors
        return ga * y + gb * b + ctx.halfway * gtop, ga * x


class Reversed(autograd.Function):
    """The newer style; the result is a view of the argument."""

    @staticmethod
    def forward(x, strength):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.strength = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * -ctx.strength, None


class Masked(autograd.Function):
    """The forward draws random numbers."""

    @staticmethod
    def forward(ctx, x):
        ctx.mask = cutaway.rand_like(x) < 0.5
        return x * ctx.mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask * 3


class Absent(autograd.Function):
    """No gradient for the first argument; None, not zeros, for what was not differentiated."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        flat = x.floor()
        ctx.mark_non_differentiable(flat)
        return x * y, flat

    @staticmethod
    def backward(ctx, g, nothing):
        return None, g * 5 if nothing is None else g


class Once(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def numbers_and_tensors(x, w):
    y = cutaway.sin(x) * 2
    return (Scaled.apply(y, 2.0, w) + y).sum()


def one_constant(x, w):
    return (Scaled.apply(cutaway.sin(x) * w, 0.5, w.detach()) * x).sum()


def written_in_backward(x, w):
    return (Clipped.apply(x * w) * x).sum()


def several(x, w):
    a, b, top = Several.apply(x, w)
    return (a * b).sum() + b[top]


def only_one_of_several(x, w):
    return (Several.apply(x * w, w)[1] * w).sum()


def a_view(x, w):
    return (Reversed.apply(x * w, 0.5) * x).sum() + (Reversed.apply(w, 2) * x).sum()


def random_in_forward(x, w):
    return (Masked.apply(x * w) * Masked.apply(x)).sum()


def no_gradient_for_one(x, w):
    product, flat = Absent.apply(x * 2, w)
    return (product * flat).sum() + (x * w).sum()


def the_same_tensor_twice(x, w):
    return (Scaled.apply(x, 1.5, x) * w).sum()


def differentiated_inside(x, w):
    y = Several.apply(x, w)[1] + Scaled.apply(x, 0.3, w)
    (d,) = autograd.grad((y * w).sum(), x, create_graph=True)
    return (d * d).sum()


def written_and_differentiated_inside(x, w):
    (d,) = autograd.grad(Clipped.apply(x * x * w).sum(), x, create_graph=True)
    return (d * d * w).sum()


def once_inside(x, w):
    (d,) = autograd.grad((Once.apply(x) * w).sum(), x, create_graph=True)
    return (d * x).sum()


def under_no_grad(x, w):
    with cutaway.no_grad():
        y = Scaled.apply(x, 2.0, w)
    return (y * x * w).sum()


PROGRAMS = (
    numbers_and_tensors, one_constant, written_in_backward, several, only_one_of_several, a_view, random_in_forward,
    no_gradient_for_one, the_same_tensor_twice, differentiated_inside, written_and_differentiated_inside, once_inside,
    under_no_grad,
)  # fmt: skip


def inputs():
    values = ([0.3, -1.2, 0.8], [1.3, 0.2, 0.8])
    return [cutaway.tensor(v, dtype=cutaway.float64, requires_grad=True) for v in values]


def gradients(function):
    cutaway.manual_seed(3)
    tensors = inputs()
    out = function(*tensors)
    out.backward()
    return out.item(), [None if t.grad is None else t.grad.numpy() for t in tensors]


def check(compiled, program, rtol=1e-12):
    (value, found), (wanted_value, wanted) = gradients(compiled), gradients(program)
    assert value == pytest.approx(wanted_value, rel=rtol)
    for g, w in zip(found, wanted, strict=True):
        assert (g is None) == (w is None)
        if g is not None:
            np.testing.assert_allclose(g, w, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_with_eagers_gradients(program, backend):
    compiled = cutaway.compile(program, backend=backend, fullgraph=True)
    check(compiled, program)
    check(compiled, program)
    assert len(compiled.artifacts) == 1


@pytest.mark.parametrize(
    "program", [numbers_and_tensors, written_in_backward, several, differentiated_inside]
)
def test_the_kernels_compute_the_same(program):
    check(cutaway.compile(program, backend="inductor", fullgraph=True), program, rtol=1e-9)


def test_the_graph_shows_forward_and_one_node_for_the_derivative():
    compiled = cutaway.compile(several, backend="aot_eager", fullgraph=True)
    gradients(compiled)
    names = [n.target.name for n in compiled.artifacts[0].captured.calls if hasattr(n.target, "name")]
    assert names.count("Several") == 1 and "exp" in names
    assert all(n.target.namespace == "core" for n in compiled.artifacts[0].partition.backward.calls)


def test_where_nothing_requires_grad_forward_alone_is_inlined():
    compiled = cutaway.compile(lambda x: Clipped.apply(x) + 1, backend="aot_eager", fullgraph=True)
    out = compiled(cutaway.tensor([-1.0, 2.0]))
    assert out.tolist() == [1.0, 3.0] and not out.requires_grad
    assert "Clipped" not in [n.target.name for n in compiled.artifacts[0].captured.calls]


def test_results_know_whether_they_require_grad():
    def program(x, w):
        return Several.apply(x, w)

    for backend in ("eager", "aot_eager"):
        a, b, top = cutaway.compile(program, backend=backend, fullgraph=True)(*inputs())
        assert (a.requires_grad, b.requires_grad, top.requires_grad) == (True, True, False)
        assert a.grad_fn is not None and not a.is_leaf and top.grad_fn is None


def test_what_backward_reads_is_guarded(monkeypatch):
    compiled = cutaway.compile(numbers_and_tensors, backend="aot_eager", fullgraph=True)
    check(compiled, numbers_and_tensors)
    monkeypatch.setitem(globals(), "SLOPE", -3.0)
    check(compiled, numbers_and_tensors)
    assert len(compiled.artifacts) == 2


def test_another_backward_on_the_class_is_noticed(monkeypatch):
    compiled = cutaway.compile(written_in_backward, backend="aot_eager", fullgraph=True)
    check(compiled, written_in_backward)
    monkeypatch.setattr(Clipped, "backward", staticmethod(lambda ctx, g: g * 11))
    check(compiled, written_in_backward)


def test_a_number_on_ctx_stays_open():
    def program(x, k):
        return Scaled.apply(x, k, x.detach()).sum()

    compiled = cutaway.compile(program, backend="aot_eager", fullgraph=True)
    for k in (2.0, 3.0, 5.0):
        x, y = (cutaway.tensor([0.5, -2.0], dtype=cutaway.float64, requires_grad=True) for _ in range(2))
        compiled(x, k).backward()
        program(y, k).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)
    assert len(compiled.artifacts) <= 2


def test_differentiating_the_compiled_backward_is_refused_as_always():
    x, w = inputs()
    out = cutaway.compile(several, backend="aot_eager", fullgraph=True)(x, w)
    (d,) = autograd.grad(out, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        d.sum().backward()
    x, w = inputs()  # with the backend that leaves the tape to eager it works
    out = cutaway.compile(several, backend="eager", fullgraph=True)(x, w)
    (d,) = autograd.grad(out, x, create_graph=True)
    (found,) = autograd.grad(d.sum(), x)
    y, v = inputs()
    (d,) = autograd.grad(several(y, v), y, create_graph=True)
    (wanted,) = autograd.grad(d.sum(), y)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


def test_a_whole_training_step():
    def step(x, w):
        y = Several.apply(Scaled.apply(x, 0.5, w), w)[0]
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        with cutaway.no_grad():
            x -= 0.1 * x.grad
        return x.grad

    def run(function):
        x, w = inputs()
        function(x, w)
        function(x, w)
        return x.tolist(), x.grad.tolist(), w.grad.tolist()

    for backend in ("eager", "aot_eager"):
        found = run(cutaway.compile(step, backend=backend, fullgraph=True))
        for a, b in zip(found, run(step), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


# ---- what is not captured: a break that names the class, and eager's results ---------------------------------


class Dirty(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Itself(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 4


class Loud(autograd.Function):
    seen = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Loud.seen.append(tuple(g.shape))
        return g * 2


class Partial(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 if b is None else b * 3


class Wide(autograd.Function):
    """Its gradient is of a shape that eager sums to the argument's."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return cutaway.stack([g, g])


class Drawing(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * cutaway.rand_like(g)


class Overwriting(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)


def changed_later(x, w):
    scale = [2.0]

    class_like = x * 1

    y = Late.apply(class_like, scale)
    scale[0] = 3.0
    return (y * w).sum()


class Late(autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale[0], None


REFUSED = {
    "Dirty.forward writes to its arguments": lambda x, w: Dirty.apply(x * w).sum(),
    "Itself.forward returns an argument as it is": lambda x, w: Itself.apply(x * w).sum(),
    r"Loud.backward: a side effect": lambda x, w: Loud.apply(x * w).sum(),
    "Partial with several results and set_materialize_grads": lambda x, w: (
        Partial.apply(x * w)[0] * w
    ).sum(),
    r"Wide.backward: a gradient float64\[2, 3\]": lambda x, w: Wide.apply(x * w).sum(),
    "what Late.backward reads is changed after the call": changed_later,
    "a result that an autograd.Function": lambda x, w: Reversed.apply(x, 2.0),
    "Drawing.backward draws random numbers": lambda x, w: Drawing.apply(x * w).sum(),
    "Overwriting.backward writes to a gradient": lambda x, w: (Overwriting.apply(x * w) * x).sum(),
    "Scaled.apply in a function whose arguments have no place on the tape yet": lambda x, w: (
        cutaway.func.grad(lambda y: Scaled.apply(y, 2.0, w).sum())(x) * w
    ).sum(),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_the_break_names_it_and_eager_runs_it(reason):
    program = REFUSED[reason]

    def scalar(*tensors):
        return program(*tensors).sum()

    with pytest.raises(Unsupported, match=reason):
        cutaway.compile(program, backend="aot_eager", fullgraph=True)(*inputs())
    check(lambda *t: cutaway.compile(program, backend="aot_eager")(*t).sum(), scalar)


def test_a_view_that_leaves_shares_its_memory():
    x = inputs()[0]
    y = cutaway.compile(lambda x: Reversed.apply(x, 2.0), backend="aot_eager")(x)
    with cutaway.no_grad():
        x.mul_(0)
    assert y.tolist() == [0, 0, 0]
