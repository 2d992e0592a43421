"""Public functions against NumPy written from their definitions, in float64, and with torch where it is installed.

Input: one row per function and its options; every row is compared with both.
"""

import numpy as np
import pytest
from scipy import special

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import pointwise as P
from stage0_eager.functions import reductions as R
from stage0_eager.functions.creation import tensor, zeros
from stage0_eager.functions.linalg import products as L
from stage0_eager.functions.nn import activations as A
from stage0_eager.functions.nn import losses, normalization, sparse

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))
CUBE = RNG.normal(size=(2, 3, 4))
W = RNG.uniform(0.5, 2, 5)
LABELS = np.array([1, 0, 4, 2])
GAPS = np.array([1, -100, 4, -100])
PROBABILITIES = RNG.dirichlet(np.ones(5), 4)
DENSE = RNG.normal(size=(2, 5, 3))  # (N, C, positions)
DENSE_LABELS = RNG.integers(0, 5, (2, 3))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis):
    return np.log(softmax(x, axis))


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    out = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The definition, one sample at a time: sum over classes of -w_c * q_c * log p_c."""
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    w = np.ones(classes) if weight is None else weight
    logp = log_softmax(x, 1 if x.ndim > 1 else 0)
    flat = (np.moveaxis(logp, 1, -1) if x.ndim > 1 else logp).reshape(-1, classes)
    by_class = target.dtype.kind == "i"
    losses, shares = [], []
    rows = target.reshape(-1) if by_class else np.moveaxis(np.atleast_2d(target), 1, -1).reshape(-1, classes)
    for row, t in zip(flat, rows, strict=True):
        if by_class and t == ignore_index:
            losses.append(0.0)
            continue
        q = np.eye(classes)[t] if by_class else t
        q = q * (1 - label_smoothing) + label_smoothing / classes
        losses.append(-(w * q * row).sum())
        shares.append(w[t] if by_class else 1.0)
    shape = target.shape if by_class else (*target.shape[:1], *target.shape[2:])
    total = np.array(losses).reshape(shape)
    return {"none": total, "sum": total.sum(), "mean": total.sum() / sum(shares)}[reduction]


def nll(x, target, weight=None, ignore_index=-100, reduction="mean"):
    w = np.ones(x.shape[1]) if weight is None else weight
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    losses = np.where(kept, -w[safe] * x[np.arange(len(x)), safe], 0)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / np.where(kept, w[safe], 0).sum()}[
        reduction
    ]


def gelu(x, approximate="none"):
    if approximate == "none":
        return x * special.ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


# name: (function, arguments, NumPy's answer, what torch calls it). A dict as the last argument holds keywords.
CASES = {
    "relu": (A.relu, [X], np.maximum(X, 0), "nn.functional.relu"),
    "leaky_relu": (A.leaky_relu, [X, 0.2], np.where(X > 0, X, 0.2 * X), "nn.functional.leaky_relu"),
    "gelu": (A.gelu, [X], gelu(X), "nn.functional.gelu"),
    "gelu tanh": (A.gelu, [X, {"approximate": "tanh"}], gelu(X, "tanh"), "nn.functional.gelu"),
    "silu": (A.silu, [X], X * special.expit(X), "nn.functional.silu"),
    "softplus": (A.softplus, [X, 2.0, 1.0], np.where(2 * X > 1, X, np.log1p(np.exp(2 * X)) / 2), "nn.functional.softplus"),
    "layer_norm": (normalization.layer_norm, [X, (5,), W, W], layer_norm(X, (5,), W, W), "nn.functional.layer_norm"),
    "layer_norm of two dims": (normalization.layer_norm, [CUBE, (3, 4)], layer_norm(CUBE, (3, 4)), "nn.functional.layer_norm"),
    "layer_norm eps": (normalization.layer_norm, [X, (5,), None, None, 0.5], layer_norm(X, (5,), eps=0.5), "nn.functional.layer_norm"),
    "mse_loss": (losses.mse_loss, [X, Y], ((X - Y) ** 2).mean(), "nn.functional.mse_loss"),
    "mse_loss sum": (losses.mse_loss, [X, Y, {"reduction": "sum"}], ((X - Y) ** 2).sum(), "nn.functional.mse_loss"),
    "l1_loss": (losses.l1_loss, [X, Y, {"reduction": "none"}], abs(X - Y), "nn.functional.l1_loss"),
    "one_hot": (sparse.one_hot, [LABELS, 5], np.eye(5, dtype=int)[LABELS], "nn.functional.one_hot"),
    "embedding": (sparse.embedding, [DENSE_LABELS, X.T.copy()], X.T[DENSE_LABELS], "nn.functional.embedding"),
    **{
        f"nll_loss {r} {i}": (losses.nll_loss, [log_softmax(X, 1), t, {"weight": w, "reduction": r}],
                              nll(log_softmax(X, 1), t, w, reduction=r), "nn.functional.nll_loss")
        for r in ("mean", "sum", "none") for i, (t, w) in enumerate([(LABELS, None), (GAPS, None), (GAPS, W)])
    },
    **{
        f"cross_entropy {i} {r}": (losses.cross_entropy, [x, t, {**o, "reduction": r}], cross_entropy(x, t, reduction=r, **o),
                                   "nn.functional.cross_entropy")
        for r in ("mean", "sum", "none")
        for i, (x, t, o) in {
            "classes": (X, LABELS, {}),
            "ignored": (X, GAPS, {}),
            "another index ignored": (X, LABELS, {"ignore_index": 4}),
            "weights": (X, GAPS, {"weight": W}),
            "smoothing": (X, GAPS, {"label_smoothing": 0.1}),
            "smoothing and weights": (X, GAPS, {"label_smoothing": 0.3, "weight": W}),
            "probabilities": (X, PROBABILITIES, {}),
            "probabilities, smoothing": (X, PROBABILITIES, {"label_smoothing": 0.2}),
            "probabilities, weights": (X, PROBABILITIES, {"weight": W}),
            "positions": (DENSE, DENSE_LABELS, {"weight": W}),
            "probabilities of positions": (DENSE, softmax(DENSE, 1), {}),
        }.items()
    },
    "cross_entropy of one sample": (losses.cross_entropy, [X[0], np.array(2)], -log_softmax(X[0], 0)[2], "nn.functional.cross_entropy"),
    "softmax": (R.softmax, [CUBE, 1], softmax(CUBE, 1), "softmax"),
    "log_softmax": (R.log_softmax, [CUBE, -1], log_softmax(CUBE, -1), "log_softmax"),
    "logsumexp": (R.logsumexp, [CUBE, 1], special.logsumexp(CUBE, 1), "logsumexp"),
    "logsumexp keepdim": (R.logsumexp, [CUBE, (0, 2), True], special.logsumexp(CUBE, (0, 2), keepdims=True), "logsumexp"),
    "sum": (R.sum, [CUBE, (0, -1)], CUBE.sum((0, -1)), "sum"),
    "sum of all": (R.sum, [CUBE], CUBE.sum(), "sum"),
    "sum of ints": (R.sum, [LABELS.astype("i4")], LABELS.sum(), "sum"),
    "prod": (R.prod, [X, 1, True], X.prod(1, keepdims=True), "prod"),
    "mean": (R.mean, [CUBE, 1], CUBE.mean(1), "mean"),
    "var": (R.var, [CUBE, 1], CUBE.var(1, ddof=1), "var"),
    "var of all": (R.var, [CUBE, {"correction": 0}], CUBE.var(), "var"),
    "std": (R.std, [CUBE, (0, 2), {"keepdim": True}], CUBE.std((0, 2), ddof=1, keepdims=True), "std"),
    "amax": (R.amax, [CUBE, (0, 2)], CUBE.max((0, 2)), "amax"),
    "amin": (R.amin, [CUBE, -1, True], CUBE.min(-1, keepdims=True), "amin"),
    "any": (R.any, [X > 2, 1], (X > 2).any(1), "any"),
    "all": (R.all, [X > -2, 0, True], (X > -2).all(0, keepdims=True), "all"),
    "argmax": (R.argmax, [X, 1], X.argmax(1), "argmax"),
    "argmax of all": (R.argmax, [X], X.argmax(), "argmax"),
    "argmin": (R.argmin, [X, 0, True], X.argmin(0, keepdims=True), "argmin"),
    "cumsum": (R.cumsum, [X, 1], X.cumsum(1), "cumsum"),
    "clamp": (P.clamp, [X, -0.5, 0.5], X.clip(-0.5, 0.5), "clamp"),
    "clamp below": (P.clamp, [X, {"min": 0.1}], np.maximum(X, 0.1), "clamp"),
    "round": (P.round, [X, {"decimals": 1}], X.round(1), "round"),
    "div floor": (P.div, [X, Y, {"rounding_mode": "floor"}], np.floor(X / Y), "div"),
    "div trunc": (P.div, [X, Y, {"rounding_mode": "trunc"}], np.trunc(X / Y), "div"),
    "div trunc of ints": (P.div, [LABELS - 3, LABELS + 2, {"rounding_mode": "trunc"}],
                          np.trunc((LABELS - 3) / (LABELS + 2)).astype(int), "div"),
    "add alpha": (P.add, [X, Y, {"alpha": 3}], X + 3 * Y, "add"),
    "sub alpha": (P.sub, [X, Y, {"alpha": 0.5}], X - Y / 2, "sub"),
    "lerp": (P.lerp, [X, Y, 0.25], X + (Y - X) / 4, "lerp"),
    "addcmul": (P.addcmul, [X, Y, Y, {"value": 2}], X + 2 * Y * Y, "addcmul"),
    "addcdiv": (P.addcdiv, [X, Y, Y + 9, {"value": 2}], X + 2 * Y / (Y + 9), "addcdiv"),
    "masked_fill": (P.masked_fill, [X, X > 0, 9.0], np.where(X > 0, 9.0, X), "masked_fill"),
    "isfinite": (P.isfinite, [np.array([1, np.nan, np.inf])], np.array([True, False, False]), "isfinite"),
    "square": (P.square, [X], X * X, "square"),
    "matmul": (L.matmul, [X, Y.T.copy()], X @ Y.T, "matmul"),
    "matmul vectors": (L.matmul, [X[0], Y[0]], X[0] @ Y[0], "matmul"),
    "matmul of a vector and a stack": (L.matmul, [X[0, :3], CUBE], X[0, :3] @ CUBE, "matmul"),
    "matmul of a stack and a vector": (L.matmul, [CUBE, X[:, 0]], CUBE @ X[:, 0], "matmul"),
    "bmm": (L.bmm, [CUBE, CUBE.swapaxes(1, 2).copy()], CUBE @ CUBE.swapaxes(1, 2), "bmm"),
    "mm": (L.mm, [X, Y.T.copy()], X @ Y.T, "mm"),
    "dot": (L.dot, [X[0], Y[0]], X[0] @ Y[0], "dot"),
    "outer": (L.outer, [X[0], Y[1]], np.outer(X[0], Y[1]), "outer"),
    "addmm": (L.addmm, [W[:4], X, Y.T.copy(), {"beta": 2, "alpha": 3}], 2 * W[:4] + 3 * X @ Y.T, "addmm"),
    "linear": (L.linear, [X, Y, W[:4]], X @ Y.T + W[:4], "nn.functional.linear"),
    "linear of a vector": (L.linear, [X[0], Y], X[0] @ Y.T, "nn.functional.linear"),
    "linear of a stack": (L.linear, [CUBE, Y[:, :4].copy()], CUBE @ Y[:, :4].T, "nn.functional.linear"),
}  # fmt: skip


def split_keywords(args):
    return (args[:-1], args[-1]) if isinstance(args[-1], dict) else (args, {})


def wrapped(args, wrap):
    positional, keywords = split_keywords(args)
    here = lambda a: wrap(a) if isinstance(a, np.ndarray) else a  # noqa: E731
    return [here(a) for a in positional], {k: here(v) for k, v in keywords.items()}


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name):
    function, args, want, _ = CASES[name]
    positional, keywords = wrapped(args, lambda a: Tensor(a.copy()))
    out = function(*positional, **keywords)
    want = np.asarray(want)
    assert out.shape == want.shape and out.dtype.numpy == want.dtype
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    torch = pytest.importorskip("torch")
    function, args, _, path = CASES[name]
    other = torch
    for part in path.split("."):
        other = getattr(other, part)
    floating = lambda a: a.dtype == np.float64  # noqa: E731
    positional, keywords = wrapped(args, lambda a: Tensor(a.copy(), floating(a)))
    positional_t, keywords_t = wrapped(args, lambda a: torch.tensor(a, requires_grad=floating(a)))
    # weights of a loss
    keywords_t = {k: v.detach() if hasattr(v, "detach") else v for k, v in keywords_t.items()}
    out, want = function(*positional, **keywords), other(*positional_t, **keywords_t)
    assert tuple(want.shape) == out.shape and str(want.dtype) == f"torch.{out.dtype.name}"
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-11, atol=1e-13)
    if want.requires_grad:
        weights = np.random.default_rng(1).uniform(0.5, 1.5, out.shape)
        leaves = [
            (a, b)
            for a, b in zip(positional, positional_t, strict=True)
            if isinstance(a, Tensor) and a.requires_grad
        ]
        found = grad([out], [a for a, _ in leaves], [Tensor(np.asarray(weights))], allow_unused=True)
        wanted = torch.autograd.grad(
            [want], [b for _, b in leaves], [torch.tensor(weights)], allow_unused=True
        )
        for one, theirs in zip(found, wanted, strict=True):
            assert (one is None) == (theirs is None)
            if one is not None:
                np.testing.assert_allclose(one.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)


ERRORS = {
    "mean of ints": (lambda: R.mean(tensor([1, 2])), RuntimeError, "must be floating, got int64"),
    "gelu": (lambda: A.gelu(tensor([1.0]), "fast"), RuntimeError, "either none or tanh, got 'fast'"),
    "layer_norm": (lambda: normalization.layer_norm(zeros(2, 3), (4,)), RuntimeError, r"normalized_shape=\[4\]"),
    "reduction": (lambda: losses.mse_loss(zeros(2), zeros(2), reduction="all"), ValueError, "all is not a valid value"),
    "rounding_mode": (lambda: P.div(zeros(2), zeros(2), rounding_mode="up"), RuntimeError, "got 'up'"),
    "clamp": (lambda: P.clamp(zeros(2)), RuntimeError, "at least one of 'min' or 'max'"),
    "matmul of a number": (lambda: L.matmul(tensor(1.0), zeros(2)), RuntimeError, "at least 1D, but they are 0D and 1D"),
    "matmul": (lambda: L.matmul(zeros(2, 3), zeros(2, 3)), RuntimeError, r"\(2x3 and 2x3\)"),
    "matmul dtypes": (lambda: L.matmul(zeros(2, 2), zeros(2, 2).double()), RuntimeError, "same dtype, but got: float32 != float64"),
    "mm": (lambda: L.mm(zeros(2), zeros(2, 2)), RuntimeError, "expected 2D tensors, got 1D, 2D"),
    "add": (lambda: zeros(2) + zeros(3), RuntimeError, r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
    "amax of nothing": (lambda: R.amax(zeros(0), 0), IndexError, "non-zero size"),
    "dim": (lambda: R.sum(zeros(2), 1), IndexError, r"range of \[-1, 0\], but got 1"),
    "dim twice": (lambda: R.sum(zeros(2, 2), (0, -2)), RuntimeError, "dim appears multiple times"),
    "an integer to a negative power": (lambda: P.pow(tensor([2]), -1), RuntimeError, "Integers to negative integer powers"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    action, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        action()


def test_half_precision_accumulates_in_float32():
    for dtype in ("float16", "bfloat16"):
        x = (zeros(4096) + 0.1).to(dtype)
        exact = 4096 * float(x[0].item())
        assert abs(x.sum().item() - exact) / exact < 0.01  # one by one it would stop growing at 256 or at 32
        assert x.sum().dtype.name == dtype and x.cumsum(0).dtype.name == dtype
        assert abs(x.cumsum(0)[-1].item() - exact) / exact < 0.01
        row, column = x.reshape(1, 4096), x.reshape(4096, 1)
        assert abs((row @ column).item() - exact * x[0].item()) / exact < 0.01
        assert (row @ column).dtype.name == dtype


def test_softmax_of_large_numbers_and_of_minus_infinity():
    x = tensor([[1000.0, 1000.0], [-1000.0, 0.0], [float("-inf"), 0.0]])
    assert R.softmax(x, 1).tolist() == [[0.5, 0.5], [0, 1], [0, 1]]
    assert R.log_softmax(x, 1)[1].tolist() == [-1000, 0]
    assert R.logsumexp(tensor([float("-inf")] * 2), 0).item() == float("-inf")
    assert A.softplus(tensor([1000.0, -1000.0])).tolist() == [1000, 0]
    assert np.allclose(losses.cross_entropy(x[:2], tensor([0, 1])).item(), np.log(2) / 2)


def test_variance_is_sound_far_from_zero():
    x = tensor(np.array([1e8, 1e8 + 1, 1e8 + 2]))
    assert x.var().item() == 1.0 and tensor(np.array([5.0])).var().numpy() != 0  # n - 1 = 0: NaN, as in torch
    assert np.isnan(tensor(np.array([5.0])).var().item())


def test_nan_and_ties():
    nan = float("nan")
    x = tensor([[1.0, nan, 3.0], [2.0, 2.0, 1.0]])
    assert (
        np.isnan(x.amax(1).tolist()[0]) and x.argmax(1).tolist() == [1, 0] and x.argmin(1).tolist() == [1, 2]
    )
    assert np.isnan(P.clamp(x, 0, 1).tolist()[0][1]) and np.isnan(A.relu(x).tolist()[0][1])
