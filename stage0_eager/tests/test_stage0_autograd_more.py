"""autograd.Function in full, inference tensors, anomaly detection, autograd.functional, gradgradcheck.

Input: small float64 functions whose derivatives are known.
"""

import copy
import warnings

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.autograd.anomaly import WATCH, detect_anomaly, set_detect_anomaly
from stage0_eager.functions.creation import from_numpy, ones, tensor
from stage0_eager.namespaces import autograd as ag
from stage0_eager.random.generator import rand_of_shape
from stage0_eager.state import inference_mode, no_grad
from stage0_eager.table.registry import TABLE
from stage0_eager.transforms import func

X = np.random.default_rng(0).normal(size=(3,))


def leaf(values=X):
    return Tensor(np.array(values, np.float64), True)


# ---- Function --------------------------------------------------------------------------------------------------


class Doubled(ag.Function):
    """Writes into its input."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_mark_dirty():
    x = leaf()
    y = x * 3
    before = y.version
    z = Doubled.apply(y)
    assert z is y and y.version > before and not y.is_leaf
    z.sum().backward()
    assert x.grad.tolist() == [6.0] * 3 and y.tolist() == (X * 6).tolist()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Doubled.apply(leaf())
    saved = leaf()
    middle = saved * 3
    product = middle * middle  # saves middle
    Doubled.apply(middle)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


class Split(ag.Function):
    """forward without ctx; setup_context fills it. Two outputs, one of them not differentiable."""

    @staticmethod
    def forward(x, scale):
        return x * scale, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g, unused):
        assert ctx.needs_input_grad == (True, False) and unused.shape == g.shape
        (x,) = ctx.saved_tensors
        return g * ctx.scale + 0 * x, None


def test_setup_context_and_outputs_without_gradient():
    x = leaf()
    y, positive = Split.apply(x, 3.0)
    assert y.requires_grad and not positive.requires_grad and positive.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 3


class Cube(ag.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @ag.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_once_differentiable_and_freed_and_retained():
    x = leaf()
    y = Cube.apply(x).sum()
    (g,) = ag.grad(y, x, create_graph=True)
    np.testing.assert_allclose(g.tolist(), 3 * X * X)
    assert not g.requires_grad
    y = Cube.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.tolist(), 6 * X * X)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_what_a_function_saved_is_watched():
    x = leaf()
    inner = x * 1
    y = Cube.apply(inner)
    with no_grad():
        inner.add_(1)
    with pytest.raises(RuntimeError, match=r"expected version \d+ instead"):
        y.sum().backward()


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu(pin_memory):
    x = leaf()
    with ag.save_on_cpu(pin_memory):
        y = (x * x).exp()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), 2 * X * np.exp(X * X))


# ---- inference tensors -----------------------------------------------------------------------------------------


def test_inference_tensors():
    normal = ones(3)
    with inference_mode():
        made = [ones(3), tensor([1.0, 2.0, 3.0]), from_numpy(np.ones(3)), rand_of_shape((3,)), normal + 1]
        view_of_normal = normal[0:2]
        grown = leaf() * 2
        a = made[0].add_(1)  # writing to them is fine in here
        normal.add_(1)
    assert all(t.is_inference() for t in made) and a[0:2].is_inference() and not grown.requires_grad
    assert not normal.is_inference() and not view_of_normal.is_inference() and normal.version == 1
    assert not (a + 1).is_inference() and not a.clone().is_inference() and a.detach().is_inference()
    assert copy.deepcopy(a).tolist() == a.tolist()
    view_of_normal.add_(1)  # a view of a normal tensor is a normal tensor


def test_what_inference_tensors_refuse():
    with inference_mode():
        a = ones(3)
    w = ones(3).requires_grad_()
    assert (w + a).requires_grad  # nothing of a is saved
    for product in (lambda: w * a, lambda: TABLE["cutaway.dot"](w, a), lambda: Cube.apply(w * 1) * a):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            product()
    for write in (a.zero_, lambda: a[0:2].add_(1), lambda: a.__setitem__(0, 2.0)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write()
        with no_grad(), pytest.raises(RuntimeError, match="Inplace update"):
            write()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = a.version
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        a.requires_grad_()
    assert (w * a.clone()).requires_grad


# ---- anomaly detection -----------------------------------------------------------------------------------------


def test_anomaly_detection_names_the_function_and_the_line():
    x = leaf([0.0, 1.0])
    with detect_anomaly(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = (x.sqrt() * 0).sum()  # the gradient at 0 is 0 * inf
        with pytest.raises(RuntimeError, match="'SqrtBackward' returned nan values in its 0th output"):
            y.backward()
    assert "x.sqrt()" in str(seen[0].message) and not WATCH
    (x.sqrt() * 0).sum().backward()  # off again: NaN passes
    assert np.isnan(x.grad.tolist()[0])
    with set_detect_anomaly(True, check_nan=False):
        (x.sqrt() * 0).sum().backward()


# ---- functional ------------------------------------------------------------------------------------------------


def pair(x, y):
    return x.exp() * y, (x * y).sum()


def test_functional_against_closed_forms():
    x, y = Tensor(X.copy()), Tensor(X[::-1].copy())
    a, b = x.numpy(), y.numpy()
    for strategy in ("reverse-mode", "forward-mode"):
        one = ag.functional.jacobian(lambda v: v.sin(), x, strategy=strategy)
        np.testing.assert_allclose(one.numpy(), np.diag(np.cos(a)))
    (exp_x, exp_y), (sum_x, sum_y) = ag.functional.jacobian(pair, (x, y))
    np.testing.assert_allclose(exp_x.numpy(), np.diag(np.exp(a) * b))
    np.testing.assert_allclose(exp_y.numpy(), np.diag(np.exp(a)))
    np.testing.assert_allclose(sum_x.numpy(), b)
    np.testing.assert_allclose(sum_y.numpy(), a)
    cubes = lambda v: (v**3).sum()  # noqa: E731
    np.testing.assert_allclose(ag.functional.hessian(cubes, x).numpy(), np.diag(6 * a))
    (xx, xy), (yx, yy) = ag.functional.hessian(lambda u, v: (u * u * v).sum(), (x, y))
    np.testing.assert_allclose(xx.numpy(), np.diag(2 * b))
    np.testing.assert_allclose(xy.numpy(), np.diag(2 * a))
    np.testing.assert_allclose(yx.numpy(), np.diag(2 * a))
    assert (yy.numpy() == 0).all()
    direction = Tensor(np.arange(1.0, 4.0))
    out, g = ag.functional.vjp(lambda v: v.sin(), x, direction)
    np.testing.assert_allclose(out.numpy(), np.sin(a))
    np.testing.assert_allclose(g.numpy(), np.cos(a) * direction.numpy())
    out, g = ag.functional.jvp(pair, (x, y), (direction, direction))
    np.testing.assert_allclose(g[0].numpy(), np.exp(a) * (b + 1) * direction.numpy())
    np.testing.assert_allclose(g[1].numpy(), ((a + b) * direction.numpy()).sum())
    for product in (ag.functional.vhp, ag.functional.hvp):
        value, g = product(cubes, x, direction)
        np.testing.assert_allclose(value.numpy(), (a**3).sum())
        np.testing.assert_allclose(g.numpy(), 6 * a * direction.numpy())
    value, (gx, gy) = ag.functional.vhp(lambda u, v: (u * u * v).sum(), (x, y), (direction, direction))
    np.testing.assert_allclose(gx.numpy(), 2 * (a + b) * direction.numpy())
    np.testing.assert_allclose(gy.numpy(), 2 * a * direction.numpy())


def test_functional_create_graph_and_strict():
    x = leaf()
    assert not ag.functional.jacobian(lambda v: v * v, x).requires_grad
    whole = ag.functional.jacobian(lambda v: v * v * v, x, create_graph=True)
    (g,) = ag.grad(whole.sum(), x)
    np.testing.assert_allclose(g.tolist(), 6 * X)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        ag.functional.jacobian(lambda u, v: u * 2, (x, x * 1), strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        ag.functional.jacobian(lambda u: ones(2), x, strict=True)
    with pytest.raises(RuntimeError, match="v can only be None"):
        ag.functional.vjp(lambda u: u * 2, x)
    with pytest.raises(RuntimeError, match="single element"):
        ag.functional.hessian(lambda u: u * 2, x)
    with pytest.raises(TypeError, match="inputs given must be"):
        ag.functional.jacobian(lambda u: u, 3)


@pytest.mark.parametrize("name", "sin exp tanh sigmoid sqrt reciprocal erf log1p atan".split())
def test_jvp_against_finite_differences(name):
    op, x, t = TABLE[f"cutaway.{name}"], np.abs(X) + 0.5, np.array([0.3, -1.0, 2.0])
    out, pushed = func.jvp(lambda v: op(v) * v.sum(), (Tensor(x),), (Tensor(t),))
    f = lambda v: (op(Tensor(v)) * v.sum()).numpy()  # noqa: E731
    np.testing.assert_allclose(pushed.numpy(), (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(out.numpy(), f(x))


def test_gradgradcheck():
    assert ag.gradgradcheck(lambda v: (v * v).sin(), leaf())
    assert ag.gradgradcheck(lambda u, v: (u @ v).exp(), (leaf(), leaf(X[::-1])))

    class Wrong(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.detach()  # right at first, and constant to who differentiates again

    assert ag.gradcheck(Wrong.apply, leaf())
    with pytest.raises(ag.GradcheckError):
        ag.gradgradcheck(Wrong.apply, leaf())
