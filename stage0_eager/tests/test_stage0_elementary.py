"""Elementary functions, rectifiers, special values and second names against NumPy and SciPy, and their gradients.

Input: a table of (function, reference on float64, lowest and highest argument); each row is run on both float
widths, at edge values, on 0-d and empty tensors, and its gradient is held against finite differences.
"""

import math

import numpy as np
import pytest
import scipy.special as special

from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import aliases, inplace, pointwise, pointwise_composed
from stage0_eager.functions import comparison as V
from stage0_eager.functions.creation import tensor, zeros
from stage0_eager.functions.nn import activations, rectifiers
from stage0_eager.tensor import Tensor

E, R, L = pointwise_composed, rectifiers, aliases
INF, NAN = math.inf, math.nan
SELU = 1.0507009873554804934, 1.6732632423543772848


def softplus(x):
    return np.logaddexp(0, x)


# name: (function, reference, low, high); 'edges' are then EDGES within [low, high]
UNARY = {
    "logit": (E.logit, special.logit, 0, 1),
    "logit eps": (lambda x: E.logit(x, 0.1), lambda x: special.logit(np.clip(x, 0.1, 0.9)), -9, 9),
    "sinc": (E.sinc, np.sinc, -9, 9),
    "entr": (E.entr, special.entr, 0, 9),
    "deg2rad": (E.deg2rad, np.deg2rad, -INF, INF),
    "rad2deg": (E.rad2deg, np.rad2deg, -INF, INF),
    "frac": (E.frac, lambda x: x - np.trunc(x), -9, 9),
    "nan_to_num": (lambda x: V.nan_to_num(x, 1.0, 2.0, -2.0), lambda x: np.nan_to_num(x, True, 1.0, 2.0, -2.0), -INF, INF),
    "clamp_min": (lambda x: V.clamp_min(x, 0.25), lambda x: np.maximum(x, 0.25), -INF, INF),
    "clamp_max": (lambda x: V.clamp_max(x, 0.25), lambda x: np.minimum(x, 0.25), -INF, INF),
    "softsign": (R.softsign, lambda x: x / (1 + abs(x)), -9, 9),
    "mish": (R.mish, lambda x: x * np.tanh(softplus(x)), -800, 800),
    "hardsigmoid": (R.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), -INF, INF),
    "hardswish": (R.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -800, INF),
    "hardtanh": (lambda x: R.hardtanh(x, -2, 1.5), lambda x: np.clip(x, -2, 1.5), -INF, INF),
    "relu6": (R.relu6, lambda x: np.clip(x, 0, 6), -INF, INF),
    "elu": (lambda x: R.elu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), -INF, INF),
    "selu": (R.selu, lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x)), -INF, INF),
    "celu": (lambda x: R.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), -INF, INF),
    "logsigmoid": (R.logsigmoid, special.log_expit, -INF, INF),
    "tanhshrink": (R.tanhshrink, lambda x: x - np.tanh(x), -INF, INF),
    "hardshrink": (R.hardshrink, lambda x: np.where(abs(x) <= 0.5, 0 * np.sign(x), x), -INF, INF),
    "softshrink": (R.softshrink, lambda x: x - np.clip(x, -0.5, 0.5), -800, 800),
    "threshold": (lambda x: R.threshold(x, 0.25, 20), lambda x: np.where(x <= 0.25, 20, x), -INF, INF),
    "positive": (E.positive, lambda x: x, -INF, INF),
    "expit": (L.expit, special.expit, -INF, INF),
    "arctan": (L.arctan, np.arctan, -INF, INF),
    "arcsinh": (L.arcsinh, np.arcsinh, -9, 9),
    "negative": (L.negative, np.negative, -INF, INF),
    "absolute": (L.absolute, np.abs, -INF, INF),
    "fix": (L.fix, np.trunc, -INF, INF),
    "clip": (lambda x: L.clip(x, -1, 1), lambda x: np.clip(x, -1, 1), -INF, INF),
}  # fmt: skip
EDGES = np.array([-INF, -800, -3.0, -0.5, -0.0, 0.0, 0.1, 0.5, 1.0, 3.0, 6.0, 800, INF, NAN])


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values(name, dtype):
    function, reference, low, high = UNARY[name]
    spread = np.random.default_rng(0).uniform(max(low, -9), min(high, 9), (3, 4))
    edges = EDGES[~((low > EDGES) | (high < EDGES))]
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    with np.errstate(all="ignore"):
        for x in (spread, spread.T, edges, np.array(0.25), np.zeros((0, 3))):
            x = x.astype(dtype)
            out = function(Tensor(x))
            assert out.shape == x.shape and out.dtype.numpy == dtype
            np.testing.assert_allclose(out.numpy(), reference(x.astype(np.float64)), tolerance, tolerance)


