"""An optimizer's update is followed once for parameters that are alike: the graph and guards are those of following each.

Input: optimizers over parameters that differ in one thing, captured with builtins/torch/updates.py and without.
"""

import numpy as np
import pytest

import cutaway
from stage0_eager.optim.adaptive import adam_update
from stage1_capture.builtins.torch import updates
from stage1_capture.frame.translator import InstructionTranslator
from stage1_capture.state.machine import CALLED_BY_CODE
from stage1_capture.tests.identity import frame_text, steady


def parameters(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    made = [cutaway.nn.Parameter(cutaway.from_numpy(rng.standard_normal(s).astype(dtype))) for s in shapes]
    for p in made:
        p.grad = cutaway.from_numpy(rng.standard_normal(tuple(p.shape)).astype(dtype))
    return made


EQUAL = [(4, 3), (5,)] * 4


def stepped(step, params):
    """What three calls of a step were captured as, and the parameters after them."""
    run = cutaway.compile(step, backend="eager")
    for _ in range(3):
        run()
    texts = [steady(frame_text(made.frame)) for made in run.artifacts]
    return texts, [p.detach().numpy().copy() for p in params]


def of(name, **options):
    def make():
        params = parameters(*EQUAL)
        return getattr(cutaway.optim, name)(params, **options).step, params

    return make


def two_dtypes():
    params = [*parameters(*EQUAL), *parameters(*EQUAL, dtype=np.float64)]
    return cutaway.optim.AdamW(params).step, params


def strided():
    params = parameters(*EQUAL)
    for p in params[:4]:
        p.grad = cutaway.from_numpy(np.asfortranarray(p.grad.numpy()))
    return cutaway.optim.AdamW(params).step, params


def groups(**other):
    def make():
        params = parameters(*EQUAL)
        return cutaway.optim.Adam([{"params": params[:4]}, {"params": params[4:], **other}]).step, params

    return make


def the_gradient_of_another():
    params = parameters(*EQUAL)
    params[4].grad = params[2].grad
    params[6].grad = params[6].detach()
    return cutaway.optim.AdamW(params).step, params


def on_two_lines():
    params = parameters(*EQUAL)
    first, second = cutaway.optim.AdamW(params[:4]), cutaway.optim.AdamW(params[4:])

    def step():
        first.step()
        second.step()

    return step, params


def with_gradients_inside():
    params = parameters(*EQUAL)
    optimizer = cutaway.optim.AdamW(params)

    def step():
        for p in params:
            p.grad = p.detach() * 2 + 1
        optimizer.step()

    return step, params


def a_whole_step():
    params = parameters(*[(4, 3)] * 4)
    optimizer = cutaway.optim.AdamW(params)

    def step():
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()
        optimizer.step()

    return step, params


STEPS = {
    "Adam": of("Adam"),
    "AdamW": of("AdamW"),
    "amsgrad": of("Adam", amsgrad=True, weight_decay=0.1, maximize=True),
    "SGD": of("SGD", lr=0.1),
    "momentum": of("SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "RMSprop": of("RMSprop", centered=True, momentum=0.5),
    **{name: of(name) for name in ("Adagrad", "NAdam", "RAdam", "Rprop", "Adadelta", "Adamax", "ASGD")},
    "two dtypes": two_dtypes,
    "strides": strided,
    "another lr": groups(lr=0.5),
    "another eps": groups(eps=1e-3),
    "a zero with a sign": groups(eps=-0.0 + 0.0, lr=0.0),
    "amsgrad in one group": groups(amsgrad=True),
    "the gradient of another": the_gradient_of_another,
    "on two lines": on_two_lines,
    "gradients inside": with_gradients_inside,
    "a whole step": a_whole_step,
}


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_graph_guards_and_values_are_those_of_following_each(make, monkeypatch):
    texts, values = stepped(*make())
    for function in updates.UPDATES:
        monkeypatch.delitem(CALLED_BY_CODE, function.__code__)
    followed_texts, followed_values = stepped(*make())
    assert texts == followed_texts
    assert all(np.array_equal(a, b) for a, b in zip(values, followed_values, strict=True))


def count_followed(make, monkeypatch):
    followed, run = [], InstructionTranslator.run

    def counting(self):
        followed.extend([1] * (self.function.code is adam_update.__code__))
        return run(self)

    monkeypatch.setattr(InstructionTranslator, "run", counting)
    step, _ = make()
    cutaway.compile(step, backend="eager")()
    return len(followed)


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (of("AdamW"), 2),
        (two_dtypes, 4),
        (strided, 3),
        (groups(lr=0.5), 4),
        (groups(eps=1e-3), 4),
        (groups(amsgrad=True), 4),
    ],
    ids=["alike", "dtypes", "strides", "lr", "eps", "amsgrad"],
)
def test_it_is_followed_once_for_each_kind(make, kinds, monkeypatch):
    """Of eight or more parameters. The first call of a graph may be followed once more: it decides the grad mode."""
    assert kinds <= count_followed(make, monkeypatch) <= kinds + 1


def test_a_second_capture_begins_anew(monkeypatch):
    """A recipe has nodes of its graph: it is not kept for another."""
    first, second = count_followed(of("AdamW"), monkeypatch), count_followed(of("AdamW"), monkeypatch)
    assert first == second
