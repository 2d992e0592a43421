"""Losses: values against formulas in NumPy and against torch, gradients by finite differences, modules, errors.

Input: small float64 arrays away from kinks. The torch column runs where torch is installed.
"""

import itertools
import math

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.creation import tensor
from stage0_eager.nn import functional as F
from stage0_eager.tests.numeric import check_gradients, tensors, value

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
P, T = RNG.uniform(0.1, 0.9, (4, 3)), RNG.uniform(0.1, 0.9, (4, 3))
W = RNG.uniform(0.5, 1.5, 3)
SIGNS = np.array([[1, -1, 1]] * 2 + [[-1, -1, 1]] * 2)
ROW_SIGNS = np.array([1, -1, 1, -1])


def expit(x):
    return 1 / (1 + np.exp(-x))


def bce(p, t, weight=1.0):
    return -(t * np.log(p) + (1 - t) * np.log(1 - p)) * weight


def cosine(a, b):
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def distance(a, b, p=2.0):
    return (np.abs(a - b + 1e-6) ** p).sum(-1) ** (1 / p)


def triplet(a, b, c, margin=1.0, p=2.0, swap=False):
    far = np.minimum(distance(a, c, p), distance(b, c, p)) if swap else distance(a, c, p)
    return np.maximum(distance(a, b, p) - far + margin, 0)


D = np.abs(X - Y)
# name, arguments, options, the elementwise loss
CASES = [
    ("binary_cross_entropy", (P, T), {}, bce(P, T)),
    ("binary_cross_entropy", (P, T, W), {}, bce(P, T, W)),
    ("binary_cross_entropy_with_logits", (X, T), {}, bce(expit(X), T)),
    ("binary_cross_entropy_with_logits", (X, T), {"pos_weight": W}, -(W * T * np.log(expit(X)) + (1 - T) * np.log(expit(-X)))),
    ("kl_div", (X, P), {}, P * (np.log(P) - X)),
    ("kl_div", (X, Y), {"log_target": True}, np.exp(Y) * (Y - X)),
    ("smooth_l1_loss", (X, Y), {}, np.where(D < 1, D**2 / 2, D - 0.5)),
    ("smooth_l1_loss", (X, Y), {"beta": 0.3}, np.where(D < 0.3, D**2 / 0.6, D - 0.15)),
    ("smooth_l1_loss", (X, Y), {"beta": 0.0}, D),
    ("huber_loss", (X, Y), {"delta": 0.7}, np.where(D <= 0.7, D**2 / 2, 0.7 * (D - 0.35))),
    ("cosine_embedding_loss", (X, Y, ROW_SIGNS), {"margin": 0.1}, np.where(ROW_SIGNS == 1, 1 - cosine(X, Y), np.maximum(cosine(X, Y) - 0.1, 0))),
    ("hinge_embedding_loss", (X, SIGNS), {"margin": 0.8}, np.where(SIGNS == 1, X, np.maximum(0.8 - X, 0))),
    ("margin_ranking_loss", (X, Y, SIGNS), {"margin": 0.2}, np.maximum(-SIGNS * (X - Y) + 0.2, 0)),
    ("triplet_margin_loss", (X, Y, P), {}, triplet(X, Y, P)),
    ("triplet_margin_loss", (X, Y, P), {"swap": True, "p": 3, "margin": 2.0}, triplet(X, Y, P, 2.0, 3.0, True)),
    ("gaussian_nll_loss", (X, Y, P), {}, (np.log(P) + D**2 / P) / 2),
    ("gaussian_nll_loss", (X, Y, P[:, :1]), {"full": True}, (np.log(P[:, :1]) + D**2 / P[:, :1]) / 2 + np.log(2 * np.pi) / 2),
    ("poisson_nll_loss", (X, T * 4), {}, np.exp(X) - T * 4 * X),
    ("poisson_nll_loss", (P, T), {"log_input": False}, P - T * np.log(P + 1e-8)),
    ("soft_margin_loss", (X, SIGNS), {}, np.log1p(np.exp(-SIGNS * X))),
]  # fmt: skip
IDS = [f"{case[0]}-{i}" for i, case in enumerate(CASES)]


def prepared(options, make):
    return {k: make(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}


@pytest.mark.parametrize("name, args, options, loss", CASES, ids=IDS)
def test_value_and_reductions(name, args, options, loss):
    options = prepared(options, Tensor)
    for reduction, expected in (("none", loss), ("sum", loss.sum()), ("mean", loss.mean())):
        got = value(getattr(F, name)(*tensors(args), **options, reduction=reduction))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="other is not a valid value for reduction"):
        getattr(F, name)(*tensors(args), **options, reduction="other")


@pytest.mark.parametrize("name, args, options, loss", CASES, ids=IDS)
def test_gradient(name, args, options, loss):
    check_gradients(getattr(F, name), args, **prepared(options, Tensor), reduction="none")


@pytest.mark.parametrize("name, args, options, loss", CASES, ids=IDS)
def test_torch_agrees(name, args, options, loss):
    torch = pytest.importorskip("torch")
    given = [torch.tensor(a) for a in args]
    expected = getattr(torch.nn.functional, name)(*given, **prepared(options, torch.tensor), reduction="none")
    np.testing.assert_allclose(loss, expected.numpy(), rtol=1e-9, atol=1e-12)


