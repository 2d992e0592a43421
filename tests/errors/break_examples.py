"""One program for each of the first codes of breaks, and what to write instead: the site's page and a test run them.

Input: `gb0003` breaks with GB0003 on ARGUMENTS["gb0003"](), compiled with SETTINGS["gb0003"]; `gb0003_instead` says the
same and is captured whole. Functions without a code are what the examples use.
"""

import copy
import random
import sys

import numpy as np

import cutaway
from cutaway import compiler


def gb0001(x):
    try:
        raise ValueError("no")
    except* ValueError:
        x = x + 1
    return x


def gb0001_instead(x):
    return x + 1


def gb0002(x):
    return x * (sys.getsizeof(3) > 0)


def gb0002_instead(x):
    return x * True


def gb0003(x):
    if x.sum() > 0:
        return x * 2
    return x * 3


def gb0003_instead(x):
    return cutaway.where(x.sum() > 0, x * 2, x * 3)


def gb0004(x):
    return x / x.sum().item()


def gb0004_instead(x):
    return x / x.sum()


class Labelled(cutaway.Tensor):
    """A tensor of your own class."""


def gb0005(x, y):
    return x + y


gb0005_instead = gb0005


def doubled(x):
    return x * 2


def gb0006(x):
    doubled.__name__ = "twice"
    return doubled(x)


def gb0006_instead(x):
    return doubled(x)


def gb0007(x):
    # on a Python that is none of those
    return x + 1


def gb0007_instead(x):
    return x + 1


def gb0008(x, bias):
    x.detach().add_(bias)  # x gets the values of bias and not its history
    return x * 2


def gb0008_instead(x, bias):
    return (x + bias) * 2


def gb0009(x):
    if x.ndim != 2:
        raise ValueError("expected a matrix")
    return x.sum(0)


def gb0009_instead(x):
    return x.sum(0) if x.ndim == 2 else x


def gb0010(x, scales):
    return x * next(scales)


def gb0010_instead(x, scales):
    return x * scales[0]


def gb0011(x):
    return x * cutaway.linspace(0, 1, x.shape[0])


def gb0011_instead(x):
    return x * (cutaway.arange(x.shape[0]) / (x.shape[0] - 1))


def without_square(graph_module, example_inputs):
    """A backend that knows one operator less."""
    if any(node.target is cutaway.square for node in graph_module.graph.nodes):
        raise NotImplementedError("square")
    return graph_module.forward


def gb0012(x):
    return cutaway.square(x) + 1


def gb0012_instead(x):
    return x * x + 1


def gb0013(x):
    return cutaway.cond(x.sum() > 0, lambda v: v + cutaway.rand_like(v), lambda v: v * 2, (x,))


def gb0013_instead(x):
    noise = cutaway.rand_like(x)
    return cutaway.cond(x.sum() > 0, lambda v, n: v + n, lambda v, n: v * 2, (x, noise))


def gb0014(x):
    return x[x > 0].sum()


def gb0014_instead(x):
    return cutaway.where(x > 0, x, 0).sum()


def gb0015(x):
    return cutaway.special.gammainc(x, cutaway.full_like(x, 2))


def gb0015_instead(x):
    return cutaway.special.gammainc(x.detach(), cutaway.full_like(x, 2))


@compiler.disable
def logged(x):
    return x + 1


def gb0016(x):
    count = (x > 0).sum().item()
    return x * 2 if count > 2 else x


def gb0016_instead(x):
    count = (x > 0).sum()
    return cutaway.where(count > 2, x * 2, x)


def gb0020(x):
    return logged(x * 2)


def gb0020_instead(x):
    return x * 2 + 1


def gb0021(x):
    y = x + 1
    compiler.graph_break()
    return y * 2


def gb0021_instead(x):
    y = x + 1
    return y * 2


class Labels:
    names = ("first", "second")


def gb0022(x):
    return x * len(Labels.__dict__["names"])


def gb0022_instead(x):
    return x * len(Labels.names)


class Counted:
    """Objects of this class run Python code when they go."""

    def __del__(self):
        pass


class Plain:
    """Objects of this class do not."""


def gb0023(x):
    scale = Counted()
    scale.value = 2
    return x * scale.value


def gb0023_instead(x):
    scale = Plain()
    scale.value = 2
    return x * scale.value


def gb0024(x):
    loss = (x * x).sum()
    loss.backward()
    return loss


def gb0024_instead(x):
    return (x * x).sum()


def leaf_with_a_hook():
    leaf = cutaway.ones(3, requires_grad=True)
    leaf.register_hook(lambda gradient: gradient * 2)
    return leaf


def gb0025(x):
    y = x * 2
    y.mul_(2)
    y.register_hook(lambda gradient: gradient * 2)
    return y


def gb0025_instead(x):
    y = x * 2 * 2
    y.register_hook(lambda gradient: gradient * 2)
    return y


class Twice(cutaway.autograd.Function):
    """Gives one new tensor two times."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y

    @staticmethod
    def backward(ctx, first, second):
        return (first + second) * 2


class Once(cutaway.autograd.Function):
    """Gives one new tensor."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def gb0026(x):
    return Twice.apply(x)[0] * 2


def gb0026_instead(x):
    return Once.apply(x) * 2


def gb0027(x):
    random.seed()  # by the clock: no graph can draw the same
    return x + 1


def gb0027_instead(x):
    return x + 1


def gb0028(x):
    return copy.deepcopy([x * 2], {})[0]


def gb0028_instead(x):
    return copy.deepcopy([x * 2])[0]


def gb0029(x):
    return x * len(str(Plain())[:1])


def gb0029_instead(x):
    return x * len(Plain.__name__[:1])


def gb0030(x):
    return x + np.hanning(3).astype(np.float32)


def gb0030_instead(x):
    return x + (0.5 - 0.5 * np.cos(np.pi * np.arange(3))).astype(np.float32)


ARGUMENTS = {
    "gb0005": lambda: (cutaway.ones(3), Labelled(cutaway.ones(3)._data)),
    "gb0005_instead": lambda: (cutaway.ones(3), cutaway.ones(3)),
    "gb0008": lambda: (cutaway.ones(3), cutaway.ones(3, requires_grad=True)),
    "gb0008_instead": lambda: (cutaway.ones(3), cutaway.ones(3, requires_grad=True)),
    "gb0009_instead": lambda: (cutaway.ones(2, 3),),
    "gb0010": lambda: (cutaway.ones(3), iter([2.0, 3.0])),
    "gb0010_instead": lambda: (cutaway.ones(3), [2.0, 3.0]),
    "gb0015": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0015_instead": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0024": lambda: (leaf_with_a_hook(),),
    "gb0024_instead": lambda: (leaf_with_a_hook(),),
    "gb0025": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0025_instead": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0026": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0026_instead": lambda: (cutaway.ones(3, requires_grad=True),),
}

# What compile() is told beside the function; backend="eager" for the others.
SETTINGS = {
    "gb0008": {"backend": "aot_eager"},
    "gb0011": {"backend": "inductor", "dynamic": True},
    "gb0012": {"backend": without_square, "options": {"capture.suppress_errors": True}},
    "gb0015": {"backend": "aot_eager"},
    "gb0016": {"backend": "eager", "options": {"capture.capture_scalar_outputs": True}},
}
