"""LBFGS, Adafactor and Muon: steps of torch's optimizers, number by number.

Input: torch, if it is installed; functions with curved valleys, so that a wrong line search ends elsewhere.
"""

import numpy as np
import pytest

import stage0_eager
from stage0_eager import optim

torch = pytest.importorskip("torch")
START = np.array([-1.2, 1.0, 0.3, 2.0])


def valley(x):
    """Rosenbrock's function (1960)."""
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def bowl(x):
    return ((x - 1) ** 4 + x**2).sum()


def losses(lib, tensor, function, **options):
    x = lib.nn.Parameter(tensor(START.copy()))
    optimizer = lib.optim.LBFGS([x], max_iter=7, **options)

    def closure():
        optimizer.zero_grad()
        loss = function(x)
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(3)] + x.tolist()


@pytest.mark.parametrize("lr", [1.0, 0.1])
@pytest.mark.parametrize("function, search", [(bowl, None), (valley, "strong_wolfe"), (bowl, "strong_wolfe")])
@pytest.mark.parametrize("history", [100, 2])
def test_lbfgs_goes_torchs_way(function, search, lr, history):
    options = {"lr": lr, "line_search_fn": search, "history_size": history}
    wanted = losses(torch, torch.from_numpy, function, **options)
    assert losses(stage0_eager, stage0_eager.Tensor, function, **options) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "weight_decay": 0.1, "d": 2.0}, {"maximize": True}])
def test_adafactor(shape, options):
    start = np.random.default_rng(0).normal(size=shape)

    def run(lib, tensor):
        x = lib.nn.Parameter(tensor(start.copy()))
        optimizer = lib.optim.Adafactor([x], **options)
        for _ in range(4):
            optimizer.zero_grad()
            (x.sin() * x).sum().backward()
            optimizer.step()
        return np.array(x.detach().tolist())

    assert run(stage0_eager, stage0_eager.Tensor) == pytest.approx(run(torch, torch.from_numpy))


def test_what_they_refuse():
    x = stage0_eager.nn.Parameter(stage0_eager.Tensor(START))
    with pytest.raises(ValueError, match="2D parameters"):
        optim.Muon([x])
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS([x], line_search_fn="armijo")
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [x]}, {"params": []}])


@pytest.mark.parametrize("adjust", [None, "match_rms_adamw"])
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_muon_makes_singular_values_alike(shape, adjust):
    # The bits of bfloat16 differ from torch's: the orthogonalized step is what both promise.
    x = stage0_eager.nn.Parameter(stage0_eager.Tensor(np.random.default_rng(1).normal(size=shape)))
    before = np.array(x.tolist())
    optimizer = optim.Muon([x], lr=1.0, weight_decay=0.0, adjust_lr_fn=adjust)
    (x * x).sum().backward()
    optimizer.step()
    rows, columns = shape
    rate = 0.2 * max(shape) ** 0.5 if adjust else max(1, rows / columns) ** 0.5
    singular = np.linalg.svd((before - np.array(x.tolist())) / rate, compute_uv=False)
    assert singular.min() > 0.5 and singular.max() < 1.3
