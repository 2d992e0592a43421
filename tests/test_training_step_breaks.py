"""What a compiled training step leaves to Python: each break says what it is, and everything is still as in eager.

Input: steps whose backward reaches outside, is watched by hooks, raises, or whose changes somebody looks at at once.
"""

import numpy as np
import pytest

import cutaway
from cutaway import autograd, nn, optim

F = nn.functional
SECOND = "Trying to backward through the graph a second time"


def made():
    cutaway.manual_seed(0)
    return nn.Linear(3, 2)


def both(program, *, steps=2):
    """(what each step returned and left in the parameters' gradients) eagerly and compiled, and the breaks."""
    results = []
    for backend in (None, "eager"):
        net = made()
        step = program(net)
        run = cutaway.compile(step, backend=backend) if backend else step
        found = []
        for i in range(steps):
            out = run(cutaway.ones(2, 3) * (i + 1))
            found += [out if out is None or isinstance(out, (float, list)) else out.detach().numpy().copy()]
            found += [None if p.grad is None else p.grad.numpy().copy() for p in net.parameters()]
            found += [p.detach().numpy().copy() for p in net.parameters()]
        results.append(found)
    return *results, run.breaks


def outside(net):
    def inner(h):
        loss = (h * 2).sum()
        loss.backward()
        return loss

    compiled = cutaway.compile(inner, backend="eager")

    def step(x):
        net.zero_grad()
        return compiled(net(x))

    step.compiled = compiled
    return step


def test_a_history_that_reaches_outside():
    net = made()
    step = outside(net)
    step(cutaway.ones(2, 3))
    want = made()
    (want(cutaway.ones(2, 3)) * 2).sum().backward()
    np.testing.assert_array_equal(net.weight.grad.numpy(), want.weight.grad.numpy())
    (why,) = step.compiled.breaks
    assert (
        why.code == "GB0086" and why.reason == "backward through h, which was computed outside this function"
    )


def hooked(net):
    net.weight.register_hook(lambda g: g * 10)

    def step(x):
        net.zero_grad()
        loss = net(x).sum()
        loss.backward()
        return loss

    return step


def hooked_after(net):
    net.bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))

    def step(x):
        net.zero_grad()
        loss = net(x).sum()
        loss.backward()
        return loss

    return step


def watched(net):
    def step(x):
        net.zero_grad()
        with autograd.detect_anomaly():
            loss = net(x).sum()
            loss.backward()
        return loss

    return step


def prints_in_the_middle(net):
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        value = loss.item()
        optimizer.step()
        return value

    return step


def reads_the_rate(net):
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
        scheduler.step()
        return scheduler.get_last_lr()

    return step


def schedule_first(net):
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x):
        net.zero_grad()
        net(x).sum().backward()
        scheduler.step()
        optimizer.step()

    return step


BREAKS = {
    hooked: "a backward that reaches .*weight.*, which has a hook",
    hooked_after: "a backward that reaches .*bias.*, which has a hook",
    watched: "",
    prints_in_the_middle: "item",
    reads_the_rate: "a read of what the step of an object of class ExponentialLR changes",
    schedule_first: "a read of what the step of an object of class ExponentialLR changes",
}


@pytest.mark.parametrize("program", BREAKS, ids=lambda p: p.__name__)
def test_a_break_that_says_why_and_eagers_results(program):
    want, got, breaks = both(program, steps=3)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b) if isinstance(b, np.ndarray) else None
        assert isinstance(b, np.ndarray) or a == b
    assert breaks
    assert any(__import__("re").search(BREAKS[program], b.reason) for b in breaks), [b.reason for b in breaks]


# ---- errors -----------------------------------------------------------------------------------------------------


def not_a_scalar(net):
    return lambda x: net(x).backward()


def nothing_to_do(net):
    return lambda x: x.sum().backward()


def twice(net):
    def step(x):
        loss = net(x).pow(2).sum()
        loss.backward()
        loss.backward()

    return step


def wrong_seed(net):
    return lambda x: net(x).backward(cutaway.ones(3))