@pytest.mark.parametrize("name", UNARY)
def test_gradients(name):
    function, _, low, high = UNARY[name]
    x = np.random.default_rng(1).uniform(max(low, -4), min(high, 7), 40)
    check_gradient(function, [x])
    edges = Tensor(EDGES[np.isfinite(EDGES) & ~((low >= EDGES) | (high <= EDGES))], True)
    (found,) = grad([function(edges)], [edges], [Tensor(np.ones(edges.shape))])
    assert np.isfinite(found.numpy()).all()


def check_gradient(function, arrays, step=1e-6):
    leaves = [Tensor(a.copy(), True) for a in arrays]
    out = function(*leaves)
    weights = np.random.default_rng(2).uniform(0.5, 1.5, out.shape)
    found = grad([out], leaves, [Tensor(np.asarray(weights))])
    for k, array in enumerate(arrays):
        slope = np.zeros(array.shape)
        for index in np.ndindex(*array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[k][index] += sign * step
                ends.append((function(*map(Tensor, moved)).numpy() * weights).sum())
            slope[index] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found[k].numpy(), slope, rtol=1e-5, atol=1e-6)


BINARY = {
    "hypot": (E.hypot, np.hypot),
    "logaddexp": (E.logaddexp, np.logaddexp),
    "logaddexp2": (E.logaddexp2, np.logaddexp2),
    "fmax": (V.fmax, np.fmax),
    "fmin": (V.fmin, np.fmin),
    "xlogy": (E.xlogy, special.xlogy),
    "xlog1py": (E.xlog1py, special.xlog1py),
    "ldexp": (E.ldexp, lambda x, y: x * 2.0**y),
    "clamp_min of tensors": (V.clamp_min, np.maximum),
    "clamp_max of tensors": (V.clamp_max, np.minimum),
    "subtract": (L.subtract, np.subtract),
    "multiply": (L.multiply, np.multiply),
    "true_divide": (L.true_divide, np.true_divide),
    "arctan2": (L.arctan2, np.arctan2),
    "isclose": (V.isclose, np.isclose),
    "greater": (L.greater, np.greater),
    "not_equal": (L.not_equal, np.not_equal),
}
NOT_DIFFERENTIABLE = ("isclose", "greater", "not_equal")
# where NumPy has another convention (0 * inf in xlogy, the NaN of an infinite quotient) the grid is finite
FINITE = ("xlogy", "xlog1py", "ldexp")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_of_two(name, dtype):
    function, reference = BINARY[name]
    edges = EDGES[np.isfinite(EDGES) & (abs(EDGES) < 700)] if name in FINITE else EDGES
    edges = edges.astype(dtype)
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    with np.errstate(all="ignore"):
        for x, y in (
            (edges[:, None], edges),
            (np.ones((2, 0), dtype), np.ones((1,), dtype)),
            (np.array(2.0, dtype), np.array(0.5, dtype)),
        ):
            out, want = function(Tensor(x), Tensor(y)), reference(x.astype(np.float64), y.astype(np.float64))
            assert out.shape == want.shape
            assert out.dtype.name == "bool" or out.dtype.numpy == dtype
            np.testing.assert_allclose(out.numpy(), want, tolerance, tolerance)


@pytest.mark.parametrize("name", [n for n in BINARY if n not in NOT_DIFFERENTIABLE])
def test_gradients_of_two(name):
    random = np.random.default_rng(3)
    check_gradient(BINARY[name][0], [random.uniform(0.2, 3, (3, 1)), random.uniform(0.1, 2.5, (4,))])


def test_gradients_at_ties_and_zeros():
    x, y = tensor([1.0, INF, -INF, 0.0]).requires_grad_(), tensor([1.0, INF, -INF, 0.0]).requires_grad_()
    out = E.logaddexp(x, y)
    assert [g.tolist() for g in grad([out], [x, y], [tensor([1.0] * 4)])] == [[0.5] * 4] * 2
    assert [g.tolist() for g in grad([V.fmax(x, y)], [x, y], [tensor([1.0] * 4)])] == [[1.0] * 4, [0.0] * 4]


def test_special_values():
    x = tensor([INF, -INF, NAN, -0.0, 1.0])
    assert V.isposinf(x).tolist() == [True, False, False, False, False]
    assert V.isneginf(x).tolist() == [False, True, False, False, False]
    assert V.isreal(x).tolist() == [True] * 5
    assert E.signbit(x).tolist() == [False, True, False, True, False]
    assert E.signbit(tensor([-1, 0, 2])).tolist() == [True, False, False]
    assert V.nan_to_num(tensor([INF, -INF, NAN])).tolist() == [
        *map(float, (np.finfo("f").max, np.finfo("f").min)),
        0,
    ]
    assert V.nan_to_num(tensor([INF]).to("bfloat16")).isfinite().all().item()
    assert E.heaviside(tensor([-1.0, 0.0, 2.0]), tensor(0.5)).tolist() == [0, 0.5, 1]
    assert E.float_power(tensor([2, 3]), 2).dtype.name == "float64" and E.float_power(
        2, tensor([3])
    ).tolist() == [8]
    assert V.isclose(tensor([NAN]), tensor([NAN]), equal_nan=True).tolist() == [True]
    assert V.isclose(tensor([100]), tensor([101]), rtol=0.01).tolist() == [True]
    assert tensor([1.0]).allclose(tensor([1.0 + 1e-7])) and not V.allclose(tensor([1.0]), tensor([2.0]))
    assert V.equal(tensor([1, 2]), tensor([1, 2])) and not V.equal(zeros(2), zeros(3))
    assert np.isnan(V.clamp_min(zeros(2), NAN).tolist()).all()
    assert np.isnan(V.clamp_max(zeros(1), tensor([NAN])).tolist()).all()
    assert (
        R.hardtanh(tensor([-3, 0, 3])).tolist() == [-1, 0, 1]
        and R.hardtanh(tensor([3])).dtype.name == "int64"
    )


