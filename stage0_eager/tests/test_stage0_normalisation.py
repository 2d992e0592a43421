"""Batch, group, instance and RMS norm against NumPy and torch; running statistics, gradients, names, errors.

Input: small float64 arrays and modules. The torch column runs where torch is installed.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions.creation import randn, tensor
from stage0_eager.namespaces import linalg
from stage0_eager.nn import functional as F
from stage0_eager.tests.numeric import check_gradients, tensors, value
from stage_contracts.dtype import DTYPES

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4, 2, 3))
W, B = RNG.uniform(0.5, 1.5, 4), RNG.normal(size=4)


def scaled(x, dims, eps=1e-5):
    return (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + eps)


def affine(x):
    return x * W.reshape(1, 4, 1, 1) + B.reshape(1, 4, 1, 1)


def test_values_against_numpy():
    x, w, b = tensors((X, W, B))
    batch = F.batch_norm(x, None, None, w, b, training=True)
    np.testing.assert_allclose(value(batch), affine(scaled(X, (0, 2, 3))), rtol=1e-10)
    mean, var = RNG.normal(size=4), RNG.uniform(0.5, 2, 4)
    fixed = F.batch_norm(x, *tensors((mean, var)), w, b)
    expected = affine((X - mean.reshape(1, 4, 1, 1)) / np.sqrt(var + 1e-5).reshape(1, 4, 1, 1))
    np.testing.assert_allclose(value(fixed), expected, rtol=1e-10)
    np.testing.assert_allclose(
        value(F.instance_norm(x, weight=w, bias=b)), affine(scaled(X, (2, 3))), rtol=1e-10
    )
    grouped = affine(scaled(X.reshape(3, 2, -1), (2,)).reshape(X.shape))
    np.testing.assert_allclose(value(F.group_norm(x, 2, w, b)), grouped, rtol=1e-10)
    rms = X / np.sqrt((X * X).mean((2, 3), keepdims=True) + 1e-6)
    np.testing.assert_allclose(value(F.rms_norm(x, (2, 3), eps=1e-6)), rms, rtol=1e-10)
    for p, size in ((2.0, np.sqrt((X * X).sum(1, keepdims=True))), (1, np.abs(X).sum(1, keepdims=True))):
        np.testing.assert_allclose(value(F.normalize(x, p)), X / size, rtol=1e-10)


def test_gradients():
    small = X[:2, :, :1]
    check_gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (small, W, B))
    check_gradients(lambda x, w, b: F.batch_norm(x, Tensor(B), Tensor(W), w, b), (small, W, B))
    check_gradients(lambda x, w, b: F.instance_norm(x, None, None, w, b), (small, W, B))
    check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), (small, W, B))
    check_gradients(lambda x, w: F.rms_norm(x, (3,), w), (small, W[:3]))
    check_gradients(F.normalize, (small[:, :, 0],))


@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
def test_running_statistics(momentum):
    norm = nn.BatchNorm2d(4, momentum=momentum).double()
    mean, var = np.zeros(4), np.ones(4)
    for step in range(1, 4):
        x = RNG.normal(step, 2, size=(3, 4, 2, 3))
        norm(Tensor(x))
        share = 1 / step if momentum is None else momentum
        mean = mean * (1 - share) + x.mean((0, 2, 3)) * share
        var = var * (1 - share) + x.var((0, 2, 3), ddof=1) * share
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(norm.running_var.numpy(), var, rtol=1e-12)
    assert norm.num_batches_tracked.item() == 3
    norm.eval()
    before = norm.running_mean.tolist()
    out = norm(Tensor(X))
    expected = (X - mean.reshape(1, 4, 1, 1)) / np.sqrt(var + 1e-5).reshape(1, 4, 1, 1)
    np.testing.assert_allclose(value(out), expected, rtol=1e-10)
    assert norm.running_mean.tolist() == before and norm.num_batches_tracked.item() == 3
    norm.reset_running_stats()
    assert norm.running_var.tolist() == [1] * 4 and norm.num_batches_tracked.item() == 0


def test_state_names_are_torchs():
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    for norm in (
        nn.BatchNorm1d(3),
        nn.BatchNorm3d(3),
        nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    ):
        assert list(norm.state_dict()) == names
    assert list(nn.BatchNorm2d(3, affine=False).state_dict()) == names[2:]
    assert list(nn.InstanceNorm1d(3).state_dict()) == []
    assert list(nn.GroupNorm(1, 3).state_dict()) == ["weight", "bias"]
    assert list(nn.RMSNorm(3).state_dict()) == ["weight"]
    untracked = nn.BatchNorm2d(4, track_running_stats=False).double().eval()  # the batch's own, even in eval
    np.testing.assert_allclose(value(untracked(Tensor(X))), scaled(X, (0, 2, 3)), rtol=1e-10)
    assert repr(nn.BatchNorm2d(3)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)"
    )


def test_instance_norm_tracks_and_takes_one_instance():
    norm = nn.InstanceNorm2d(4, track_running_stats=True).double()
    norm(Tensor(X))
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * X.mean((0, 2, 3)), rtol=1e-10)
    unbiased = X.var((2, 3), ddof=1).mean(0)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * unbiased, rtol=1e-10)
    one = nn.InstanceNorm2d(4)(Tensor(X[0]))
    np.testing.assert_allclose(value(one), scaled(X, (2, 3))[0], rtol=1e-10)


@pytest.mark.parametrize("name, args, shape", [
    ("BatchNorm1d", (4,), (5, 4)), ("BatchNorm1d", (4,), (5, 4, 3)), ("BatchNorm2d", (4, 1e-3, None), (3, 4, 2, 2)),
    ("BatchNorm3d", (4,), (3, 4, 2, 2, 2)), ("GroupNorm", (2, 4), (3, 4, 5)), ("RMSNorm", (3,), (2, 3)),
    ("InstanceNorm1d", (4, 1e-5, 0.2, True, True), (3, 4, 6)), ("InstanceNorm3d", (4,), (2, 4, 2, 2, 2)),
])  # fmt: skip
def test_torch_agrees(name, args, shape):
    torch = pytest.importorskip("torch")
    mine, theirs = getattr(nn, name)(*args).double(), getattr(torch.nn, name)(*args).double()
    for training in (True, True, False):
        mine.train(training), theirs.train(training)
        x = RNG.normal(size=shape)
        np.testing.assert_allclose(
            value(mine(Tensor(x))), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-8, atol=1e-10
        )
    assert list(mine.state_dict()) == list(theirs.state_dict())
    for key, state in theirs.state_dict().items():
        np.testing.assert_allclose(mine.state_dict()[key].numpy(), state.numpy(), rtol=1e-8)


def test_errors():
    with pytest.raises(
        ValueError, match=r"Expected more than 1 value per channel when training, got input size \[1, 3\]"
    ):
        nn.BatchNorm1d(3)(randn(1, 3))
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(randn(1, 3))
    with pytest.raises(ValueError, match="Expected more than 1 spatial element"):
        F.instance_norm(randn(2, 3, 1))
    with pytest.raises(ValueError, match="must be divisible by num_groups"):
        nn.GroupNorm(2, 3)
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(randn(2, 3), 2)
    with pytest.raises(RuntimeError, match="running_mean and running_var to be defined"):
        F.batch_norm(randn(2, 3), None, None)
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        F.rms_norm(randn(2, 3), (2,))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", ["plain", "far from zero", "first element an outlier", "constant channels"])
def test_batch_norm_of_halves_rounds_once(half, case):
    """Values and gradients of float64, for the same halves; the moments' errors are those of float32."""
    x = {
        "plain": RNG.normal(size=(8, 4, 5, 3)),
        "far from zero": 100 + RNG.normal(size=(8, 4, 5, 3)),
        "first element an outlier": RNG.normal(size=(8, 4, 5, 3)),
        "constant channels": np.full((8, 4, 5, 3), 3.0)
        + (np.arange(4) % 2 == 0).reshape(4, 1, 1) * X[0, 0, 0, 0],
    }[case]
    if "outlier" in case:
        x[0, :, 0, 0] = 60.0
    dtype = DTYPES[half]

    def run(kind):
        given = [Tensor(a).to(dtype).to(kind).requires_grad_() for a in (x, W, B)]
        out = F.batch_norm(given[0], None, None, *given[1:], True)
        weights = Tensor(np.random.default_rng(1).normal(size=x.shape)).to(dtype).to(kind)
        return [value(t.double()) for t in (out, *grad([(out * weights).sum()], given))]

    unit = 2.0 ** (-11 if half == "float16" else -8)
    for got, want in zip(run(dtype), run(DTYPES["float64"]), strict=True):
        assert (
            np.abs(got - want) <= 1.01 * unit * np.abs(want) + 4e-4 * unit + 2e-5 * np.abs(want).max()
        ).all()


