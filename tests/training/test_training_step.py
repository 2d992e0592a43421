"""A whole training step, written as anybody writes it, compiled: one graph, no break, and what eager leaves behind.

Input: programs that make a step function and say what it changes. Each runs for some steps eagerly and compiled from
the same start: what the step returns, parameters, buffers, gradients and the optimizer's state must agree.
"""

import numpy as np
import pytest

import cutaway
from cutaway import autograd, compiler, nn, optim

F = nn.functional
schedules = optim.lr_scheduler


def mlp():
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))


def batch(i):
    generator = np.random.default_rng(i)
    return (
        cutaway.tensor(generator.normal(size=(4, 5)), dtype=cutaway.float32),
        cutaway.tensor(generator.integers(0, 3, 4)),
    )


class Made:
    """A step function of (x, y), and the objects whose state it changes."""

    def __init__(self, step, model, optimizer=None, *tensors):
        self.step, self.model, self.optimizer, self.tensors = step, model, optimizer, tensors

    def state(self):
        found = {f"p.{k}": v for k, v in self.model.named_parameters()}
        found |= {f"b.{k}": v for k, v in self.model.named_buffers()}
        found |= {f"g.{k}": v.grad for k, v in self.model.named_parameters()}
        found |= {f"t.{i}": t for i, t in enumerate(self.tensors)}
        found |= {f"t.{i}.grad": t.grad for i, t in enumerate(self.tensors)}
        if self.optimizer is not None:
            saved = self.optimizer.state_dict()
            found |= {f"o.{n}.{k}": v for n, s in saved["state"].items() for k, v in s.items()}
            found |= {f"lr.{i}": g["lr"] for i, g in enumerate(saved["param_groups"])}
        return {
            k: v.detach().numpy().copy() if isinstance(v, cutaway.Tensor) else v for k, v in found.items()
        }


def run(make, backend=None, steps=4, **options):
    cutaway.manual_seed(0)
    made = make()
    step = cutaway.compile(made.step, backend=backend, **options) if backend else made.step
    cutaway.manual_seed(1)
    returned = []
    for i in range(steps):
        out = step(*batch(i))
        returned += [t.detach().numpy().copy() for t in (out if isinstance(out, tuple) else (out,))]
    return returned, made.state(), step


def check(make, backend="eager", steps=4, graphs=2, fullgraph=True):
    """Compiled as eager: to the bit where the captured graph itself runs."""
    counter = compiler.CompileCounter() if backend == "eager" else backend
    want, want_state, _ = run(make, None, steps)
    got, got_state, step = run(make, counter, steps, fullgraph=fullgraph)
    close = {"rtol": 0, "atol": 0} if backend == "eager" else {"rtol": 1e-4, "atol": 1e-6}
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, **close)
    assert got_state.keys() == want_state.keys()
    for key, value in want_state.items():
        if isinstance(value, np.ndarray):
            assert got_state[key] is not None, key
            np.testing.assert_allclose(got_state[key], value, **close, err_msg=key)
            assert got_state[key].dtype == value.dtype, key
        else:
            assert got_state[key] == (value if value is None else pytest.approx(value, rel=1e-6)), key
    if fullgraph:
        assert not step.breaks
        assert len(step.entries) <= graphs
    return step


# ---- optimizers ------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "SGD nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, foreach=True),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1, foreach=False),
    "Adam amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, maximize=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, fused=True),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "Rprop": lambda p: optim.Rprop(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.01),
}


def training(make_optimizer, schedule=None, model=mlp, clip=True, to_none=True):
    def make():
        net = model()
        optimizer = make_optimizer(net.parameters())
        scheduler = schedule and schedule(optimizer)

        def step(x, y):
            optimizer.zero_grad(set_to_none=to_none)
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            return loss

        return Made(step, net, optimizer)

    return make


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name):
    check(training(OPTIMIZERS[name]), steps=10, graphs=3 if name in ("RAdam",) else 2)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_through_the_stages(backend):
    check(training(OPTIMIZERS["AdamW"], lambda o: schedules.StepLR(o, 2)), backend)


# ---- schedules --------------------------------------------------------------------------------------------------

SCHEDULES = {
    "StepLR": lambda o: schedules.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [1, 3]),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.5, 1.0, 4),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=20),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o, 0.1), schedules.ExponentialLR(o, 0.9)], [2]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(name):
    check(training(OPTIMIZERS["SGD momentum"], SCHEDULES[name]))


def test_a_schedule_that_looks_at_the_loss():
    def make():
        net = mlp()
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        scheduler = schedules.ReduceLROnPlateau(optimizer, patience=0)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step(loss)
            return loss

        return Made(step, net, optimizer)

    check(make, steps=8, graphs=2)


def test_a_hundred_steps_of_a_moving_rate_are_one_compile():
    make = training(OPTIMIZERS["AdamW"], lambda o: schedules.CosineAnnealingLR(o, 100))
    step = check(make, steps=100)
    assert len(step.entries) == 1
    found = cutaway.explain(make().step)(*batch(0))
    assert (found.graph_count, found.graph_break_count) == (1, 0)


# ---- what a step may do -----------------------------------------------------------------------------------------


def accumulates():
    net = mlp()

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        F.mse_loss(net(x * 2), net(x)).backward()
        return loss

    return Made(step, net)


