"""The function transforms inside compiled functions and around them: one graph inside, and eager's values everywhere.

Input: small functions of float64 tensors; what torch refuses (a compiled function under vmap) runs as the plain function.
"""

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from cutaway import autograd, func

X, W, ROWS = [0.3, -1.2, 0.8], [1.3, 0.2, 0.8], [[0.3, -1.2, 0.8], [0.1, 0.5, -0.4]]


def tensor(values, grad=False):
    return cutaway.tensor(values, dtype=cutaway.float64, requires_grad=grad)


def scalar(x, w):
    return (cutaway.tanh(x * w) * x).sum()


def vector(x):
    return cutaway.sin(x) * x.sum()


def from_dict(p):
    return scalar(p["a"], p["b"])


def scaled(x, w, power=1):
    return scalar(x, w) ** power


LAYER = cutaway.nn.Sequential(cutaway.nn.Linear(3, 2), cutaway.nn.BatchNorm1d(2)).double()
made_outside = func.grad(scalar)

INSIDE = {
    "grad": lambda x, w: func.grad(scalar)(x, w),
    "grad, two arguments": lambda x, w: func.grad(scalar, (0, 1))(x, w),
    "grad_and_value": lambda x, w: func.grad_and_value(scalar, argnums=1)(x, w),
    "has_aux": lambda x, w: func.grad(lambda a: (scalar(a, w), {"twice": a * 2}), has_aux=True)(x),
    "keyword": lambda x, w: func.grad(scaled)(x, w=w, power=3),
    "a dict": lambda x, w: func.grad(from_dict)({"a": x, "b": w}),
    "made outside": lambda x, w: made_outside(x, w),
    "vjp": lambda x, w: func.vjp(vector, x)[1](w),
    "vjp, everything": lambda x, w: (lambda out, pull: (out, pull(w), pull(x)))(*func.vjp(vector, x)),
    "vjp, aux": lambda x, w: func.vjp(lambda a: (a * w, a + 1), x, has_aux=True)[2],
    "jvp": lambda x, w: func.jvp(vector, (x,), (w,)),
    "jacrev": lambda x, w: func.jacrev(vector)(x * w),
    "jacrev, two": lambda x, w: func.jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x, w),
    "jacfwd": lambda x, w: func.jacfwd(vector)(x * w),
    "hessian": lambda x, w: func.hessian(scalar)(x, w),
    "vmap": lambda x, w: func.vmap(scalar)(cutaway.stack([x, w]), cutaway.stack([w, x])),
    "vmap, some": lambda x, w: func.vmap(scalar, (0, None))(cutaway.stack([x, w]), w),
    "vmap, other dims": lambda x, w: func.vmap(vector, in_dims=1, out_dims=1)(cutaway.stack([x, w])),
    "vmap of a dict": lambda x, w: func.vmap(from_dict, ({"a": 0, "b": None},))(
        {"a": cutaway.stack([x, w]), "b": x}
    ),
    "grad of grad": lambda x, w: func.grad(lambda a: (func.grad(scalar)(a, w) ** 2).sum())(x),
    "vmap of grad": lambda x, w: func.vmap(func.grad(scalar), (0, None))(cutaway.stack([x, w]), w),
    "grad of vmap": lambda x, w: func.grad(
        lambda a: func.vmap(scalar, (0, None))(cutaway.stack([x, w]), a).sum()
    )(w),
    "two of a kind": lambda x, w: func.grad(scalar)(x, w) + func.grad(lambda a: vector(a).sum())(x),
    "functional_call": lambda x, w: func.functional_call(
        LAYER, {"0.weight": cutaway.stack([x, w]), "0.bias": x[:2]}, (cutaway.stack([w, x]),)
    ),
    "grad of functional_call": lambda x, w: func.grad(
        lambda p: F.mse_loss(func.functional_call(LAYER[0], p, x * w), w[:2])
    )(dict(LAYER[0].named_parameters())),
}

AROUND = {
    "compile(grad(f))": lambda c: c(func.grad(scalar))(tensor(X), tensor(W)),
    "grad(compile(f))": lambda c: func.grad(c(scalar))(tensor(X), tensor(W)),
    "compile(vmap(f))": lambda c: c(func.vmap(scalar, (0, None)))(tensor(ROWS), tensor(W)),
    "vmap(compile(f))": lambda c: func.vmap(c(scalar), (0, None))(tensor(ROWS), tensor(W)),
    "compile(grad(grad(f)))": lambda c: c(func.grad(lambda x: func.grad(lambda a: vector(a).sum())(x).sum()))(
        tensor(X)
    ),
    "grad(grad(compile(f)))": lambda c: (
        lambda f: func.grad(lambda x: (func.grad(f)(x, tensor(W)) ** 2).sum())(tensor(X))
    )(c(scalar)),
    "compile(jacrev(f))": lambda c: c(func.jacrev(vector))(tensor(X)),
    "jacrev(compile(f))": lambda c: func.jacrev(c(vector))(tensor(X)),
    "compile(jacfwd(f))": lambda c: c(func.jacfwd(vector))(tensor(X)),
    "jacfwd(compile(f))": lambda c: func.jacfwd(c(vector))(tensor(X)),
    "compile(hessian(f))": lambda c: c(func.hessian(scalar))(tensor(X), tensor(W)),
    "hessian(compile(f))": lambda c: func.hessian(c(scalar))(tensor(X), tensor(W)),
    "vjp(compile(f))": lambda c: func.vjp(c(vector), tensor(X))[1](tensor(W)),
    "jvp(compile(f))": lambda c: func.jvp(c(vector), (tensor(X),), (tensor(W),)),
    "vmap(grad(compile(f)))": lambda c: func.vmap(func.grad(c(scalar)), (0, None))(tensor(ROWS), tensor(W)),
    "functional_call(compile(m))": lambda c: func.functional_call(
        c(LAYER[0]), {k: v * 2 for k, v in LAYER[0].named_parameters()}, tensor(ROWS)
    ),
}