def test_prelu_and_glu():
    x = np.random.default_rng(4).uniform(-2, 2, (2, 3, 4))
    w = np.array([0.1, 0.2, -0.3])
    want = np.where(x > 0, x, x * w[:, None])
    np.testing.assert_allclose(R.prelu(Tensor(x), Tensor(w)).numpy(), want)
    check_gradient(R.prelu, [x, w])
    check_gradient(R.prelu, [x, w[:1]])
    check_gradient(R.glu, [x])
    np.testing.assert_allclose(R.glu(Tensor(x), -1).numpy(), x[..., :2] * special.expit(x[..., 2:]))
    np.testing.assert_allclose(R.softmin(Tensor(x), 1).numpy(), special.softmax(-x, 1))


ERRORS = {
    "hypot of ints": (lambda: E.hypot(tensor([1]), tensor([2])), NotImplementedError, "int64"),
    "heaviside": (lambda: E.heaviside(zeros(2), tensor([1])), RuntimeError, "different dtypes"),
    "isclose dtypes": (lambda: V.isclose(zeros(1), tensor([1])), RuntimeError, "did not match"),
    "isclose rtol": (lambda: V.isclose(zeros(1), zeros(1), rtol=-1), RuntimeError, "greater than or equal to zero"),
    "positive of bool": (lambda: E.positive(tensor([True])), RuntimeError, "bool"),
    "glu": (lambda: R.glu(zeros(2, 3)), RuntimeError, "Halving dimension must be even, but dimension 1 is size 3"),
    "glu of a number": (lambda: R.glu(tensor(1.0)), RuntimeError, "0-dimensional"),
    "celu": (lambda: R.celu(zeros(2), 0), RuntimeError, "alpha cannot be 0"),
    "softshrink": (lambda: R.softshrink(zeros(2), -1), RuntimeError, "lambda must be greater"),
    "hardtanh": (lambda: R.hardtanh(zeros(2), 2, 1), ValueError, "min_val cannot be greater"),
    "prelu": (lambda: R.prelu(zeros(2, 3), zeros(2)), RuntimeError, "Mismatch of parameter numbers"),
    "elu of ints": (lambda: R.elu(tensor([1])), NotImplementedError, "int64"),
    "a leaf": (lambda: inplace.elu_(zeros(2).requires_grad_()), RuntimeError, "leaf Variable"),
    "the result does not fit": (lambda: tensor([1]).sinc_(), RuntimeError, "can't be cast"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    action, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        action()


def test_in_place_forms_write_what_the_function_gives():
    x = np.array([0.3, 0.6])
    for name in ("sinc", "logit", "expm1", "arctan", "clip", "nan_to_num", "frac"):
        t, options = Tensor(x.copy()), ((0.4, 0.5) if name == "clip" else ())
        want = getattr(t, name)(*options).tolist()
        assert getattr(t, f"{name}_")(*options) is t and t.tolist() == want
    t = Tensor(x.copy())
    assert inplace.elu_(t) is t and t.tolist() == activations.relu(Tensor(x)).tolist()
    assert t.gt_(0.5).tolist() == [0.0, 1.0]


def test_whole_numbers_are_divided_as_whole_numbers():
    low, big = -(2**63), 2**62 + 1
    x, y = Tensor(np.array([7, -7, 7, -7, low, low, big])), Tensor(np.array([2, 2, -2, -2, -1, 3, 3]))
    for mode, want in {
        "trunc": [3, -3, -3, 3, low, -(2**63 // 3), big // 3],
        "floor": [3, -4, -4, 3, low, -(2**63 // 3) - 1, big // 3],
    }.items():
        assert pointwise.div(x, y, rounding_mode=mode).tolist() == want
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            pointwise.div(x, 0, rounding_mode=mode)
    assert pointwise.div(x, 2.0, rounding_mode="trunc").dtype.name == "float32"
    assert pointwise.div(Tensor(np.array([200], np.uint8)), 3, rounding_mode="trunc").tolist() == [66]


def test_ldexp_overflows_in_its_result_only():
    found = E.ldexp(Tensor(np.array([1e-300, 1.0])), Tensor(np.array([2000, 2000])))
    np.testing.assert_allclose(found.numpy(), [1.1481306952742546e302, np.inf])
