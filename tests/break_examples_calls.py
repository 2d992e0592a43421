"""One program for each break of a call, GB0060 and on, and what to write instead.

Input: as break_examples.py, which has the codes before; the site's page and a test run them.
"""

import dataclasses
import gc
import re
import time

import numpy as np

import cutaway
from cutaway import compiler, nn, optim
from stage_contracts.program import HostCallback


def gb0060(x):
    print("adding one")
    return x + 1


def gb0060_instead(x):
    return x + 1


def gb0061(x):
    with open(__file__) as file:  # noqa: PTH123
        return x * len(file.read(1))


def gb0061_instead(x):
    return x * len("f")


def gb0062(x):
    return x * (time.time() > 0)


def gb0062_instead(x):
    return x * True


def gb0063(x):
    return x * eval("1 + 1")


def gb0063_instead(x):
    return x * (1 + 1)


def gb0064(x):
    gc.collect()
    return x + 1


def gb0064_instead(x):
    return x + 1


def takes_one(x):
    return x + 1


def gb0065(x):
    try:
        return takes_one(x, x)
    except TypeError:
        return takes_one(x)


def gb0065_instead(x):
    return takes_one(x)


def gb0066(x):
    try:
        return x.reshape(2, 2)
    except RuntimeError:
        return x


def gb0066_instead(x):
    return x.reshape(1, 3)[0]


def gb0067(x):
    out = cutaway.zeros(2)
    return cutaway.add(x, 1, out=out)


def gb0067_instead(x):
    out = cutaway.zeros(3)
    return cutaway.add(x, 1, out=out)


def gb0068(x):
    return x * cutaway.tensor(np.ones(3, np.float32), requires_grad=True).detach()


def gb0068_instead(x):
    return x * cutaway.tensor(np.ones(3, np.float32))


class Thing:
    """No operator takes an object of this class."""


def gb0069(x):
    try:
        return cutaway.add(x, Thing())
    except TypeError:
        return x


def gb0069_instead(x):
    return cutaway.add(x, 0)


def gb0070(x):
    with cutaway.inference_mode():
        y = x * 2
    try:
        return y.add_(x)
    except RuntimeError:
        return x


def gb0070_instead(x):
    with cutaway.no_grad():
        y = x * 2
    return y.sub_(x)


def gb0071(x):
    return x * len(list(re.compile("a").finditer("aa")))


def gb0071_instead(x):
    return x * len(re.compile("a").findall("aa"))


