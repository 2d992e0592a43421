"""Margin losses, CTC, embedding bags, local response norm, gates that draw, Transformer, and initial values.

Input: small tensors. References are loops in NumPy that follow the definitions; torch is compared with where it is
installed.
"""

import itertools
import math

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import creation
from stage0_eager.functions.creation import tensor
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.random.generator import manual_seed
from stage0_eager.tests.numeric import check_gradients, tensors, value

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 4)), np.array([1, 3, 0])
LABELS = np.array([[1, 3, -1, 2], [0, -1, 1, 1], [-1, 0, 1, 2]])
WEIGHT = RNG.uniform(0.5, 2, 4)


def multi_margin(x, y, p=1, margin=1.0, weight=None):
    out = []
    for row, k in zip(x, y, strict=True):
        w = 1 if weight is None else weight[k]
        out.append(sum(w * max(0, margin - row[k] + v) ** p for i, v in enumerate(row) if i != k) / len(row))
    return np.array(out)


def multilabel_margin(x, labels):
    out = []
    for row, given in zip(x, labels, strict=True):
        given = list(itertools.takewhile(lambda k: k >= 0, given))
        terms = [max(0, 1 - row[k] + row[i]) for k in given for i in range(len(row)) if i not in given]
        out.append(sum(terms) / len(row))
    return np.array(out)


def soft_margin(x, t, weight=None):
    loss = t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))
    return (loss * (1 if weight is None else weight)).mean(-1)


