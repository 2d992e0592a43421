"""One program for each code of a write or an attribute that a graph cannot hold, and what to write instead.

Input: as in break_examples.py, for the codes from GB0090 on.
"""

import functools
from typing import NamedTuple

import cutaway


def gb0090(x):
    x.add_(1)
    return x * 2


def gb0090_instead(x):
    x = x + 1
    return x * 2


def gb0091(x):
    x.requires_grad_(True)
    return x * 2


def gb0091_instead(x):
    return x * 2


def gb0092(x):
    cutaway.manual_seed(3)
    return x * 2


def gb0092_instead(x):
    return x * 2


def gb0093(x, seen):
    def double(v):
        seen.append(1)
        return v * 2

    return cutaway.cond(x.sum() > 0, double, lambda v: v, (x,))


def gb0093_instead(x, seen):
    return cutaway.cond(x.sum() > 0, lambda v: v * 2, lambda v: v, (x,))


def schedule():
    weight = cutaway.ones(3, requires_grad=True)
    return cutaway.optim.lr_scheduler.StepLR(cutaway.optim.SGD([weight], lr=0.1), 1)


def gb0094(x, schedule):
    schedule.gamma = 0.5
    schedule.step()
    return x * 2


def gb0094_instead(x, schedule):
    schedule.step()
    return x * 2


def gb0095(x):
    factors = [2.0]
    y = x * 1
    y.register_hook(lambda g: g * factors[0])
    factors[0] = 3.0
    return y


def gb0095_instead(x):
    factor = 2.0
    y = x * 1
    y.register_hook(lambda g: g * factor)
    return y


def handle():
    return cutaway.ones(3, requires_grad=True).register_hook(lambda g: g * 2)


def gb0096(x, handle):
    handle.remove()
    return x * 2


def gb0096_instead(x, handle):
    return x * 2


def gb0097(x, factors):
    return x * factors.pop()


def gb0097_instead(x, factors):
    return x * factors.pop()


class Described:
    """A property whose getter is not a Python function: capture cannot follow it."""

    size = property(len)

    def __len__(self):
        return 2


class Plain:
    """A property with a plain function."""

    @property
    def size(self):
        return 2


def gb0098(x, thing):
    return x * thing.size


gb0098_instead = gb0098


class LateNames(type(cutaway)):
    """A module that computes a name when it is asked for."""

    def __getattr__(self, name):
        if name == "two":
            return 2
        raise AttributeError(name)


LATE = LateNames("late")
TWO = LATE.two


def gb0099(x):
    return x * LATE.two


def gb0099_instead(x):
    return x * TWO


def gb0100(x):
    scales = (2, 3)
    try:
        scales[0] = 4
    except TypeError:
        scales = (5,)
    return x * scales[0]


def gb0100_instead(x):
    scales = [2, 3]
    scales[0] = 5
    return x * scales[0]


def gb0101(x, y):
    x.data = y
    return x * 2


def gb0101_instead(x, y):
    x.copy_(y)
    return x * 2


class Shelf:
    scale = 2


def gb0102(x):
    Shelf.__doc__ = "changed"
    return x * 2


def gb0102_instead(x):
    return x * 2


class Unwatched:
    """Its __setattr__ is C's, under another name than object's."""

    __setattr__ = functools.partialmethod(object.__setattr__)


class Watched:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


def gb0103(x, thing):
    thing.scale = 2
    return x * thing.scale


gb0103_instead = gb0103


class Lazy:
    """The slot has no value until __getattr__ gives one."""

    __slots__ = ("scale",)

    def __getattr__(self, name):
        return 2


class Eager(Lazy):
    __slots__ = ()

    def __init__(self):
        self.scale = 2


def gb0104(x, thing):
    return x * thing.scale


gb0104_instead = gb0104


class Computing(type):
    def __getattr__(cls, name):
        return 2


class Computed(metaclass=Computing):
    """`Computed.scale` is what the metaclass computes."""


class Given(metaclass=Computing):
    scale = 2


def gb0105(x):
    return x * Computed.scale


def gb0105_instead(x):
    return x * Given.scale


class Point(NamedTuple):
    scale: int


class Replaced(NamedTuple):
    scale: int


Replaced.scale = property(lambda point: point[0])


def gb0106(x, point):
    return x * point.scale


gb0106_instead = gb0106


def view_on_the_tape():
    return (cutaway.ones(3, requires_grad=True) * 1)[:]


ARGUMENTS = {
    "gb0090": lambda: (view_on_the_tape(),),
    "gb0090_instead": lambda: (view_on_the_tape(),),
    "gb0093": lambda: (cutaway.ones(3), []),
    "gb0093_instead": lambda: (cutaway.ones(3), []),
    "gb0094": lambda: (cutaway.ones(3), schedule()),
    "gb0094_instead": lambda: (cutaway.ones(3), schedule()),
    "gb0095": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0095_instead": lambda: (cutaway.ones(3, requires_grad=True),),
    "gb0096": lambda: (cutaway.ones(3), handle()),
    "gb0096_instead": lambda: (cutaway.ones(3), handle()),
    "gb0097": lambda: (cutaway.ones(3), {2}),
    "gb0097_instead": lambda: (cutaway.ones(3), [2]),
    "gb0098": lambda: (cutaway.ones(3), Described()),
    "gb0098_instead": lambda: (cutaway.ones(3), Plain()),
    "gb0101": lambda: (cutaway.ones(3), cutaway.zeros(3)),
    "gb0101_instead": lambda: (cutaway.ones(3), cutaway.zeros(3)),
    "gb0103": lambda: (cutaway.ones(3), Unwatched()),
    "gb0103_instead": lambda: (cutaway.ones(3), Watched()),
    "gb0104": lambda: (cutaway.ones(3), Lazy()),
    "gb0104_instead": lambda: (cutaway.ones(3), Eager()),
    "gb0106": lambda: (cutaway.ones(3), Replaced(1)),
    "gb0106_instead": lambda: (cutaway.ones(3), Point(1)),
}
