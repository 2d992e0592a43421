"""Custom operators: eager calls with autograd, one opaque node in every backend, writes, fake rules, what is refused.

Input: small NumPy functions made operators. Their backwards are traced, so compiled gradients must be eager's.
"""

import numpy as np
import pytest

import cutaway
from cutaway import Tensor, func, library
from stage0_eager.utils.pytree import leaves_of
from stage_contracts.program_text import parse_program

BACKENDS = ["eager", "aot_eager", "inductor"]


@library.custom_op("cutaway_tests::sine", mutates_args=())
def sine(x: Tensor, w: Tensor, k: float = 2.0) -> Tensor:
    return cutaway.from_numpy(np.sin(x.numpy()) * w.numpy() * k)


@sine.register_fake
def _(x, w, k=2.0):
    return cutaway.empty_like(x)


def _keep(ctx, inputs, output):
    x, w, ctx.k = inputs
    ctx.save_for_backward(x, w)


def _sine_backward(ctx, g):
    x, w = ctx.saved_tensors
    return g * w * x.cos() * ctx.k, sine(x, g, ctx.k) if ctx.needs_input_grad[1] else None, None


sine.register_autograd(_sine_backward, setup_context=_keep)


@library.custom_op("cutaway_tests::accumulate", mutates_args={"out"})
def accumulate(x: Tensor, *, out: Tensor) -> None:
    out.numpy()[...] += x.numpy()


@library.custom_op("cutaway_tests::halves", mutates_args=())
def halves(x: Tensor) -> list[Tensor]:
    return [cutaway.from_numpy(a.copy()) for a in np.split(x.numpy(), 2)]