def unused(net):
    return lambda x: autograd.grad(x.sum() * 2 + net.bias.sum(), net.weight)


def written_between(net):
    def step(x):
        h = net(x).exp()
        h.mul_(2)
        h.sum().backward()

    return step


@pytest.mark.parametrize(
    "program",
    [not_a_scalar, nothing_to_do, twice, wrong_seed, unused, written_between],
    ids=lambda p: p.__name__,
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_errors_are_eagers(program, backend):
    x = cutaway.ones(2, 3)
    eager, net = made(), made()
    with pytest.raises(RuntimeError) as want:
        program(eager)(x)
    with pytest.raises(RuntimeError) as got:
        cutaway.compile(program(net), backend=backend)(x)
    assert str(got.value) == str(want.value)
    for p, q in zip(net.parameters(), eager.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or p.grad.tolist() == q.grad.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_returned_has_a_history_that_was_freed(backend):
    net = made()

    def step(x, keep):
        h = net(x)
        loss = h.pow(2).sum()
        loss.backward(retain_graph=keep)
        return loss, h, h.detach()

    run = cutaway.compile(step, backend=backend, fullgraph=True)
    for tensor in run(cutaway.ones(2, 3), False)[:2]:
        assert tensor.requires_grad and not tensor.is_leaf
        with pytest.raises(RuntimeError, match=SECOND):
            tensor.sum().backward()
    loss, _, detached = run(cutaway.ones(2, 3), True)
    assert not detached.requires_grad
    net.zero_grad()
    loss.backward()
    assert net.bias.grad is not None


# ---- guards -----------------------------------------------------------------------------------------------------


def test_gradients_that_come_and_go():
    """None, a tensor, another layout: each a compile of its own, and then found again."""
    net, twin = made(), made()

    def step(model):
        def run(x):
            loss = model(x).sum()
            loss.backward()
            return loss

        return run

    compiled, eager = cutaway.compile(step(net), backend="eager", fullgraph=True), step(twin)
    for clear in (False, False, True, False, True):
        for model, run in ((net, compiled), (twin, eager)):
            run(cutaway.ones(2, 3))
            if clear:
                model.zero_grad()
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert p.grad is None or p.grad.tolist() == q.grad.tolist()
    assert len(compiled.entries) == 2 and not compiled.breaks


def test_a_hook_that_comes_later_is_noticed():
    net = made()

    def step(x):
        net.zero_grad()
        net(x).sum().backward()

    compiled = cutaway.compile(step, backend="eager")
    compiled(cutaway.ones(2, 3))
    plain = net.weight.grad.tolist()
    handle = net.weight.register_hook(lambda g: g * 2)
    compiled(cutaway.ones(2, 3))
    assert net.weight.grad.tolist() == [[2 * g for g in row] for row in plain]
    handle.remove()
    compiled(cutaway.ones(2, 3))
    assert net.weight.grad.tolist() == plain
    again = net.bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(5))
    compiled(cutaway.ones(2, 3))
    assert net.bias.grad.tolist() == [10.0, 10.0] and again is not None


def test_another_list_of_parameters_is_noticed():
    net, other = made(), made()
    optimizer = optim.SGD(net.parameters(), lr=0.5)

    def step(x):
        optimizer.zero_grad()
        (net(x) + other(x)).sum().backward()
        optimizer.step()

    compiled = cutaway.compile(step, backend="eager", fullgraph=True)
    compiled(cutaway.ones(2, 3))
    before = other.weight.tolist()
    optimizer.param_groups[0]["params"] = list(other.parameters())
    moved = net.weight.tolist()
    compiled(cutaway.ones(2, 3))
    assert net.weight.tolist() == moved and other.weight.tolist() != before


def test_anomaly_detection_switched_on_later_is_noticed():
    net = made()

    def step(x):
        net.zero_grad()
        (net(x) * 0).sqrt().sum().backward()

    compiled = cutaway.compile(step, backend="eager")
    compiled(cutaway.ones(2, 3))
    with (
        autograd.detect_anomaly(),
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        compiled(cutaway.ones(2, 3))
