"""Classes and objects for small programs of attributes, and each program run before and after a change, both ways.

Input: a program, what happens before its first call, and what changes between the two: rows of the tests that name
what random attribute programs found. Each takes the names that `made()` gives.
"""

import collections
import enum
import functools
import types
import typing

import numpy as np

from stage0_eager.nn import Module
from stage0_eager.tensor import Tensor
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor


def made():
    """Classes and an object that nobody else has changed."""

    class Other:
        pass

    class Another(Other):
        pass

    class Second(Other):
        def method(self):
            return 1

        @property
        def computed(self):
            return 2

        @staticmethod
        def still():
            return 3

        @classmethod
        def on_class(cls):
            return 4

        @functools.cached_property
        def kept(self):
            return 5

    class Meta(type):
        pass

    class Made(metaclass=Meta):
        pass

    class Net(Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("bar", tensor(2))
            self.foo = Module()

    class Seeing(Net):
        pass

    class Slotted:
        __slots__ = ("bar",)

    class OwnTensor(Tensor):
        bar = "own"

    class OwnArray(np.ndarray):
        bar = "own"

    class OwnNumber(np.float64):
        bar = "own"

    class Color(enum.Enum):
        RED = 1

    @typing.runtime_checkable
    class HasMethod(typing.Protocol):
        def bar(self): ...

    Color.bar = Other()
    Pair = collections.namedtuple("Pair", "foo bar")
    names = (
        Other,
        Another,
        Second,
        Meta,
        Made,
        Net,
        Seeing,
        OwnTensor,
        OwnArray,
        OwnNumber,
        Color,
        Pair,
        HasMethod,
    )
    slotted = Slotted()
    slotted.bar = 1
    objects = {
        "o": Second(),
        "made": Made(),
        "net": Net(),
        "slotted": slotted,
        "seen": [],
        "tensor": tensor(2),
        "array": np.ones(3).view(OwnArray),
        "number": OwnNumber(1.5),
        "color": Color.RED,
        "pair": Pair(1, 2),
        "python": types.ModuleType("made"),
    }
    return {cls.__name__: cls for cls in names} | objects


def noting(w, answer):
    """A function of any arguments that leaves a trace."""

    def note(*_):
        w["seen"].append("asked")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return note


def watched(cls, *names, on=None):
    """The class gets a `__getattribute__` that notes reads of these names. on: an object of it that has them."""

    def change(w):
        if on is not None:
            vars(w[on]).update(dict.fromkeys(names, 2))

        def note(self, name):
            if name in names:
                w["seen"].append(name)
            return object.__getattribute__(self, name)

        w[cls].__getattribute__ = note

    return change


class Watched:
    """A descriptor in Python that notes who asks it: an object or the class."""

    def __init__(self, w, answer):
        self.w, self.answer = w, answer

    def __get__(self, owner, cls=None):
        self.w["seen"].append(owner is None)
        return self.answer


def attribute_comes(w):
    w["o"].bar = 2


def attribute_goes(w):
    vars(w["o"]).pop("bar", None)


def nothing(w):
    pass


def both_ways(program, before, between):
    """What eager and compiled code showed: results, what is left on the object, what was seen."""

    def run(x, w):
        return (x * 2).shape, program(x, w)

    shown = []
    for function in (run, Compiled(run)):
        w, x = made(), tensor(2)
        before(w)
        first = function(x, w)
        left = dict(vars(w["o"]))
        attribute_goes(w)
        before(w)
        between(w)
        second = function(x, w)
        shown.append((first, left, second, object.__getattribute__(w["o"], "__dict__"), w["seen"]))
    return shown
