"""Function transforms and checkpointing: against derivatives known by hand, and against the plain tape.

Input: small functions; a module with dropout for checkpoint, which has to give the same bits.
"""

import numpy as np
import pytest

from stage0_eager import nn
from stage0_eager.autograd import backward_pass
from stage0_eager.autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from stage0_eager.functions.creation import randn, tensor
from stage0_eager.namespaces import autograd as ag
from stage0_eager.random.generator import manual_seed
from stage0_eager.transforms import func


def value(*numbers, **options):
    return tensor(np.array(numbers, np.float64), **options)


def scalar(number):
    return tensor(np.array(number, np.float64))


def test_grad_of_grad_and_of_what_is_closed_over():
    assert func.grad(func.grad(lambda x: x**3))(scalar(2.0)).item() == 12
    assert func.grad(func.grad(func.grad(lambda x: x**3)))(scalar(2.0)).item() == 6
    # d/dx (x * d/dy (x y y) at y = x) = d/dx 2 x^3
    outer = func.grad(lambda x: x * func.grad(lambda y: x * y * y)(x))
    out = outer(scalar(2.0))
    assert out.item() == 24 and not out.requires_grad


def test_a_transform_is_itself_on_the_tape():
    w = value(3.0, requires_grad=True)
    out = func.grad(lambda x: (x * x * w).sum())(value(2.0))
    out.sum().backward()
    assert out.tolist() == [12] and w.grad.tolist() == [4]


def test_grad_and_value_argnums_and_aux():
    f = lambda a, b: ((a * b).sum(), "aux")  # noqa: E731
    (ga, gb), (v, aux) = func.grad_and_value(f, argnums=(0, 1), has_aux=True)(value(1, 2), value(3, 4))
    assert (ga.tolist(), gb.tolist(), v.item(), aux) == ([3, 4], [1, 2], 11, "aux")
    tree = func.grad(lambda d: (d["a"] * d["b"]).sum())({"a": value(2), "b": value(5)})
    assert tree["a"].tolist() == [5] and tree["b"].tolist() == [2]
    with pytest.raises(RuntimeError, match="to return a scalar tensor, got tensor with 1 dims"):
        func.grad(lambda x: x)(value(1))
    with pytest.raises(RuntimeError, match="argnum=1"):
        func.grad(lambda x: x, argnums=1)(value(1))


def test_vjp_and_jvp():
    out, pull = func.vjp(lambda x, y: (x * y, x.sin()), value(1, 2), value(3, 4))
    gx, gy = pull((value(1, 1), value(1, 0)))
    np.testing.assert_allclose(gx.tolist(), [3 + np.cos(1), 4])
    assert gy.tolist() == [1, 2] and not out[0].requires_grad
    v, pushed = func.jvp(lambda x: x.exp(), (value(0, 1),), (value(1, 2),))
    np.testing.assert_allclose(pushed.tolist(), [1, 2 * np.e])
    np.testing.assert_allclose(v.tolist(), [1, np.e])
    assert func.jvp(lambda x: x * 0 + 1, (value(1),), (value(1),))[1].tolist() == [0]
    with pytest.raises(RuntimeError, match="tuples"):
        func.jvp(lambda x: x, value(1), value(1))


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians(jacobian):
    x, y = value(1, 2, 3), value(4, 5, 6)
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(jacobian(lambda x: tensor(a) @ x.sin())(x).tolist(), a * np.cos([1, 2, 3]))
    jx, jy = jacobian(lambda x, y: x * y, argnums=(0, 1))(x, y)
    assert jx.tolist() == np.diag([4.0, 5, 6]).tolist() and jy.tolist() == np.diag([1.0, 2, 3]).tolist()
    j, aux = jacobian(lambda x: (x.sum(), 7), has_aux=True)(x)
    assert j.tolist() == [1, 1, 1] and aux == 7
    assert jacobian(lambda m: m.sum(0))(tensor(a)).shape == (3, 2, 3)
    first, second = jacobian(lambda x: (x * 2, x.sum()))(x)
    assert first.shape == (3, 3) and second.shape == (3,)