HERE = SimpleNamespace(nn=nn, linalg=linalg)
NORMS = {
    "norm": lambda t, x, p: t.linalg.vector_norm(x, p, dim=-1),
    "normalize": lambda t, x, p: t.nn.functional.normalize(x, p, dim=0),
    "pairwise_distance": lambda t, x, p: t.nn.functional.pairwise_distance(x, x * 0.5 + 0.1, p),
}


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, np.inf, -np.inf, -1, -2])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_every_order_beside_torch(name, p):
    torch = pytest.importorskip("torch")
    numbers = np.array([[0.0, 0.5, -0.25], [1.5, 0.0, -2.0]])

    def value_and_slope(t, x):
        y = NORMS[name](t, x, p)
        y.sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    expected = value_and_slope(torch, torch.tensor(numbers, requires_grad=True))
    for mine, theirs in zip(
        value_and_slope(HERE, Tensor(numbers, requires_grad=True)), expected, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("norm_type", [0, 0.5, 1, 2, 3, np.inf, -np.inf, "inf"])
def test_gradients_are_clipped_by_every_norm(norm_type):
    torch = pytest.importorskip("torch")
    seen = []
    for t, of in ((torch, torch.tensor), (HERE, tensor)):
        parameters = [t.nn.Parameter(of([0.0, 0.0])), t.nn.Parameter(of([0.0]))]
        for p, g in zip(parameters, ([-3.0, 0.0], [2.0]), strict=True):
            p.grad = of(g)
        norm = t.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type)
        seen.append([norm.numpy(), *(p.grad.numpy() for p in parameters)])
    for mine, theirs in zip(seen[1], seen[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_an_old_file_has_no_count_of_batches():
    layer = nn.BatchNorm1d(3)
    state = layer.state_dict()
    assert state._metadata[""] == {"version": 2}
    del state["num_batches_tracked"]
    assert nn.BatchNorm1d(3).load_state_dict(dict(state)).missing_keys == []
    with pytest.raises(RuntimeError, match="num_batches_tracked"):  # of a file of version 2 it is missing
        layer.load_state_dict(state)
