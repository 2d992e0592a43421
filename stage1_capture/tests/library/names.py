"""What the rows of the tables may name: classes, functions, managers, objects of the module; reset between two runs.

Input: nothing. `NAMES` is what the rows' functions have as globals.
"""

import collections.abc
import contextlib
import dataclasses
import enum
import functools
import importlib
import operator
import random
import threading
import typing

from stage0_eager import is_grad_enabled, no_grad
from stage0_eager.tensor import Tensor

IMPORTED = """array base64 bisect builtins cmath collections contextlib copy dataclasses datetime decimal enum fractions
functools hashlib heapq inspect io itertools json logging math numbers operator os pathlib pprint queue random re shlex
statistics string struct sys textwrap threading time types typing unicodedata uuid warnings weakref""".split()

LOG = []
KEPT = {}
OPEN = []
LOCK, RLOCK, LOCAL = threading.Lock(), threading.RLock(), threading.local()
OWN = random.Random(7)
STATE = random.Random(11).getstate()
Point = collections.namedtuple("Point", "a b")
index_of = operator.index


def caught(function):
    """What a call gives, or what it raises, as text."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


class Thing:
    def __init__(self, x, k=5):
        self.x, self.k = x, k

    @classmethod
    def made(cls, x):
        return cls(x)

    @staticmethod
    def static(k):
        return k + 1

    @property
    def doubled(self):
        return self.k * 2

    @doubled.setter
    def doubled(self, value):
        self.k = value * 2

    def plus(self, k):
        return self.k + k

    plus_two = functools.partialmethod(plus, 2)

    @functools.cached_property
    def twice(self):
        return self.x * 2

    @functools.singledispatchmethod
    def of(self, value):
        return "any"

    @of.register
    def _(self, value: int):
        return value + self.k

    def who(self):
        return self.x + 1


class Child(Thing):
    def who(self):
        return super().who() * 2


@functools.total_ordering
class Ranked:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k

    def __lt__(self, other):
        return self.k < other.k


@dataclasses.dataclass
class Pair:
    a: int
    b: typing.Any


class Shade(enum.Enum):
    LIGHT = 1
    DARK = 2


class Closes:
    def __init__(self):
        self.k = 1

    def close(self):
        self.k = -1


class Note:
    """Notes what happens to it."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind and kind.__name__))


class Decorating(Note, contextlib.ContextDecorator):
    """A manager that is a decorator too."""


@contextlib.contextmanager
def noted(name):
    LOG.append(("begin", name))
    try:
        yield f"{name}!"
    finally:
        LOG.append(("end", name))


@noted("decorated")
def decorated(x):
    LOG.append("inside")
    return x + 1


def add3(a, b, c=0):
    return a + b + c


def backwards(a, b):
    return (b > a) - (b < a)


@functools.cache
def cached(k):
    return k * 3


@functools.lru_cache(maxsize=4)
def remembered(k):
    return k + 0.5


@functools.singledispatch
def kind(value):
    return "any"


kind.register(int, lambda value: value + 1)
kind.register(list, lambda value: value[0])


def draws(x):
    return x * random.random() + random.randint(1, 3)


KEEP = Thing(None)


def reset():
    """Back to how the module was, the generators of random numbers and the log included."""
    LOG.clear()
    KEPT.clear()
    KEEP.x, KEEP.k = None, 5
    random.seed(3)
    OWN.seed(7)
    LOCAL.__dict__.clear()
    cached.cache_clear()
    remembered.cache_clear()
    OPEN[:] = [contextlib.ExitStack()]
    OPEN[0].callback(LOG.append, "given")
    assert not LOCK.locked()


NAMES = {
    **{name: importlib.import_module(name) for name in IMPORTED},
    "abc": collections.abc,
    "is_grad_enabled": is_grad_enabled,
    "no_grad": no_grad,
    "Tensor": Tensor,
    **{
        name: value for name, value in globals().items() if not name.startswith("_") and name != "annotations"
    },
}
