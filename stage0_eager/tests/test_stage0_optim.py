"""SGD and AdamW against the same updates written in NumPy from the papers, over ten steps in float64; and with torch.

Input: random parameters and gradients. torch is compared with only where it is installed.
"""

import numpy as np
import pytest

from stage0_eager import nn, optim
from stage0_eager.functions.creation import tensor
from stage0_eager.random.generator import manual_seed

STEPS = 10


def sgd(
    p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False, foreach=None
):
    """Sutskever et al. 2013, in torch's form: the first buffer is the gradient itself."""
    buffer = None
    for g in grads:
        d = (-g if maximize else g) + weight_decay * p
        if momentum:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
    return p


def adamw(
    p, grads, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, maximize=False, foreach=None
):
    """Loshchilov and Hutter 2019, algorithm 2; with amsgrad, the largest second moment so far (Reddi et al. 2018)."""
    m, v, largest = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, start=1):
        g = -g if maximize else g
        p = p - lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        largest = np.maximum(largest, v)
        p = p - lr * (m / (1 - betas[0] ** t)) / (
            np.sqrt((largest if amsgrad else v) / (1 - betas[1] ** t)) + eps
        )
    return p


CASES = [
    ("SGD", sgd, dict(lr=0.1)),
    ("SGD", sgd, dict(lr=0.1, weight_decay=0.05)),
    ("SGD", sgd, dict(lr=0.1, momentum=0.9)),
    ("SGD", sgd, dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    ("SGD", sgd, dict(lr=0.1, momentum=0.9, nesterov=True)),
    ("AdamW", adamw, dict(lr=0.1)),
    ("AdamW", adamw, dict(lr=0.01, betas=(0.5, 0.7), eps=1e-3, weight_decay=0.2)),
    ("AdamW", adamw, dict(lr=0.1, amsgrad=True)),
    ("AdamW", adamw, dict(lr=0.1, maximize=True, foreach=False)),
    ("SGD", sgd, dict(lr=0.1, momentum=0.5, weight_decay=0.1, maximize=True, foreach=False)),
]


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 2)), [rng.normal(size=(3, 2)) for _ in range(STEPS)]


def run(name, options, library=optim, make=None):
    start, grads = data()
    p = (make or (lambda a: nn.Parameter(tensor(a))))(start.copy())
    optimizer = getattr(library, name)([p], **options)
    for g in grads:
        p.grad = tensor(g) if make is None else make(g).detach()
        optimizer.step()
    return p.detach().numpy(), optimizer


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_against_numpy(name, reference, options):
    start, grads = data()
    np.testing.assert_allclose(run(name, options)[0], reference(start, grads, **options), rtol=1e-12)


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_against_torch(name, reference, options):
    torch = pytest.importorskip("torch")
    make = lambda a: torch.tensor(a, requires_grad=True)  # noqa: E731
    want, _ = run(name, options, torch.optim, make)
    np.testing.assert_allclose(run(name, options)[0], want, rtol=1e-12)


def test_parameters_are_written_in_place_and_stay_leaves():
    p = nn.Parameter(tensor([1.0]))
    array, alias = p._data, p.detach()
    optimizer = optim.SGD([p], lr=0.5)
    (p * 2).sum().backward()
    optimizer.step()
    assert p._data is array and alias.tolist() == [0.0] and p.is_leaf and p.requires_grad


def test_groups_have_options_of_their_own_and_missing_gradients_are_skipped():
    a, b, idle = (nn.Parameter(tensor([1.0])) for _ in range(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b, idle], "lr": 1.0}], lr=0.1)
    a.grad = b.grad = tensor([1.0])
    optimizer.step()
    assert [round(p.item(), 6) for p in (a, b, idle)] == [0.9, 0.0, 1.0] and list(optimizer.state) == [a, b]
    optimizer.param_groups[0]["lr"] = 0.5  # what a scheduler does
    optimizer.step()
    assert round(a.item(), 6) == 0.4


def test_a_closure_computes_gradients_first_and_groups_can_be_added():
    p, q = (nn.Parameter(tensor([3.0])) for _ in range(2))
    optimizer = optim.SGD([p], lr=0.5)
    optimizer.add_param_group({"params": q, "lr": 0.25})

    def closure():
        optimizer.zero_grad()
        loss = (p + q).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 6 and p.tolist() == [2.5] and q.tolist() == [2.75]
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.25]
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optimizer.add_param_group({"params": [q]})
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optim.SGD(p)


def test_zero_grad():
    p = nn.Parameter(tensor([1.0]))
    optimizer = optim.SGD([p], lr=1)
    p.grad = tensor([2.0])
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and kept.tolist() == [0]
    optimizer.zero_grad()
    assert p.grad is None


def test_state_goes_on_where_it_was_saved():
    for name, _, options in CASES:
        start, grads = data()
        whole, _ = run(name, options)
        p = nn.Parameter(tensor(start.copy()))
        first = getattr(optim, name)([p], **options)
        for i, g in enumerate(grads):
            if i == STEPS // 2:
                second = getattr(optim, name)([p], lr=123.0)
                second.load_state_dict(first.state_dict())
                first = second
            p.grad = tensor(g)
            first.step()
        np.testing.assert_array_equal(p.detach().numpy(), whole)


def test_a_saved_state_is_a_copy_laid_out_as_torchs():
    p = nn.Parameter(tensor([1.0, 2.0]))
    optimizer = optim.AdamW([p])
    p.grad = tensor([1.0, 1.0])
    optimizer.step()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [0] and state["param_groups"][0]["lr"] == 1e-3
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"} and state["state"][0]["step"] == 1
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.AdamW([nn.Parameter(tensor([1.0])), nn.Parameter(tensor([1.0]))]).load_state_dict(state)


def test_wrong_options():
    p = nn.Parameter(tensor([1.0]))
    for make, text in (
        (lambda: optim.SGD([]), "empty parameter list"),
        (lambda: optim.SGD([p], lr=-1), "Invalid learning rate: -1"),
        (lambda: optim.AdamW([p], lr=-1), "Invalid learning rate"),
        (lambda: optim.SGD([p], lr=1, nesterov=True), "Nesterov momentum requires"),
    ):
        with pytest.raises(ValueError, match=text):
            make()


def test_a_small_model_learns():
    manual_seed(0)
    rng = np.random.default_rng(0)
    x = tensor(rng.normal(size=(64, 2)).astype(np.float32))
    y = tensor((x.numpy()[:, 0] * x.numpy()[:, 1] > 0).astype(np.int64))
    for make in (lambda p: optim.SGD(p, lr=0.3, momentum=0.9), lambda p: optim.AdamW(p, lr=0.03)):
        model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        optimizer = make(model.parameters())
        for _ in range(120):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        assert loss.item() < 0.15


def test_momentum_is_not_the_gradient_itself():
    p = nn.Parameter(tensor([1.0]))
    optimizer = optim.SGD([p], lr=0.5, momentum=0.5)
    p.grad = tensor([2.0])
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert optimizer.state[p]["momentum_buffer"].tolist() == [2.0]


def test_the_state_of_a_users_own_optimizer_is_saved_as_it_is():
    """Its "step" became a tensor, and what was a tensor a number after a load."""

    class Own(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["step"] = state.get("step", zero) + 1

    p = nn.Parameter(tensor([1.0]))
    for zero in (0, tensor(0.0)):
        optimizer, again = Own([p]), Own([p])
        optimizer.step()
        saved = optimizer.state_dict()
        again.load_state_dict(saved)
        for state in (saved["state"][0], again.state[p]):
            assert type(state["step"]) is type(zero) and state["step"] == 1