def response_norm(x, size, alpha, beta, k):
    out = np.zeros_like(x)
    for channel in range(x.shape[1]):
        near = range(max(0, channel - size // 2), min(x.shape[1], channel + (size - 1) // 2 + 1))
        total = sum(x[:, i] ** 2 for i in near)
        out[:, channel] = x[:, channel] / (k + alpha / size * total) ** beta
    return out


IMAGE = RNG.normal(size=(2, 5, 3))
PROBABLE = RNG.uniform(size=(3, 4))
CASES = {
    "multi_margin_loss": (F.multi_margin_loss, multi_margin, [X, Y], {}),
    "multi_margin_loss squared": (F.multi_margin_loss, multi_margin, [X, Y], {"p": 2, "margin": 0.5}),
    "multi_margin_loss weighted": (lambda x, y, w, **o: F.multi_margin_loss(x, y, weight=w, **o),
                                   lambda x, y, w: multi_margin(x, y, weight=w), [X, Y, WEIGHT], {}),
    "multilabel_margin_loss": (F.multilabel_margin_loss, multilabel_margin, [X, LABELS], {}),
    "multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, soft_margin, [X, PROBABLE], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_margin_losses(name):
    function, reference, args, options = CASES[name]
    want = reference(*args, **options)
    for reduction, reduce in {"none": lambda v: v, "sum": np.sum, "mean": np.mean}.items():
        got = function(*tensors(args), reduction=reduction, **options)
        np.testing.assert_allclose(value(got), reduce(want), rtol=1e-12)
    check_gradients(function, args, **options)


def test_losses_of_one_sample_and_what_they_refuse():
    assert F.multi_margin_loss(tensor([0.1, 0.2, 0.4]), tensor([2])).item() == pytest.approx((0.7 + 0.8) / 3)
    one = F.multilabel_margin_loss(tensor([0.1, 0.2, 0.4, 0.8]), tensor([3, 0, -1, 1]))
    assert one.item() == pytest.approx(0.85)
    with pytest.raises(ValueError, match="only p == 1 and p == 2"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        F.multilabel_margin_loss(tensor([[0.1]]), tensor([0]))


def test_triplets_with_a_distance_of_ones_own():
    a, p, n = (Tensor(RNG.normal(size=(4, 3))) for _ in range(3))
    l1 = lambda x, y: (x - y).abs().sum(1)  # noqa: E731
    want = np.maximum(value(l1(a, p)) - np.minimum(value(l1(a, n)), value(l1(p, n))) + 0.5, 0).mean()
    got = nn.TripletMarginWithDistanceLoss(distance_function=l1, margin=0.5, swap=True)(a, p, n)
    assert got.item() == pytest.approx(want)
    assert nn.TripletMarginWithDistanceLoss()(a, p, n).item() == pytest.approx(
        F.triplet_margin_loss(a, p, n).item()
    )


# ---- CTC -------------------------------------------------------------------------------------------------------


def collapsed(path, blank):
    return [k for k, _ in itertools.groupby(path) if k != blank]


def ctc_by_hand(log_probs, labels, frames, blank):
    """-log of the sum over every path that reads as the labels."""
    classes = log_probs.shape[1]
    total = -np.inf
    for path in itertools.product(range(classes), repeat=frames):
        if collapsed(path, blank) == list(labels):
            total = np.logaddexp(total, sum(log_probs[t, k] for t, k in enumerate(path)))
    return -total


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


SCORES = RNG.normal(size=(5, 3, 3))
TARGETS = np.array([[1, 2], [2, 2], [1, 0]])


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_is_the_sum_over_all_paths(blank):
    labels = np.where(blank == TARGETS, (TARGETS + 1) % 3, TARGETS)
    frames, counts = [5, 4, 3], [2, 2, 1]
    log_probs = log_softmax(SCORES)
    want = [
        ctc_by_hand(log_probs[:, i], labels[i, :n], f, blank)
        for i, (f, n) in enumerate(zip(frames, counts, strict=True))
    ]
    loss = lambda x, **o: F.ctc_loss(F.log_softmax(x, -1), tensor(labels), frames, counts, blank, **o)  # noqa: E731
    np.testing.assert_allclose(value(loss(Tensor(SCORES), reduction="none")), want, rtol=1e-12)
    assert loss(Tensor(SCORES), reduction="sum").item() == pytest.approx(sum(want))
    assert loss(Tensor(SCORES)).item() == pytest.approx(
        np.mean([w / n for w, n in zip(want, counts, strict=True)])
    )
    check_gradients(loss, [SCORES])
    joined = tensor(np.concatenate([labels[i, :n] for i, n in enumerate(counts)]))
    together = F.ctc_loss(Tensor(log_probs), joined, tensor(frames), tensor(counts), blank, reduction="none")
    np.testing.assert_allclose(value(together), want, rtol=1e-12)
    alone = F.ctc_loss(
        Tensor(log_probs[:, 0]), tensor(labels[0]), tensor(5), tensor(2), blank, reduction="none"
    )
    assert alone.shape == () and alone.item() == pytest.approx(want[0])


def test_ctc_of_what_cannot_be_aligned():
    x = Tensor(SCORES[:2], True)  # two frames cannot hold 2, blank, 2
    arguments = (tensor(TARGETS), [2, 2, 2], [2, 2, 1])
    loss = F.ctc_loss(F.log_softmax(x, -1), *arguments, reduction="none")
    assert np.isinf(value(loss)).tolist() == [False, True, False]
    loss = nn.CTCLoss(zero_infinity=True)(F.log_softmax(x, -1), *arguments)
    assert math.isfinite(loss.item()) and np.isfinite(value(grad([loss], [x])[0])).all()
    empty = F.ctc_loss(F.log_softmax(x, -1), tensor(TARGETS), [2, 1, 1], [0, 0, 0], reduction="none")
    np.testing.assert_allclose(value(empty)[1], -log_softmax(SCORES)[0, 1, 0])
    with pytest.raises(RuntimeError, match="at most 2"):
        F.ctc_loss(x, tensor(TARGETS), [3, 2, 2], [1, 1, 1])


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_lengths_that_do_not_fit_is_torchs(zero_infinity):
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(0).standard_normal((5, 4, 4))
    for frames, counts in itertools.product([[2, 5, 0, 3], [0, 0, 5, 2]], [[3, 0, 0, 2], [0, 3, 3, 1]]):
        found = []
        for lib, make in ((F, tensor), (torch.nn.functional, torch.tensor)):
            x = make(scores).requires_grad_()
            rows = [make(np.array(a)) for a in ([[1, 1, 2]] * 4, frames, counts)]
            loss = lib.ctc_loss(lib.log_softmax(x, -1), *rows, reduction="none", zero_infinity=zero_infinity)
            loss.sum().backward()
            found.append((loss.detach().numpy(), x.grad.numpy()))
        for got, want in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


# ---- bags, norms, gates --------------------------------------------------------------------------------------------

TABLE = RNG.normal(size=(6, 2))
BAG, STARTS = np.array([1, 5, 2, 2, 0]), np.array([0, 2, 2, 4])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bags(mode, padding):
    def reduced(places):
        rows = TABLE[[i for i in places if i != padding]]
        return getattr(np, mode)(rows, 0) if len(rows) else np.zeros(2)

    want = np.stack([reduced(BAG[a:b]) for a, b in zip(STARTS, [*STARTS[1:], 5], strict=True)])
    flat = lambda w: F.embedding_bag(tensor(BAG), w, tensor(STARTS), mode=mode, padding_idx=padding)  # noqa: E731
    np.testing.assert_allclose(value(flat(Tensor(TABLE))), want)
    check_gradients(flat, [TABLE])
    last = F.embedding_bag(
        tensor(BAG),
        Tensor(TABLE),
        tensor([*STARTS, 5]),
        mode=mode,
        include_last_offset=True,
        padding_idx=padding,
    )
    np.testing.assert_allclose(value(last), want)
    square = np.array([[1, 2, 3], [4, 2, 2]])
    got = F.embedding_bag(tensor(square), Tensor(TABLE), mode=mode, padding_idx=padding)
    np.testing.assert_allclose(value(got), np.stack([reduced(row) for row in square]))


def test_weighted_bags_and_the_module():
    w = RNG.uniform(size=5)
    got = F.embedding_bag(
        tensor(BAG), Tensor(TABLE), tensor([0, 2]), mode="sum", per_sample_weights=Tensor(w)
    )
    np.testing.assert_allclose(value(got), [w[:2] @ TABLE[BAG[:2]], w[2:] @ TABLE[BAG[2:]]])
    layer = nn.EmbeddingBag(6, 2, padding_idx=-1)
    assert layer.weight[5].tolist() == [0, 0] and layer(tensor([[1, 2]])).shape == (1, 2)
    assert repr(layer) == "EmbeddingBag(6, 2, mode='mean')"
    for bad in (
        lambda: F.embedding_bag(tensor(BAG), Tensor(TABLE)),
        lambda: layer(tensor([[1]]), tensor([0])),
    ):
        with pytest.raises(ValueError, match="2D"):
            bad()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_local_response_norm(size):
    function = lambda x: F.local_response_norm(x, size, 0.1, 0.75, 2.0)  # noqa: E731
    np.testing.assert_allclose(
        value(function(Tensor(IMAGE))), response_norm(IMAGE, size, 0.1, 0.75, 2.0), rtol=1e-12
    )
    check_gradients(function, [IMAGE])
    assert nn.LocalResponseNorm(size)(Tensor(IMAGE)).shape == IMAGE.shape


def test_gates_that_draw():
    manual_seed(0)
    x = tensor([[-2.0, 3.0]] * 2000)
    drawn = value(F.rrelu(x, 0.1, 0.3, True))
    assert (
        (drawn[:, 1] == 3).all() and -0.6 <= drawn[:, 0].min() < -0.55 and -0.25 < drawn[:, 0].max() <= -0.2
    )
    assert F.rrelu(x).tolist()[0] == pytest.approx([-2 * 11 / 48, 3.0])
    assert nn.RReLU(0.2, 0.4).eval()(x).tolist()[0] == pytest.approx([-0.6, 3.0])
    y = x.clone()
    assert F.rrelu(y, inplace=True) is y and y.tolist()[0] == pytest.approx([-2 * 11 / 48, 3.0])
    logits = Tensor(np.log(np.array([[0.2, 0.3, 0.5]] * 4000)), True)
    hard = F.gumbel_softmax(logits, hard=True)
    np.testing.assert_allclose(value(hard).mean(0), [0.2, 0.3, 0.5], atol=0.03)
    assert set(np.unique(np.round(value(hard), 12))) == {0.0, 1.0}
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(value(soft).sum(1), 1, rtol=1e-6)
    (g,) = grad([(hard * tensor([1.0, 2.0, 3.0])).sum()], [logits])
    assert np.isfinite(value(g)).all() and abs(value(g)).max() > 0


def test_functions_written_into_their_input():
    x = tensor([-1.0, 2.0])
    assert F.relu_(x) is x and x.tolist() == [0, 2] and F.hardtanh_(x).tolist() == [0, 1]
    assert F.leaky_relu_(tensor([-1.0]), 0.5).tolist() == [-0.5] and F.threshold_(
        tensor([1.0]), 2.0, 7.0
    ).tolist() == [7]


def test_transformer():
    manual_seed(0)
    model = nn.Transformer(8, 2, 2, 1, 16, dropout=0.0, batch_first=True)
    src, tgt = creation.randn(2, 5, 8), creation.randn(2, 3, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist()[1] == [0, 0, -math.inf]
    out = model(src, tgt, tgt_mask=mask)
    later = tgt.clone()
    later[:, 2] = 0
    np.testing.assert_allclose(value(model(src, later, tgt_mask=mask))[:, :2], value(out)[:, :2], rtol=1e-6)
    want = model.decoder(tgt, model.encoder(src), mask)
    np.testing.assert_allclose(value(out), value(want))
    with pytest.raises(RuntimeError, match="feature number"):
        model(creation.randn(2, 5, 4), tgt)


def test_initial_values_of_sparse_and_identity_weights():
    w = creation.ones(10, 4)
    init.sparse_(w, 0.25)
    assert (value(w) == 0).sum(0).tolist() == [3] * 4 and abs(value(w)).max() < 0.1
    x = creation.randn(1, 4, 5)
    weight = init.dirac_(creation.zeros(4, 2, 3), groups=2)
    np.testing.assert_allclose(value(F.conv1d(x, weight, padding=1, groups=2)), value(x))
    for name in ("uniform", "normal", "xavier_uniform", "kaiming_normal", "orthogonal", "eye"):
        assert getattr(init, name)(creation.zeros(3, 3)).shape == (3, 3)
    with pytest.raises(ValueError, match="divisible by groups"):
        init.dirac_(creation.zeros(3, 2, 3), groups=2)


def test_against_torch():
    torch = pytest.importorskip("torch")
    TF = torch.nn.functional
    t = lambda a: torch.from_numpy(np.asarray(a))  # noqa: E731
    x = t(SCORES).requires_grad_()
    frames, counts = [5, 4, 3], [2, 2, 1]
    theirs = TF.ctc_loss(TF.log_softmax(x, -1), t(TARGETS), frames, counts, reduction="mean")
    theirs.backward()
    mine = Tensor(SCORES.copy(), True)
    ours = F.ctc_loss(F.log_softmax(mine, -1), tensor(TARGETS), frames, counts)
    ours.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-10)
    np.testing.assert_allclose(value(mine.grad), x.grad.numpy(), rtol=1e-8, atol=1e-12)
    for name, (function, _, args, options) in CASES.items():
        if "weighted" not in name:
            want = getattr(TF, name.split()[0])(*map(t, args), **options)
            assert function(*tensors(args), **options).item() == pytest.approx(want.item(), rel=1e-12)
    for mode in ("sum", "mean", "max"):
        want = TF.embedding_bag(t(BAG), t(TABLE), t(STARTS), mode=mode)
        np.testing.assert_allclose(
            value(F.embedding_bag(tensor(BAG), Tensor(TABLE), tensor(STARTS), mode=mode)), want.numpy()
        )
    want = TF.local_response_norm(t(IMAGE), 3, 0.1)
    np.testing.assert_allclose(value(F.local_response_norm(Tensor(IMAGE), 3, 0.1)), want.numpy(), rtol=1e-12)
