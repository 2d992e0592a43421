"""Adaptive optimizers and learning-rate schedules: first steps by hand, and every step against torch.

Input: one small parameter with given gradients. The torch column runs where torch is installed.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager import Tensor, nn, optim
from stage0_eager.functions.creation import tensor
from stage0_eager.optim import lr_scheduler as S

RNG = np.random.default_rng(9)
GRADS = RNG.normal(size=(6, 3))

OPTIMIZERS = [
    ("Adam", {}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}), ("Adam", {"maximize": True}), ("NAdam", {"lr": 0.1}),
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.01}), ("Adagrad", {"lr_decay": 0.1}),
    ("Adagrad", {"initial_accumulator_value": 0.5}),
]  # fmt: skip


def run(name, options, start=None, state=None, steps=range(6)):
    p = nn.Parameter(Tensor(np.ones(3) if start is None else start.copy()))
    optimizer = getattr(optim, name)([p], **options)
    if state is not None:
        optimizer.load_state_dict(state)
    for i in steps:
        p.grad = Tensor(GRADS[i].copy())
        optimizer.step()
    return p.detach().numpy().copy(), optimizer


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_optimizer_against_torch(name, options):
    torch = pytest.importorskip("torch")
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = getattr(torch.optim, name)([p], **options)
    for g in GRADS:
        p.grad = torch.tensor(g)
        optimizer.step()
    np.testing.assert_allclose(run(name, options)[0], p.detach().numpy(), rtol=1e-7)


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_state_dict_resumes(name, options):
    half, optimizer = run(name, options, steps=range(3))
    resumed, _ = run(name, options, half, optimizer.state_dict(), range(3, 6))
    np.testing.assert_array_equal(resumed, run(name, options)[0])


def test_first_steps_by_hand():
    sign = np.sign(GRADS[0])
    for name, size in (("Adam", 1e-3), ("RMSprop", 0.1), ("Adagrad", 1e-2)):
        got, _ = run(name, {}, steps=[0])
        np.testing.assert_allclose(got, 1 - size * sign, rtol=1e-5)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        run("Adam", {"lr": -1})
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1"):
        run("Adam", {"betas": (0.9, 1.0)})


def sgd(momentum=0.9):
    return optim.SGD([nn.Parameter(Tensor(np.ones(1)))], lr=0.4, momentum=momentum)


SCHEDULES = [
    ("StepLR", (3,), {}), ("MultiStepLR", ([2, 5],), {"gamma": 0.5}), ("ExponentialLR", (0.9,), {}), ("ConstantLR", (0.5, 4), {}),
    ("LinearLR", (), {"start_factor": 0.1, "total_iters": 4}), ("CosineAnnealingLR", (6, 0.01), {}), ("LambdaLR", (lambda e: 1 / (e + 1),), {}),
    ("OneCycleLR", (1.0, 12), {}), ("OneCycleLR", (1.0, 12), {"anneal_strategy": "linear", "three_phase": True, "pct_start": 0.4}),
    ("MultiplicativeLR", (lambda e: 0.9 + e / 100,), {}), ("PolynomialLR", (7, 2.0), {}), ("CyclicLR", (0.1, 0.5, 3), {}),
    ("CyclicLR", (0.1, 0.5, 2, 3), {"mode": "triangular2", "base_momentum": 0.5}), ("CyclicLR", (0.1, 0.5, 3, 1, "exp_range", 0.9), {}),
    ("CyclicLR", (0.1, 0.5, 2), {"scale_fn": lambda c: 1 / c, "cycle_momentum": False}),
    ("CosineAnnealingWarmRestarts", (3,), {}), ("CosineAnnealingWarmRestarts", (2, 2, 0.01), {}),
]  # fmt: skip


def rates(scheduler, steps=10):
    seen = []
    for _ in range(steps):
        group = scheduler.optimizer.param_groups[0]
        seen.append((group["lr"], group["momentum"]))
        scheduler.optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize("name, args, options", SCHEDULES, ids=lambda v: v if isinstance(v, str) else "")
def test_schedule_against_torch(name, args, options):
    torch = pytest.importorskip("torch")
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4, momentum=0.9)
    expected = rates(getattr(torch.optim.lr_scheduler, name)(theirs, *args, **options))
    np.testing.assert_allclose(rates(getattr(S, name)(sgd(), *args, **options)), expected, rtol=1e-9)


@pytest.mark.parametrize("name, args, options", SCHEDULES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_checkpoint_loads_into_torch_and_the_other_way_round(name, args, options):
    torch = pytest.importorskip("torch")

    def begun(lib, made):
        return getattr(lib, name)(made, *args, **options)

    def fresh():
        parameter = torch.nn.Parameter(torch.ones(1))
        ours, theirs = sgd(), torch.optim.SGD([parameter], lr=0.4, momentum=0.9)
        return begun(S, ours), begun(torch.optim.lr_scheduler, theirs)

    halfway = fresh()
    for scheduler in halfway:
        rates(scheduler, 4)
    saved = [(s.optimizer.state_dict(), s.state_dict()) for s in halfway]
    assert {*saved[0][1]} == {*saved[1][1]}
    expected = rates(halfway[1], 6)
    for scheduler, (optimizer, schedule) in zip(fresh(), reversed(saved), strict=True):
        scheduler.optimizer.load_state_dict(optimizer)
        scheduler.load_state_dict(schedule)
        np.testing.assert_allclose(rates(scheduler, 6), expected, rtol=1e-9)


def rates_of_two(lib, optimizer, first, second):
    """Both schedules step the one optimizer; in between the user writes a rate."""
    made = [getattr(lib, name)(optimizer, *args, **options) for name, args, options in (first, second)]
    seen = []
    for step in range(9):
        optimizer.step()
        for scheduler in made:
            scheduler.step()
        seen.append(optimizer.param_groups[0]["lr"])
        if step == 4:
            optimizer.param_groups[0]["lr"] = 0.3
    return seen


@pytest.mark.parametrize("first", SCHEDULES, ids=lambda v: v[0])
def test_two_schedules_of_one_optimizer_against_torch(first):
    """Each step changes the rate that is there. On the tree before, the second wrote over what the first did."""
    torch = pytest.importorskip("torch")
    for second in SCHEDULES:
        theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4, momentum=0.9)
        wanted = rates_of_two(torch.optim.lr_scheduler, theirs, first, second)
        got = rates_of_two(S, sgd(), first, second)
        np.testing.assert_allclose(got, wanted, 1e-9, 1e-15, err_msg=second[0])


def test_a_schedule_of_the_users_own():
    class Warm(S.LRScheduler):
        def __init__(self, optimizer, steps):
            self.steps = steps
            super().__init__(optimizer)

        def get_lr(self):
            assert self._step_count == self.last_epoch + 1
            return [base * min(1.0, (self.last_epoch + 1) / self.steps) for base in self.base_lrs]

    class Halved(S.StepLR):
        def get_lr(self):
            return [rate / 2 for rate in super().get_lr()]

    assert [r for r, _ in rates(Warm(sgd(), 4), 6)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert [r for r, _ in rates(Halved(sgd(), 2), 3)] == pytest.approx([0.2, 0.1, 0.005])


def test_schedules_by_hand():
    def lrs(scheduler, steps=6):
        return pytest.approx([r for r, _ in rates(scheduler, steps)])

    assert lrs(S.StepLR(sgd(), 2)) == [0.4, 0.4, 0.04, 0.04, 0.004, 0.004]
    assert lrs(S.LinearLR(sgd(), 0.5, total_iters=2), 4) == [0.2, 0.3, 0.4, 0.4]
    assert lrs(S.CosineAnnealingLR(sgd(), 2), 3) == [0.4, 0.2, 0.0]
    assert lrs(S.PolynomialLR(sgd(), 2), 4) == [0.4, 0.2, 0.0, 0.0]
    assert lrs(S.MultiplicativeLR(sgd(), lambda e: 0.5), 3) == [0.4, 0.2, 0.1]
    assert lrs(S.CosineAnnealingWarmRestarts(sgd(), 2), 5) == [0.4, 0.2, 0.4, 0.2, 0.4]
    assert rates(S.CyclicLR(sgd(), 0.1, 0.5, 2, base_momentum=0.5), 5) == [
        pytest.approx(at) for at in ((0.1, 0.9), (0.3, 0.7), (0.5, 0.5), (0.3, 0.7), (0.1, 0.9))
    ]
    optimizer = sgd()
    warm, decay = S.LinearLR(optimizer, 0.5, total_iters=2), S.ExponentialLR(optimizer, 0.5)
    assert lrs(S.SequentialLR(optimizer, [warm, decay], [2]), 5) == [0.2, 0.3, 0.4, 0.2, 0.1]


def test_plateau():
    scheduler = S.ReduceLROnPlateau(sgd(), factor=0.5, patience=1, min_lr=0.15)
    seen = []
    for metric in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0):
        scheduler.step(Tensor(np.array(metric)))
        seen.append(scheduler.get_last_lr()[0])
    assert seen == [0.4, 0.4, 0.4, 0.2, 0.2, 0.15, 0.15, 0.15]


def test_schedule_state_and_errors():
    first = S.StepLR(sgd(), 2)
    rates(first, 3)
    second = S.StepLR(sgd(), 7)
    second.load_state_dict(first.state_dict())
    assert second.last_epoch == 3 and second.step_size == 2 and "optimizer" not in first.state_dict()
    with pytest.raises(ValueError, match="total_steps OR"):
        S.OneCycleLR(sgd(), 1.0)
    with pytest.raises(ValueError, match="greater than 0"):
        S.LinearLR(sgd(), 0.0)
    with pytest.raises(TypeError, match="is not an Optimizer"):
        S.StepLR(3, 1)


def chained(lib, optimizer):
    s = lib.lr_scheduler
    return s.ChainedScheduler(
        [s.ConstantLR(optimizer, 0.5, 3), s.ExponentialLR(optimizer, 0.9), s.StepLR(optimizer, 4)]
    )


def test_schedules_that_are_chained():
    by_hand = [0.4 * (0.5 if e < 3 else 1) * 0.9**e * 0.1 ** (e // 4) for e in range(10)]
    mine = chained(optim, sgd())
    assert [r for r, _ in rates(mine)] == pytest.approx(by_hand)
    again = chained(optim, sgd())
    again.load_state_dict(mine.state_dict())
    assert again.get_last_lr() == mine.get_last_lr() and [s.last_epoch for s in again._schedulers] == [10] * 3
    with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
        S.ChainedScheduler([S.ReduceLROnPlateau(sgd())])
    with pytest.raises(ValueError, match="same optimizer"):
        S.ChainedScheduler([S.StepLR(sgd(), 3), S.StepLR(sgd(), 3)])
    torch = pytest.importorskip("torch")
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4, momentum=0.9)
    assert [r for r, _ in rates(chained(torch.optim, theirs))] == pytest.approx(by_hand)


def halved(lib, optimizer):
    class Halved(lib.lr_scheduler.LRScheduler):
        def get_lr(self):
            return [
                group["lr"] / 2 if self.last_epoch % 3 == 2 else group["lr"]
                for group in self.optimizer.param_groups
            ]

    return [Halved(optimizer)]


def resumed(lib, optimizer):
    optimizer.param_groups[0]["initial_lr"] = 0.8
    s = lib.lr_scheduler
    return [s.LinearLR(optimizer, 0.1, total_iters=8, last_epoch=3), s.StepLR(optimizer, 4, last_epoch=3)]


# what several schedules of one optimizer do with one rate, which is also changed by hand
TOGETHER = {
    "two that multiply": lambda s, o: [s.ExponentialLR(o, 0.9), s.MultiStepLR(o, [2, 2, 5])],
    "a cosine after a warm-up": lambda s, o: [
        s.LinearLR(o, 0.1, total_iters=4),
        s.CosineAnnealingLR(o, 3, 0.01),
    ],
    "a cosine that is chained": lambda s, o: [
        s.ChainedScheduler([s.CosineAnnealingLR(o, 6), s.PolynomialLR(o, 7)])
    ],
    "one after another": lambda s, o: [
        s.SequentialLR(o, [s.LinearLR(o, 0.5, 0.1, 3), s.CyclicLR(o, 0.1, 0.7, 3), s.StepLR(o, 2)], [3, 7])
    ],
    "in no steps": lambda s, o: [s.LinearLR(o, 0.5, total_iters=0), s.ConstantLR(o, 0.5, 0)],
}


def together(lib, tensor, make, number):
    lr = tensor(0.4) if number == "tensor" else 0.4
    parameter = lib.Parameter(tensor([1.0]))
    optimizer = lib.optim.Adam([parameter], lr=lr)
    schedules = make(optimizer)
    seen = [float(optimizer.param_groups[0]["lr"])]
    for i in range(9):
        optimizer.step()
        if i == 4 and number == "by hand":
            optimizer.param_groups[0]["lr"] *= 3
        for schedule in schedules:
            schedule.step()
        seen.append([float(optimizer.param_groups[0]["lr"]), *map(float, schedules[-1].get_last_lr())])
    return seen, number != "tensor" or optimizer.param_groups[0]["lr"] is lr


@pytest.mark.parametrize("number", ["number", "tensor", "by hand"])
@pytest.mark.parametrize("name", [*TOGETHER, "a user's", "resumed"])
def test_schedules_of_one_optimizer_against_torch(name, number):
    torch = pytest.importorskip("torch")
    users = {"a user's": halved, "resumed": resumed}

    def run_in(lib, tensor):
        make = (
            (lambda o: users[name](lib.optim, o))
            if name in users
            else (lambda o: TOGETHER[name](lib.optim.lr_scheduler, o))
        )
        return together(lib, tensor, make, number)

    ours = SimpleNamespace(optim=optim, Parameter=nn.Parameter)
    theirs = SimpleNamespace(optim=torch.optim, Parameter=torch.nn.Parameter)
    (seen, same), (expected, _) = run_in(ours, tensor), run_in(theirs, torch.tensor)
    assert same
    np.testing.assert_allclose(
        np.hstack(seen), np.hstack(expected), rtol=1e-5 if number == "tensor" else 1e-9
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, args, options", SCHEDULES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_schedule_goes_to_an_epoch(name, args, options):
    torch = pytest.importorskip("torch")

    def run_in(optimizer, schedules):
        schedule, seen = getattr(schedules, name)(optimizer, *args, **options), []
        for epoch in (1, 5, 2, 2):
            optimizer.step()
            schedule.step(epoch)
            seen.append(schedule.get_last_lr()[0])
        return seen

    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4, momentum=0.9)
    np.testing.assert_allclose(run_in(sgd(), S), run_in(theirs, torch.optim.lr_scheduler), rtol=1e-9)


def test_a_warm_restart_goes_to_an_epoch():
    seen = []
    for at in (0.5, 1.25, 4.0):
        scheduler = S.CosineAnnealingWarmRestarts(sgd(), 3)
        scheduler.step(at)
        seen.append(scheduler.get_last_lr()[0])
    assert seen == pytest.approx([0.2 * (1 + np.cos(np.pi * (at % 3) / 3)) for at in (0.5, 1.25, 4.0)])
    with pytest.raises(ValueError, match="non-negative"):
        scheduler.step(-1)


def test_state_of_a_parameter_is_there_when_it_is_first_asked_for():
    class Heavy(optim.Optimizer):
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["steps"] = state.get("steps", 0) + 1

    p = nn.Parameter(Tensor(np.ones(1)))
    heavy = Heavy([p], {"lr": 0.1})
    heavy.step()
    heavy.step()
    assert heavy.state[p] == {"steps": 2} and len(heavy.state) == 1