@halves.register_fake
def _(x):
    return [x.new_empty((x.shape[0] // 2,)) for _ in range(2)]


halves.register_autograd(lambda ctx, gradients: (cutaway.cat(gradients),))


def numbers(*shape, seed=0):
    return cutaway.from_numpy(np.random.default_rng(seed).normal(size=shape))


def run(function, *args):
    args = [a.clone().requires_grad_() for a in args]
    results = leaves_of(function(*args))
    sum((t * t).sum() for t in results).backward()
    return [t.detach().numpy() for t in results] + [a.grad.numpy() for a in args]


def program(x, w):
    y = sine(x * 2, w, k=3.0)
    out = cutaway.zeros_like(x)
    accumulate(y.detach(), out=out)
    accumulate(x.detach(), out=out[:4])
    a, b = halves(y)
    return y + out, a * b, cutaway.ops.cutaway_tests.sine(w, w).sum()


def test_eager_values_and_gradients():
    x, w = numbers(4), numbers(4, seed=1)
    np.testing.assert_allclose(sine(x, w).numpy(), 2 * np.sin(x.numpy()) * w.numpy())
    assert cutaway.autograd.gradcheck(lambda x, w: sine(x, w, 0.5), (x.requires_grad_(), w.requires_grad_()))
    out, before = cutaway.ones(4, dtype=cutaway.float64), 0
    assert out.version == before
    accumulate(x.detach(), out=out)
    np.testing.assert_allclose(out.numpy(), 1 + x.detach().numpy())
    assert out.version == before + 1
    first, second = halves(x)
    assert second.grad_fn is not None and type(halves(x)) is list


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_one_node_with_eagers_gradients(backend):
    x, w = numbers(4), numbers(4, seed=1)
    compiled = cutaway.compile(program, backend=backend, fullgraph=True)
    for got, want in zip(run(compiled, x, w), run(program, x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)
    artifacts = compiled.artifacts[0]
    assert "ops.cutaway_tests.sine(mul, w, k=3.0)" in str(artifacts.captured)
    if backend == "inductor":
        planned = artifacts.forward.planned
        assert str(planned).count('external("ops.cutaway_tests.halves"') == 1
        assert 'external("functional.ops.cutaway_tests.accumulate", ' in str(planned)
        assert str(parse_program(str(planned))) == str(planned)


def test_writes_reach_the_users_tensors():
    def f(x, out):
        accumulate(x, out=out)
        view = out[1:3]
        accumulate(x[:2], out=view)
        return view * 2

    for backend in BACKENDS:
        outs = [cutaway.ones(4, dtype=cutaway.float64) for _ in range(2)]
        x = numbers(4)
        results = [f(x, outs[0]), cutaway.compile(f, backend=backend, fullgraph=True)(x, outs[1])]
        np.testing.assert_array_equal(*[r.numpy() for r in results])
        np.testing.assert_array_equal(*[o.numpy() for o in outs])
        assert outs[1].version == 2


def test_functions_of_gradients_go_through():
    x, w = numbers(4), numbers(4, seed=1)
    by_hand = 2 * np.cos(x.numpy()) * w.numpy()
    np.testing.assert_allclose(func.grad(lambda x: sine(x, w).sum())(x).numpy(), by_hand)
    compiled = cutaway.compile(
        lambda x: func.grad(lambda x: sine(x, w).sum())(x), backend="aot_eager", fullgraph=True
    )
    np.testing.assert_allclose(compiled(x).numpy(), by_hand)
    rows, weights = numbers(3, 4), numbers(3, 4, seed=2)
    np.testing.assert_allclose(func.vmap(sine)(rows, weights).numpy(), sine(rows, weights).numpy())

    @library.custom_op("cutaway_tests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x + x

    calls = []

    @doubled.register_vmap
    def _(info, in_dims, x):
        calls.append((info.batch_size, in_dims))
        return doubled(x), in_dims[0]

    np.testing.assert_array_equal(func.vmap(doubled)(rows).numpy(), 2 * rows.numpy())
    assert calls == [(3, (0,))]


# ---- registered by name ----------------------------------------------------------------------------------------------


def test_defined_by_a_schema():
    library.define("cutaway_tests::scaled", "(Tensor x, float k=2.0, *, bool negate=False) -> Tensor")

    @library.impl("cutaway_tests::scaled", "cpu")
    def _(x, k=2.0, *, negate=False):
        return cutaway.from_numpy(x.numpy() * (-k if negate else k))

    @library.register_fake("cutaway_tests::scaled")
    def _(x, k=2.0, *, negate=False):
        return cutaway.empty_like(x)

    library.register_autograd(
        "cutaway_tests::scaled",
        lambda ctx, g: (g * ctx.k, None),
        setup_context=lambda ctx, inputs, keyword_only_inputs, output: setattr(ctx, "k", inputs[1]),
    )
    scaled, x = cutaway.ops.cutaway_tests.scaled, numbers(3)
    np.testing.assert_array_equal(scaled(x, 3.0, negate=True).numpy(), -3 * x.numpy())
    assert scaled.default is scaled
    for backend in BACKENDS[:2]:
        compiled = cutaway.compile(lambda x: scaled(x, 5.0), backend=backend, fullgraph=True)
        for got, want in zip(run(compiled, x), run(lambda x: scaled(x, 5.0), x), strict=True):
            np.testing.assert_array_equal(got, want)


def test_schemas_from_annotations():
    def f(
        x: Tensor, ys: list[Tensor], n: int, s: str = "a", *, d: float | None = None
    ) -> tuple[Tensor, int]: ...

    assert library.infer_schema(f, mutates_args=("ys",), op_name="f") == (
        'f(Tensor x, Tensor(a1!)[] ys, SymInt n, str s="a", *, float? d=None) -> (Tensor, SymInt)'
    )


def test_under_torch_names():
    from cutaway.torch_api import as_torch

    with as_torch() as torch:
        assert torch.library.custom_op is library.custom_op
        assert torch.ops.cutaway_tests.sine is sine


# ---- the checker -----------------------------------------------------------------------------------------------------


def test_opcheck_passes_what_is_right():
    x, w = numbers(4).requires_grad_(), numbers(4, seed=1)
    assert set(library.opcheck(sine, (x, w, 0.5)).values()) == {"SUCCESS"}
    assert set(library.opcheck("cutaway_tests::accumulate", (x.detach(),), {"out": w}).values()) == {
        "SUCCESS"
    }


def test_opcheck_finds_what_is_wrong():
    @library.custom_op("cutaway_tests::wrong", mutates_args=())
    def wrong(x: Tensor) -> Tensor:
        x.numpy()[...] = 0
        return x + 1

    @wrong.register_fake
    def _(x):
        return x.new_empty((x.shape[0] + 1,))

    found = library.opcheck(wrong, (numbers(3).requires_grad_(),), raise_exception=False)
    assert "Argument x is not defined as mutable but was mutated" in found["test_schema"]
    assert "has no autograd formula" in found["test_autograd_registration"]
    assert "returns float64[4]" in found["test_faketensor"]
    assert "SUCCESS" not in found.values()
    with pytest.raises(library.OpCheckError, match="test_schema failed"):
        library.opcheck(wrong, (numbers(3),))


# ---- errors ----------------------------------------------------------------------------------------------------------


def made(name, function, **words):
    return library.custom_op(f"cutaway_tests::{name}", function, **{"mutates_args": ()} | words)


def test_what_is_refused():
    def plain(x: Tensor) -> Tensor:
        return x + 1

    def unannotated(x):
        return x

    def unreturned(x: Tensor):
        return x

    def odd(x: dict) -> Tensor:
        return x

    def starred(*x: Tensor) -> Tensor:
        return x[0]

    for words, function, options in (
        ("Parameter x must have a type annotation", unannotated, {}),
        ("No return type annotation was provided", unreturned, {}),
        ("Parameter x has unsupported type", odd, {}),
        ("We do not support positional-only args, varargs", starred, {}),
        ("in mutates_args were not found", plain, {"mutates_args": ("y",)}),
        ("or the string 'unknown'", plain, {"mutates_args": "x"}),
        ("Please make these consistent", plain, {"schema": "(Tensor(a!) x) -> Tensor"}),
    ):
        with pytest.raises(ValueError, match=words):
            made("refused", function, **options)
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("nameless", plain, mutates_args=())
    with pytest.raises(RuntimeError, match="does not exist"):
        library.register_fake("cutaway_tests::nothing", plain)
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        accumulate.register_autograd(lambda ctx, g: g)


def test_errors_at_calls():
    x = numbers(3)
    alone = made("alone", lambda_with_types(lambda x: x))
    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        alone(x)
    bare = made("bare", lambda_with_types(lambda x: x + 1))
    with pytest.raises(cutaway.Unsupported, match="There was no fake impl registered for <CustomOpDef"):
        cutaway.compile(lambda x: bare(x), backend="eager", fullgraph=True)(x)
    assert cutaway.compile(lambda x: bare(x) * 2, backend="eager")(x).shape == (3,)  # a break
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        bare(x.clone().requires_grad_()).sum().backward()
    gpu = made("gpu", lambda_with_types(lambda x: x + 1), device_types="cuda")
    with pytest.raises(NotImplementedError, match="from the 'CPU' backend"):
        gpu(x)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_fake_rule_that_lies_is_found_when_the_kernel_runs(backend):
    lies = made(f"lies_{backend}", lambda_with_types(lambda x: x + 1))
    lies.register_fake(lambda x: x.new_empty((2,)))
    with pytest.raises(TypeError, match="kernel and its meta .*disagree"):
        cutaway.compile(lambda x: lies(x), backend=backend, fullgraph=True)(numbers(3))


def lambda_with_types(function):
    function.__annotations__ = {"x": Tensor, "return": Tensor}
    return function