def test_hessian_and_its_compositions():
    x = value(1, 2)
    assert func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]
    assert func.jacfwd(func.jacrev(lambda x: x.prod()))(x).tolist() == [[0, 1], [1, 0]]


def test_vmap():
    xs, w = tensor(np.arange(6.0).reshape(2, 3)), value(1, 2, 3)
    each = func.vmap(func.grad(lambda x, w: (x * w).sin().sum()), in_dims=(0, None))(xs, w)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(each.tolist(), np.cos(x * [1, 2, 3]) * [1, 2, 3])
    out = func.vmap(lambda x: x.exp(), in_dims=1, out_dims=1)(xs)
    np.testing.assert_allclose(out.tolist(), np.exp(x))
    assert (
        func.vmap(func.vmap(lambda a, b: a * b, (None, 0)), (0, None))(w, w).tolist()
        == np.outer([1, 2, 3], [1, 2, 3]).tolist()
    )
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        func.vmap(lambda a, b: a)(xs, w)


def test_functional_call():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    weights = {name: p * 0 + 1 for name, p in model.named_parameters()}
    before = model[0].weight
    assert func.functional_call(model, weights, tensor([[1.0, 2.0]])).tolist() == [[9.0]]
    assert model[0].weight is before
    g = func.grad(lambda w: func.functional_call(model, w, (tensor([[1.0, 2.0]]),)).sum())(weights)
    assert g["0.weight"].tolist() == [[1, 2], [1, 2]] and g["1.weight"].tolist() == [[4, 4]]
    with pytest.raises(RuntimeError, match="unexpected key.*nothing"):
        func.functional_call(model, {"nothing": before}, tensor([[1.0, 2.0]]))


# ---- checkpoint ------------------------------------------------------------------------------------------------


def block():
    manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Tanh())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_gives_the_same_bits(reentrant):
    model, runs = block(), []
    x = randn(3, 4, requires_grad=True)

    def run(x):
        runs.append(1)
        return model(x)

    results = []
    for call in (run, lambda x: checkpoint(run, x, use_reentrant=reentrant)):
        model.zero_grad()
        x.grad = None
        manual_seed(7)
        out = call(x * 2)
        after = randn(2)
        (out.sum() * after.sum()).backward()
        results.append([out, after, randn(2), x.grad, *(p.grad for p in model.parameters())])
    assert len(runs) == 3
    for plain, again in zip(*results):
        assert plain.tolist() == again.tolist()


def test_checkpoint_keeps_no_inner_tensor_and_nests():
    x = value(0.3, requires_grad=True)
    inner = lambda x: x.sin().exp()  # noqa: E731
    outer = lambda x: checkpoint(inner, x) * x  # noqa: E731
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
        y = checkpoint(outer, x)
    kept = [
        s.tensor for n in backward_pass.nodes_behind([y]) for s in n.saved.values() if hasattr(s, "tensor")
    ]
    assert all(t is None or t is x for t in kept)
    (g,) = ag.grad(y.sum(), x, create_graph=True)
    (second,) = ag.grad(g.sum(), x)
    e, s, c = np.exp(np.sin(0.3)), np.sin(0.3), np.cos(0.3)
    np.testing.assert_allclose(g.tolist(), [e + 0.3 * e * c])
    np.testing.assert_allclose(second.tolist(), [2 * e * c + 0.3 * e * (c * c - s)])


def test_checkpoint_twice_through_one_graph_and_without_grad():
    x = value(0.3, requires_grad=True)
    y = checkpoint(lambda x: x.sin().exp(), x)
    y.backward(retain_graph=True)
    first = x.grad.tolist()
    y.backward()
    assert x.grad.tolist() == [2 * first[0]]
    with ag.no_grad():
        assert not checkpoint(lambda x: x * 2, x).requires_grad


def test_checkpoint_of_a_function_that_changes_its_mind():
    x, calls = value(0.3, requires_grad=True), []

    def fickle(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.exp().sin().exp()

    y = checkpoint(fickle, x)
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        y.backward()


def test_checkpoint_sequential():
    model = block().eval()
    x = randn(2, 4)
    assert checkpoint_sequential(model, 2, x, use_reentrant=False).tolist() == model(x).tolist()