def test_edges():
    zero_one = Tensor(np.array([0.0, 1.0]))
    # the logarithm is held
    assert F.binary_cross_entropy(zero_one, Tensor(np.array([1.0, 0.0]))).item() == 100
    far = Tensor(np.array([1000.0, -1000.0]))
    assert F.binary_cross_entropy_with_logits(far, zero_one, reduction="none").tolist() == [1000, 1000]
    at_zero = Tensor(np.zeros(1), requires_grad=True)
    F.binary_cross_entropy_with_logits(at_zero, Tensor(np.zeros(1))).backward()
    assert at_zero.grad.tolist() == [0.5]
    none = F.kl_div(Tensor(np.zeros(2)), Tensor(np.array([0.0, 1.0])), reduction="none")
    assert none.tolist() == [0, 0]  # 0 log 0 is 0
    batch = F.kl_div(*tensors((X, P)), reduction="batchmean").item()
    assert batch == pytest.approx((P * (np.log(P) - X)).sum() / 4)


def test_similarity_and_distance():
    np.testing.assert_allclose(value(F.cosine_similarity(*tensors((X, Y)))), cosine(X, Y), rtol=1e-12)
    np.testing.assert_allclose(value(F.cosine_similarity(*tensors((X, Y[:1])), dim=-1)), cosine(X, Y[:1]))
    np.testing.assert_allclose(value(F.pairwise_distance(*tensors((X, Y)), p=1)), distance(X, Y, 1.0))
    check_gradients(F.cosine_similarity, (X, Y))
    x = Tensor(np.zeros((2, 3)), requires_grad=True)
    F.cosine_similarity(x, Tensor(X[:2])).sum().backward()
    assert np.isfinite(value(x.grad)).all()


def test_modules_are_their_functions():
    x, y, p, t = tensors((X, Y, P, T))
    pairs = [
        (nn.L1Loss("sum"), F.l1_loss, (x, y), {"reduction": "sum"}),
        (nn.BCELoss(), F.binary_cross_entropy, (p, t), {}),
        (nn.BCEWithLogitsLoss(pos_weight=Tensor(W)), F.binary_cross_entropy_with_logits, (x, t), {"pos_weight": Tensor(W)}),
        (nn.KLDivLoss("batchmean"), F.kl_div, (x, p), {"reduction": "batchmean"}),
        (nn.SmoothL1Loss(beta=0.5), F.smooth_l1_loss, (x, y), {"beta": 0.5}),
        (nn.HuberLoss(delta=0.5), F.huber_loss, (x, y), {"delta": 0.5}),
        (nn.CosineSimilarity(dim=0), F.cosine_similarity, (x, y), {"dim": 0}),
        (nn.PairwiseDistance(1.0), F.pairwise_distance, (x, y), {"p": 1.0}),
        (nn.TripletMarginLoss(swap=True), F.triplet_margin_loss, (x, y, p), {"swap": True}),
        (nn.GaussianNLLLoss(full=True), F.gaussian_nll_loss, (x, y, p), {"full": True}),
        (nn.PoissonNLLLoss(full=True), F.poisson_nll_loss, (x, t * 4), {"full": True}),
        (nn.MarginRankingLoss(0.1), F.margin_ranking_loss, (x, y, Tensor(SIGNS)), {"margin": 0.1}),
        (nn.HingeEmbeddingLoss(0.5), F.hinge_embedding_loss, (x, Tensor(SIGNS)), {"margin": 0.5}),
        (nn.CosineEmbeddingLoss(0.5), F.cosine_embedding_loss, (x, y, Tensor(ROW_SIGNS)), {"margin": 0.5}),
        (nn.SoftMarginLoss(), F.soft_margin_loss, (x, Tensor(SIGNS)), {}),
    ]  # fmt: skip
    for module, function, args, options in pairs:
        assert module(*args).tolist() == function(*args, **options).tolist(), module
    assert list(nn.BCEWithLogitsLoss(pos_weight=Tensor(W)).state_dict()) == ["pos_weight"]
    classes = Tensor(np.array([0, 2, 1, 0]))
    assert nn.NLLLoss()(F.log_softmax(x, 1), classes).tolist() == F.cross_entropy(x, classes).tolist()


def test_errors():
    x, y = tensors((X, Y))
    with pytest.raises(ValueError, match="Using a target size"):
        F.binary_cross_entropy(x, y[0])
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(x, y[0])
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, y, beta=-1)
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        F.huber_loss(x, y, delta=0)
    with pytest.raises(RuntimeError, match="same dimension"):
        F.margin_ranking_loss(x, y, y[0])
    with pytest.raises(ValueError, match="var is of incorrect size"):
        F.gaussian_nll_loss(x, y, y[:2])


@pytest.mark.parametrize("name", ["binary_cross_entropy", "binary_cross_entropy_with_logits"])
def test_log_losses_and_their_gradients_at_the_edges_are_torchs(name):
    torch = pytest.importorskip("torch")
    places = [0.0, 1.0, 0.5] if name == "binary_cross_entropy" else [0.0, 2.0, 50.0, math.inf, -math.inf]
    grid = itertools.product(places, [0.0, 1.0, 0.25], [math.inf, -math.inf, math.nan, 1.0, 0.0])
    arrays = [np.array(column) for column in zip(*grid, strict=True)]
    found = []
    for functional, make in ((F, tensor), (torch.nn.functional, torch.tensor)):
        x, target, weight = map(make, arrays)
        loss = getattr(functional, name)(x.requires_grad_(), target, weight, reduction="none")
        loss.sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want)
