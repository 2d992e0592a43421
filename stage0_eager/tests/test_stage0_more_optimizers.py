"""Adadelta, Adamax, RAdam, Rprop, ASGD against updates written in NumPy; all optimizers' saved state in torch's layout.

Input: random parameters and gradients in float64, ten steps. torch is compared with where it is installed.
"""

import numpy as np
import pytest

from stage0_eager import nn, optim
from stage0_eager.functions.creation import tensor

STEPS = 10
RNG = np.random.default_rng(0)
START, GRADS = RNG.normal(size=(3, 2)), [RNG.normal(size=(3, 2)) for _ in range(STEPS)]


def adadelta(p, grads, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, maximize=False):
    square, delta = np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        square = rho * square + (1 - rho) * g**2
        step = np.sqrt(delta + eps) / np.sqrt(square + eps) * g
        delta = rho * delta + (1 - rho) * step**2
        p = p - lr * step
    return p


def adamax(p, grads, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    m, u = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
    return p


def radam(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False):
    m, v = np.zeros_like(p), np.zeros_like(p)
    longest = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        mean = m / (1 - betas[0] ** t)
        length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            r = np.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
            p = p - lr * mean * r * np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        else:
            p = p - lr * mean
    return p


def rprop(p, grads, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    before, size = np.zeros_like(p), np.full_like(p, lr)
    for g in grads:
        agree = np.sign(g * before)
        size = np.clip(size * np.where(agree > 0, etas[1], np.where(agree < 0, etas[0], 1)), *step_sizes)
        before = np.where(agree < 0, 0, g)
        p = p - np.sign(before) * size
    return p


def asgd(p, grads, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
    eta = lr
    for t, g in enumerate(grads, 1):
        p = p * (1 - lambd * eta) - eta * (g + weight_decay * p)
        eta = lr / (1 + lambd * lr * t) ** alpha
    return p


CASES = [
    ("Adadelta", adadelta, {}), ("Adadelta", adadelta, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", adamax, {}), ("Adamax", adamax, {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1}),
    ("RAdam", radam, {}), ("RAdam", radam, {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1}),
    ("RAdam", radam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Rprop", rprop, {}), ("Rprop", rprop, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.2)}),
    ("ASGD", asgd, {}), ("ASGD", asgd, {"lr": 0.1, "lambd": 0.01, "weight_decay": 0.1}),
]  # fmt: skip


def run(name, options, steps=GRADS, library=optim, make=None):
    p = (make or (lambda a: nn.Parameter(tensor(a))))(START.copy())
    optimizer = getattr(library, name)([p], **options)
    for g in steps:
        p.grad = tensor(g) if make is None else make(g).detach()
        optimizer.step()
    return p.detach().numpy(), optimizer


@pytest.mark.parametrize(("name", "reference", "options"), CASES)
def test_against_numpy_and_torch(name, reference, options):
    got = run(name, options)[0]
    np.testing.assert_allclose(got, reference(START, GRADS, **options), rtol=1e-11)
    torch = pytest.importorskip("torch")
    make = lambda a: torch.tensor(a, requires_grad=True)  # noqa: E731
    tolerance = 1e-6 if name == "ASGD" else 1e-11  # torch keeps ASGD's rate in float32
    np.testing.assert_allclose(got, run(name, options, library=torch.optim, make=make)[0], rtol=tolerance)


def test_the_average_of_asgd():
    _, optimizer = run("ASGD", {"t0": 3.0})
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    assert state["mu"] == 1 / 7 and not np.array_equal(state["ax"].numpy(), START)


ALL = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "NAdam": {}, "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {}, "Adadelta": {}, "Adamax": {}, "RAdam": {}, "Rprop": {}, "ASGD": {"t0": 3.0},
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_state_goes_on_where_it_was_saved(name):
    whole, _ = run(name, ALL[name])
    _, first = run(name, ALL[name], GRADS[:5])
    (p,) = first.param_groups[0]["params"]
    second = getattr(optim, name)([p], lr=0.5)
    second.load_state_dict(first.state_dict())
    for g in GRADS[5:]:
        p.grad = tensor(g)
        second.step()
    np.testing.assert_allclose(p.detach().numpy(), whole, rtol=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_a_saved_state_has_torchs_layout(name):
    saved = run(name, ALL[name])[1].state_dict()
    assert saved["param_groups"][0]["params"] == [0]
    for key in ("step", "mu_product", "eta", "mu"):
        assert getattr(saved["state"][0].get(key), "shape", ()) == ()
    torch = pytest.importorskip("torch")
    make = lambda a: torch.tensor(a, requires_grad=True)  # noqa: E731
    values, theirs = run(name, ALL[name], library=torch.optim, make=make)
    theirs = theirs.state_dict()
    assert set(saved["state"][0]) == {k for k, v in theirs["state"][0].items() if v is not None}
    assert {k: v for k, v in saved["param_groups"][0].items() if v} == {
        k: v for k, v in theirs["param_groups"][0].items() if v
    }
    # and theirs is read here
    p = nn.Parameter(tensor(values.copy()))
    optimizer = getattr(optim, name)([p])
    state = {k: tensor(v.numpy()) for k, v in theirs["state"][0].items() if v is not None}
    optimizer.load_state_dict({"state": {0: state}, "param_groups": theirs["param_groups"]})
    p.grad = tensor(GRADS[0])
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), run(name, ALL[name], [*GRADS, GRADS[0]])[0], rtol=1e-6)


def test_switches_for_speed_are_kept_and_others_refused():
    p = nn.Parameter(tensor([1.0]))
    optimizer = optim.Adam([p], foreach=True, capturable=True)
    assert optimizer.param_groups[0]["foreach"] is True and "capturable: True" in repr(optimizer)
    with pytest.raises(NotImplementedError, match="differentiable=True"):
        optim.SGD([p], differentiable=True)
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        optim.AdamW([p], fused=True, foreach=True)
    with pytest.raises(ValueError, match="Invalid eta values"):
        optim.Rprop([p], etas=(1.2, 0.5))


def test_named_parameters_may_be_given():
    layer = nn.Linear(2, 1)
    optimizer = optim.SGD(layer.named_parameters())
    assert optimizer.param_groups[0]["params"] == [layer.weight, layer.bias]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    group = {"params": [("more", nn.Parameter(tensor([1.0])))], "lr": 0.5}
    optimizer.add_param_group(group)
    assert optimizer.param_groups[1]["param_names"] == ["more"]


@pytest.mark.parametrize("name", ALL)
def test_complex_parameters_step_by_their_parts(name):
    torch = pytest.importorskip("torch")

    def stepped(library, parameter, numbers):
        p = parameter(numbers(START + 1j * START[::-1]))
        optimizer = getattr(library, name)([p], lr=0.1, **ALL[name])
        for g, other in zip(GRADS, GRADS[::-1], strict=True):
            p.grad = numbers(g + 1j * other)
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        kept = {key: value.numpy() for key, value in state.items() if value is not None and value.ndim}
        return {"p": p.detach().numpy(), **kept}

    expected = stepped(torch.optim, torch.nn.Parameter, torch.tensor)
    got = stepped(optim, nn.Parameter, tensor)
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-6, err_msg=key)


REFUSED = {
    "no parameters": lambda o, p: o.SGD([]),
    "not in a list": lambda o, p: o.SGD(p),
    "a text": lambda o, p: o.SGD(["a"]),
    "computed": lambda o, p: o.Adam([p * 2]),
    "twice": lambda o, p: o.Adam([{"params": [p]}, {"params": p}]),
    "in a set": lambda o, p: o.Adam([{"params": {p}}]),
    "no group": lambda o, p: o.SGD([p]).add_param_group(3),
    "a name among others without": lambda o, p: o.SGD([p]).add_param_group({"params": [("a", p.detach())]}),
    "momentum": lambda o, p: o.SGD([p], momentum=-1),
    "decay": lambda o, p: o.SGD([p], weight_decay=-1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_parameter_is_refused_as_in_torch(name):
    torch = pytest.importorskip("torch")
    errors = (TypeError, ValueError)
    with pytest.raises(errors) as theirs:
        REFUSED[name](torch.optim, torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(errors) as mine:
        REFUSED[name](optim, nn.Parameter(tensor([1.0])))
    assert mine.type is theirs.type and str(mine.value)[:30] == str(theirs.value)[:30]