class Hidden(nn.Module):
    """Shows the layers it wants to show."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def named_modules(self, *args, **kwargs):
        return iter([("", self)])


def gb0072(x, model):
    return x * len(list(nn.Module.named_parameters(model)))


def gb0072_instead(x, model):
    return x * len(model._parameters)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(cutaway.ones(3))
        self.second = self.first

    def forward(self, x):
        return x * self.first * self.second


class Untied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(cutaway.ones(3))

    def forward(self, x):
        return x * self.first * self.first


def gb0073(x, model):
    return cutaway.func.functional_call(model, {"first": x * 2}, (x,))


gb0073_instead = gb0073


def schedule_of(parameter):
    return optim.lr_scheduler.StepLR(optim.SGD([parameter], lr=0.1), 1)


def gb0074(x):
    schedule = schedule_of(cutaway.ones(3))
    schedule.step()
    return x * schedule.last_epoch


def gb0074_instead(x, schedule):
    schedule.step()
    return x


def gb0075(x):
    return cutaway.cond(x.sum() > 0, lambda v, thing: v * 2, lambda v, thing: v, (x, Thing()))


def gb0075_instead(x):
    return cutaway.cond(x.sum() > 0, lambda v: v * 2, lambda v: v, (x,))


def gb0076(x):
    return cutaway.cond(x > 0, lambda v: v * 2, lambda v: v, (x,))


def gb0076_instead(x):
    return cutaway.cond((x > 0).all(), lambda v: v * 2, lambda v: v, (x,))


def gb0077(x):
    return cutaway.cond(x.sum() > 0, lambda v: v * 2, lambda v: v.sum(), (x,))


def gb0077_instead(x):
    return cutaway.cond(x.sum() > 0, lambda v: v * 2, lambda v: v, (x,))


def gb0078(x):
    return cutaway.while_loop(lambda v: v < 4, lambda v: (v * 2,), (x,))[0]


def gb0078_instead(x):
    return cutaway.while_loop(lambda v: v.sum() < 4, lambda v: (v * 2,), (x,))[0]


def gb0079(x):
    return cutaway.map(lambda row: row * 2, x.sum())


def gb0079_instead(x):
    return cutaway.map(lambda row: row * 2, x)


def gb0080(x):
    return cutaway.scan(lambda total, row: total + row, x[0], x)


def gb0080_instead(x):
    return cutaway.scan(lambda total, row: (total + row, total), x[0], x)[1]


@compiler.assume_constant_result
def setting():
    return Thing()


@compiler.assume_constant_result
def scale():
    return 2


def gb0081(x):
    return x * len([setting()])


def gb0081_instead(x):
    return x * len([scale()])


def gb0082(x):
    return x + cutaway.tensor([1.0], requires_grad=True).detach()


def gb0082_instead(x, leaf):
    return x + leaf.detach()


def gb0083(x):
    y = x * 2
    y.retain_grad()
    return y


def gb0083_instead(x):
    return x * 2


class Same(cutaway.autograd.Function):
    """Gives back the tensor it was given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class View(cutaway.autograd.Function):
    """Gives a new tensor with the same values."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def gb0084(x):
    return Same.apply(x) * 2


def gb0084_instead(x):
    return View.apply(x) * 2


def gb0085(x):
    for _ in range(2):
        x = x + 1
        compiler.graph_break()
    return x


def gb0085_instead(x):
    for _ in range(2):
        x = x + 1
    return x


def gb0086(x):
    x.sum().backward()
    return x.detach()


def gb0086_instead(x):
    return x.detach()


def gb0087(x, schedule):
    schedule.step()
    return x * schedule.last_epoch


def gb0087_instead(x, schedule):
    epoch = schedule.last_epoch + 1
    schedule.step()
    return x * epoch


def gb0088(x):
    return cutaway.cond(x.sum() > 0, lambda v: v.add_(1), lambda v: v + 2, (x,))


def gb0088_instead(x):
    return cutaway.cond(x.sum() > 0, lambda v: v.clone().add_(1), lambda v: v + 2, (x,))


def on_the_tape():
    return cutaway.ones(3, requires_grad=True) * 1


def launch_with_a_callback(program, *built):
    """A launch of a program that calls back into Python, which no launch here does."""
    steps = (HostCallback("told", ()), *program.steps)
    return cutaway.DEFAULT_PIPELINE.launch(dataclasses.replace(program, steps=steps), *built)


WITH_A_CALLBACK = dataclasses.replace(cutaway.DEFAULT_PIPELINE, launch=launch_with_a_callback)


def gb0089(x):
    return x + 1


def gb0089_instead(x):
    return x + 1


ARGUMENTS = {
    "gb0074_instead": lambda: (cutaway.ones(3), schedule_of(cutaway.ones(3, requires_grad=True))),
    "gb0070": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0072": lambda: (cutaway.ones(3), Hidden()),
    "gb0072_instead": lambda: (cutaway.ones(3), Hidden()),
    "gb0073": lambda: (cutaway.ones(3), Tied()),
    "gb0073_instead": lambda: (cutaway.ones(3), Untied()),
    "gb0082_instead": lambda: (cutaway.ones(3), cutaway.ones(1, requires_grad=True)),
    "gb0083": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0083_instead": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0084": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0084_instead": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0086": lambda: (on_the_tape(),),
    "gb0087": lambda: (cutaway.ones(3), schedule_of(cutaway.ones(3, requires_grad=True))),
    "gb0087_instead": lambda: (cutaway.ones(3), schedule_of(cutaway.ones(3, requires_grad=True))),
}

# What compile() is told beside the function; backend="eager" for the others.
SETTINGS = {"gb0089": {"pipeline": WITH_A_CALLBACK}, "gb0089_instead": {"backend": "inductor"}}
