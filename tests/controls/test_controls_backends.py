"""allow_in_graph, disallow_in_graph, assume_constant_result, substitute_in_graph, nonstrict_trace on every backend.

Input: small functions. What torch's pages say of each: what is one node, what breaks, what is never looked at again.
"""

import operator

import numpy as np
import pytest

import cutaway
from cutaway import compiler, nn

BACKENDS = ["eager", "aot_eager", "inductor"]


def calls_of(compiled):
    return [n.target.name for n in compiled.artifacts[0].captured.calls if n.target is not operator.getitem]


def trained(function, *shapes):
    args = [
        cutaway.from_numpy(np.random.default_rng(i).normal(size=s)).requires_grad_()
        for i, s in enumerate(shapes)
    ]
    out = function(*args)
    out.sum().backward()
    return [out.detach().numpy(), *(a.grad.numpy() for a in args)]


def same(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_allowed_function_is_one_node_with_its_gradient(backend):
    ran = []

    @compiler.allow_in_graph
    def opaque(x, w, *more, **options):
        ran.append(1)  # stage 2 runs it once, to trace it; the eager backend at each call
        compiler.graph_break()  # nothing of this is looked at
        return (x * w).sin() * options["scale"] + sum(more)

    def f(x, w):
        return opaque(x + 1, w, w, scale=3.0) * 2

    compiled = cutaway.compile(f, backend=backend, fullgraph=True)
    same(trained(compiled, (4,), (4,)), trained(f, (4,), (4,)))
    assert calls_of(compiled) == ["add", "opaque", "mul"]
    before = len(ran)
    compiled(
        cutaway.ones(4, dtype=cutaway.float64).requires_grad_(),
        cutaway.ones(4, dtype=cutaway.float64).requires_grad_(),
    )
    assert (len(ran) > before) == (backend == "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_disallowed_function_breaks_around_it(backend):
    def kept_out(x):
        return x - 1

    compiler.disallow_in_graph(kept_out)

    def f(x):
        return kept_out(x + 1) + 1

    compiled = cutaway.compile(f, backend=backend)
    same(trained(compiled, (4,)), trained(f, (4,)))
    assert len(compiled.breaks) == 1 and "kept_out" in compiled.breaks[0].reason
    assert calls_of(compiled) == ["add"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_assumed_constant_is_read_once(backend):
    settings = {"scale": 2.0}

    @compiler.assume_constant_result
    def setting(name):
        return settings[name]

    compiled = cutaway.compile(lambda x: x * setting("scale"), backend=backend, fullgraph=True)
    assert compiled(cutaway.ones(1)).item() == 2
    settings["scale"] = 5.0  # nobody looks: that is what was promised
    assert compiled(cutaway.ones(1)).item() == 2 and len(compiled.entries) == 1
    assert compiled(cutaway.ones(2)).tolist() == [5, 5]  # another compile asks again


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_substitute_is_followed_and_eager_code_is_not_touched(backend):
    @compiler.allow_in_graph
    def never(x):
        raise AssertionError

    def original(x, by=2.0):
        return never(x)

    @compiler.substitute_in_graph(original)
    def traceable(x, by=2.0):
        return x * by

    compiled = cutaway.compile(lambda x: original(x, 3.0) + 1, backend=backend, fullgraph=True)
    assert compiled(cutaway.ones(2)).tolist() == [4, 4] and calls_of(compiled) == ["mul", "add"]
    with pytest.raises(AssertionError):
        original(cutaway.ones(1))


def test_a_substitute_must_fit():
    def original(x, by=2.0):
        return x

    with pytest.raises(TypeError, match="Signature mismatch"):
        compiler.substitute_in_graph(original)(lambda x, factor=2.0: x)
    with pytest.raises(TypeError, match="Signature mismatch"):
        compiler.substitute_in_graph(original)(lambda x, by=3.0: x)
    with pytest.raises(TypeError, match="expects a function"):
        compiler.substitute_in_graph(3)
    with pytest.raises(TypeError, match="expects a function"):
        compiler.substitute_in_graph(original)(3)
    compiler.substitute_in_graph(original, skip_signature_check=True)(lambda y: y)
    with pytest.raises(ValueError, match="Duplicate polyfilled object"):
        compiler.substitute_in_graph(original)(lambda x, by=2.0: x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nonstrict_trace_takes_modules_and_nested_containers(backend):
    @compiler.nonstrict_trace
    def opaque(model, parts, scale):
        compiler.graph_break()
        out = model(parts["x"]) * scale
        return {"out": out, "both": (out, [parts["y"] + 1]), "said": "done"}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

        def forward(self, x):
            found = opaque(self.inner, {"x": x, "y": x * 2}, 2.0)
            assert found["said"] == "done"
            return found["both"][0] + found["both"][1][0]

    model, x = Outer(), cutaway.randn(2, 3)
    gradients = []
    for f in (model, cutaway.compile(model, backend=backend, fullgraph=True)):
        model.zero_grad()
        f(x).sum().backward()
        gradients.append([p.grad.clone().numpy() for p in model.parameters()])
    for got, want in zip(*gradients, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_rebinding_an_operator_or_a_kernel_compiles_again():
    library = cutaway.library

    def make(by):
        def shifted(x: cutaway.Tensor) -> cutaway.Tensor:
            return x + by

        op = library.custom_op(f"cutaway_tests::shifted_{by}", shifted, mutates_args=())
        op.register_fake(lambda x: cutaway.empty_like(x))
        return op

    holder = {"op": make(1)}
    compiled = cutaway.compile(lambda x: holder["op"](x), backend="eager", fullgraph=True)
    assert compiled(cutaway.zeros(1)).item() == 1
    holder["op"] = make(2)
    assert compiled(cutaway.zeros(1)).item() == 2