def arrays(tree):
    if isinstance(tree, dict):
        return [a for key in sorted(tree) for a in arrays(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [a for item in tree for a in arrays(item)]
    return [tree.detach().numpy()]


def check(found, wanted, rtol=1e-11):
    for a, b in zip(arrays(found), arrays(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


@pytest.fixture(autouse=True)
def fresh_statistics():
    LAYER[1].reset_running_stats()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", INSIDE)
def test_inside_it_is_one_graph(name, backend):
    compiled = cutaway.compile(INSIDE[name], backend=backend, fullgraph=True)
    for values in ((X, W), (W, X)):
        x, w = map(tensor, values)
        check(compiled(x, w), INSIDE[name](x, w))
    assert len(compiled.artifacts) == 1


@pytest.mark.parametrize("name", ["grad of grad", "vmap of grad", "jacfwd", "hessian", "functional_call"])
def test_the_kernels_compute_the_same(name):
    x, w = tensor(X), tensor(W)
    check(cutaway.compile(INSIDE[name], backend="inductor", fullgraph=True)(x, w), INSIDE[name](x, w), 1e-9)


@pytest.mark.parametrize("name", ["grad", "vjp", "jacrev", "vmap, some", "grad of functional_call"])
def test_what_comes_out_can_be_differentiated_again(name):
    def loss(function):
        x, w = tensor(X, True), tensor(W, True)
        sum((t * t).sum() for t in _tensors(function(x, w))).backward()
        return [t.grad for t in (x, w) if t.grad is not None]

    check(loss(cutaway.compile(INSIDE[name], backend="aot_eager", fullgraph=True)), loss(INSIDE[name]))


def _tensors(tree):
    if isinstance(tree, dict):
        return [t for item in tree.values() for t in _tensors(item)]
    return [t for item in tree for t in _tensors(item)] if isinstance(tree, tuple) else [tree]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", AROUND)
def test_around_a_compiled_function(name, backend):
    whole = not name.startswith("functional_call")

    def compiled(function):
        return cutaway.compile(function, backend=backend, fullgraph=whole)

    check(AROUND[name](compiled), AROUND[name](lambda function: function), 1e-9)


def test_first_derivatives_around_use_the_compiled_function():
    compiled = cutaway.compile(scalar, backend="aot_eager", fullgraph=True)
    func.grad(compiled)(tensor(X), tensor(W))
    assert len(compiled.artifacts) == 1
    func.vmap(compiled, (0, None))(tensor(ROWS), tensor(W))
    func.hessian(compiled)(tensor(X), tensor(W))
    assert len(compiled.artifacts) == 1


def test_the_function_given_to_a_transform_is_guarded(monkeypatch):
    compiled = cutaway.compile(INSIDE["made outside"], backend="aot_eager", fullgraph=True)
    x, w = tensor(X), tensor(W)
    check(compiled(x, w), made_outside(x, w))
    monkeypatch.setitem(globals(), "made_outside", func.grad(scalar, 1))
    check(compiled(x, w), func.grad(scalar, 1)(x, w))


def test_functional_call_leaves_the_module_as_it_was():
    before = [p.tolist() for p in LAYER.parameters()]
    compiled = cutaway.compile(INSIDE["functional_call"], backend="aot_eager", fullgraph=True)
    for _ in range(2):
        compiled(tensor(X), tensor(W))
    assert [p.tolist() for p in LAYER.parameters()] == before and list(LAYER[0]._parameters) == [
        "weight",
        "bias",
    ]


# ---- differentiating a compiled backward ---------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["backward", "grad", "unused allowed"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_double_backward_through_a_compiled_pair_is_torchs_error(ask, backend):
    """Also where the question is for the input itself: never a zero, and never "unused"."""
    x, w = tensor(X, True), tensor(W, True)
    (d,) = autograd.grad(cutaway.compile(scalar, backend=backend)(x, w), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        if ask == "backward":
            (d * d).sum().backward()
        else:
            autograd.grad((d * d).sum(), w, allow_unused=ask != "grad")


def test_the_gradient_of_the_cotangent_is_refused_too():
    x, w = tensor(X, True), tensor(W, True)
    seed = tensor(1.0, True)
    (d,) = autograd.grad(cutaway.compile(scalar, backend="aot_eager")(x, w), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        autograd.grad(d.sum(), seed)


def test_create_graph_twice_inside():
    def program(x, w):
        (d,) = autograd.grad(scalar(x, w), x, create_graph=True)
        (e,) = autograd.grad((d * d).sum(), x, create_graph=True)
        return (e * w).sum()

    def run(function):
        x, w = tensor(X, True), tensor(W, True)
        function(x, w).backward()
        return x.grad, w.grad

    for backend in ("eager", "aot_eager", "inductor"):
        check(run(cutaway.compile(program, backend=backend, fullgraph=True)), run(program), 1e-9)