def several_losses():
    net = mlp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        net.zero_grad()
        logits = net(x)
        first, second = F.cross_entropy(logits, y), logits.pow(2).mean()
        first.backward(retain_graph=True)
        second.backward()
        optimizer.step()
        return first, second, logits

    return Made(step, net, optimizer)


def both_losses_at_once():
    net = mlp()

    def step(x, y):
        net.zero_grad()
        logits = net(x)
        autograd.backward([F.cross_entropy(logits, y), logits], [None, logits.detach() * 0.1])
        return logits

    return Made(step, net)


class Parts(nn.Module):
    """A frozen layer, one that is not used, and two that share a weight."""

    def __init__(self):
        super().__init__()
        self.frozen, self.unused = nn.Linear(5, 5), nn.Linear(2, 2)
        self.one, self.two = nn.Linear(5, 5, bias=False), nn.Linear(5, 5)
        self.two.weight = self.one.weight
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.two(F.relu(self.one(self.frozen(x))))


def parts_of_a_model():
    net = Parts()
    optimizer = optim.Adam(net.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Made(step, net, optimizer)


def updates_by_hand():
    net = mlp()

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        with cutaway.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss

    return Made(step, net)


def gradients_zeroed_in_place():
    net = mlp()

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        with cutaway.no_grad():
            for p in net.parameters():
                p.sub_(p.grad, alpha=0.1)
                p.grad.zero_()
        return loss

    return Made(step, net)


def running_average():
    net = mlp()
    averages = [p.detach().clone() for p in net.parameters()]
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        optimizer.step()
        with cutaway.no_grad():
            for average, p in zip(averages, net.parameters(), strict=True):
                average.mul_(0.9).add_(p, alpha=0.1)
        return loss

    return Made(step, net, optimizer, *averages)


def two_steps_in_one():
    net = mlp()
    optimizer = optim.Adam(net.parameters(), lr=0.05)

    def step(x, y):
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        return loss

    return Made(step, net, optimizer)


def groups_of_parameters():
    net = mlp()
    optimizer = optim.AdamW([
        {"params": net[0].parameters(), "lr": 0.1},
        {"params": list(net[2].parameters()), "weight_decay": 0.0},
    ], lr=0.01)  # fmt: skip

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Made(step, net, optimizer)


def closure():
    net = mlp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        def evaluate():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return optimizer.step(evaluate)

    return Made(step, net, optimizer)


def leaves_besides_parameters():
    net = mlp()
    noise = cutaway.zeros(4, 5, requires_grad=True)
    unused = cutaway.zeros(3, requires_grad=True)

    def step(x, y):
        (net(x + noise).sum() + noise.sum()).backward(inputs=[noise])
        return noise.grad * 2 + unused.sum() * 0

    return Made(step, net, None, noise, unused)


def a_gradient_that_is_the_seed():
    net = mlp()
    first, second = cutaway.zeros(3, requires_grad=True), cutaway.zeros(3, requires_grad=True)

    def step(x, y):
        first.grad = second.grad = None
        seed = x[0, :3] * 2
        (first + second).backward(seed)
        second.grad.mul_(3)  # each is memory of its own
        return seed

    return Made(step, net, None, first, second)


def penalty():
    net = mlp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        gradients = autograd.grad(loss, list(net.parameters()), create_graph=True)
        (loss + sum(g.pow(2).sum() for g in gradients)).backward()
        optimizer.step()
        return loss

    return Made(step, net, optimizer)


def writes_on_the_tape():
    net = mlp()

    def step(x, y):
        net.zero_grad()
        h = net[0](x)
        h.relu_()
        h[0] = h[1] * 2
        loss = F.cross_entropy(net[2](h), y)
        loss.backward()
        return loss

    return Made(step, net)


def in_evaluation_mode():
    net = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)).eval()

    def step(x, y):
        net.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    return Made(step, net)


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(6, 3),
    )  # fmt: skip
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x.reshape(4, 1, 5, 1).expand(4, 1, 5, 2)), y)
        loss.backward()
        optimizer.step()
        return loss

    return Made(step, net, optimizer)


class Tripled(autograd.Function):
    """Twice its input, with a derivative of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x


def functions_and_hooks_of_the_users():
    net = mlp()

    def step(x, y):
        net.zero_grad()
        h = net(x)
        h.register_hook(lambda g: g * 5)
        loss = F.cross_entropy(Tripled.apply(h), y)
        loss.backward()
        return loss

    return Made(step, net)


def mixed_precision():
    net = mlp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        with cutaway.autocast("cpu", dtype=cutaway.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Made(step, net, optimizer)


PROGRAMS = (
    accumulates, several_losses, both_losses_at_once, parts_of_a_model, updates_by_hand, gradients_zeroed_in_place,
    running_average, two_steps_in_one, groups_of_parameters, closure, leaves_besides_parameters,
    a_gradient_that_is_the_seed, penalty, writes_on_the_tape, in_evaluation_mode, convolutions,
    functions_and_hooks_of_the_users, mixed_precision,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_eager(program, backend):
    check(program, backend)


def test_gradients_kept_and_zeroed_from_step_to_step():
    check(training(OPTIMIZERS["AdamW"], to_none=False), graphs=3)
