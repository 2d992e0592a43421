"""`optimizer.step()` and a scheduler's step as graphs: eager's numbers, two compiles however many steps.

Input: a small network and each optimizer, stepped eagerly and compiled from the same start.
"""

import numpy as np
import pytest

import cutaway
from cutaway import compiler, nn, optim

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
}


def trained(make, compile_step, steps=5, schedule=None):
    cutaway.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
    optimizer = make(model.parameters())
    scheduler = schedule and schedule(optimizer)

    def step():
        optimizer.step()

    run = compile_step(step)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(cutaway.randn(4, 6)) ** 2).sum().backward()
        run()
        if scheduler:
            scheduler.step()
    return [p.detach().numpy() for p in model.parameters()], optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "schedule", [None, lambda o: optim.lr_scheduler.StepLR(o, 1, 0.5)], ids=["", "scheduled"]
)
def test_steps_are_eagers_and_compile_twice(name, schedule):
    counter = compiler.CompileCounter()
    want, plain = trained(OPTIMIZERS[name], lambda step: step, schedule=schedule)
    got, stepped = trained(
        OPTIMIZERS[name],
        lambda step: cutaway.compile(step, backend=counter, fullgraph=True),
        schedule=schedule,
    )
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert counter.frame_count <= 2  # the first step makes the state
    for a, b in zip(stepped.state.values(), plain.state.values(), strict=True):
        assert a.keys() == b.keys() and a.get("step") == b.get("step")


def test_another_parameter_in_the_state_is_noticed():
    counter = compiler.CompileCounter()
    weights = [nn.Parameter(cutaway.ones(1)) for _ in range(2)]
    optimizer = optim.SGD(weights, lr=0.5, momentum=0.5)
    step = cutaway.compile(lambda: optimizer.step(), backend=counter, fullgraph=True)
    weights[0].grad = cutaway.ones(1)
    step()
    step()
    weights[1].grad = cutaway.ones(1)
    step()
    twins = [nn.Parameter(cutaway.ones(1)) for _ in range(2)]
    eager = optim.SGD(twins, lr=0.5, momentum=0.5)
    twins[0].grad = cutaway.ones(1)
    eager.step()
    eager.step()
    twins[1].grad = cutaway.ones(1)
    eager.step()
    assert [w.tolist() for w in weights] == [w.tolist() for w in twins]


def test_through_the_kernels():
    want, _ = trained(OPTIMIZERS["AdamW"], lambda step: step, steps=3)
    got, _ = trained(OPTIMIZERS["AdamW"], lambda step: cutaway.compile(step, fullgraph=True), steps=3)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
