"""A compiled optimizer step is compiled once: its first call finds the state that every later one finds.

Input: each optimizer, alone and inside a whole training step. Beside it the same steps eager: parameters and state must
agree, also that a parameter without a gradient has no state. On the tree before, all of these compile
twice, and AdamW over 200 parameters is ten kernels.
"""

import numpy as np
import pytest

import cutaway
from cutaway import nn, optim

OPTIMIZERS = {
    "AdamW": lambda ps: optim.AdamW(ps, lr=1e-2),
    "Adam, amsgrad": lambda ps: optim.Adam(ps, lr=1e-2, amsgrad=True, weight_decay=0.1),
    "NAdam": lambda ps: optim.NAdam(ps, lr=1e-2),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=1e-2, momentum=0.9, centered=True),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=1e-2, initial_accumulator_value=0.5),
    "Adadelta": lambda ps: optim.Adadelta(ps),
    "Adamax": lambda ps: optim.Adamax(ps, lr=1e-2),
    "SGD": lambda ps: optim.SGD(ps, lr=1e-2),
}


def parameters():
    generator = np.random.default_rng(3)
    shapes = [(4, 3), (3,), (5,)]
    return [nn.Parameter(cutaway.tensor(generator.standard_normal(s).astype(np.float32))) for s in shapes]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_alone(name):
    """The last parameter never has a gradient."""
    eager, compiled = parameters(), parameters()
    ours, theirs = OPTIMIZERS[name](eager), OPTIMIZERS[name](compiled)
    step = cutaway.compile(lambda: theirs.step(), fullgraph=True)
    for turn in range(4):
        for p, q in list(zip(eager, compiled, strict=True))[:2]:
            p.grad = cutaway.full_like(p, 0.5 - turn).detach()
            q.grad = cutaway.full_like(q, 0.5 - turn).detach()
        ours.step()
        step()
        assert len(ours.state) == len(theirs.state)
        for p, q in zip(eager, compiled, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-7)
    assert len(step.artifacts) == 1


@pytest.mark.parametrize("name", ["AdamW", "RMSprop"])
def test_a_whole_training_step(name):
    """Gradients are made in the graph; of the last parameter there is none."""
    eager, compiled = parameters(), parameters()
    ours, theirs = OPTIMIZERS[name](eager), OPTIMIZERS[name](compiled)
    x = cutaway.tensor(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))

    def training(ps, optimizer):
        def step(x):
            optimizer.zero_grad()
            loss = ((x @ ps[0] + ps[1]) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    one, two = training(eager, ours), cutaway.compile(training(compiled, theirs))
    for _ in range(4):
        np.testing.assert_allclose(one(x).numpy(), two(x).numpy(), rtol=1e-6)
    assert len(two.artifacts) == 1 and len(theirs.state) == len(ours.state) == 2
    for p, q in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-7)


def test_who_takes_no_step_makes_no_state():
    ps = parameters()
    optimizer = optim.AdamW(ps, lr=0.25)
    for p in ps:
        p.grad = cutaway.ones_like(p).detach()
    assert cutaway.compile(lambda x: x * optimizer.param_groups[0]["lr"])(cutaway.ones(2)).tolist() == [
        0.25,
        0.25,
    ]
    assert not optimizer.state


def test_state_that_is_cleared_is_made_again():
    ps = parameters()
    optimizer = optim.AdamW(ps)
    step = cutaway.compile(lambda: optimizer.step())
    for turn in range(3):
        for p in ps:
            p.grad = cutaway.ones_like(p).detach()
        if turn == 2:
            optimizer.state.clear()
        step()
    assert [row["step"] for row in optimizer.state.values()] == [1, 1, 1] and len(step.artifacts) == 2


def test_two_hundred_parameters_are_at_most_four_kernels():
    """One, and one for what has a single element; of any sizes."""
    shapes = [(k % 5 + 1, k % 7 + 1) if k % 3 else (k % 11 + 1,) for k in range(200)]
    ps = [nn.Parameter(cutaway.full(shape, 0.5)) for shape in shapes]
    optimizer = optim.AdamW(ps, lr=1e-2)
    for p in ps:
        p.grad = cutaway.ones_like(p).detach()
    step = cutaway.compile(lambda: optimizer.step())
    step()
    program = step.artifacts[-1].forward.planned
    launches = [s for s in program.steps if type(s).__name__ == "Launch"]
    assert len(program.kernels) <= 4 and len(launches) <= 4
    expected = 0.5 * (1 - 1e-2 * 1e-2) - 1e-2
    for p in ps:
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-5)
