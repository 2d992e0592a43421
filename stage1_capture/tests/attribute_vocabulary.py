"""What random attribute programs name: descriptors, protocols, kinds of objects. Each world runs this file anew.

Input: attribute_grammar.py says how programs use these. A world is the names of one run, compiled or eager: programs
change classes, so the two may share none.
"""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence, Sized
from fractions import Fraction

import numpy as np

from stage0_eager.nn import Linear, Module, Parameter
from stage1_capture.tests.harness import tensor

SEEN = []  # what the methods below were asked, in order


def mark(*words):
    """A break."""
    print("mark", *words)


def shown(value):
    """A break in the middle of an expression."""
    print("shown")
    return value


def own_class(value):
    """The class of a value where it is the program's to change."""
    return type(value) if type(value).__module__ == "programs" else Holder


class Holder:
    def __init__(self, held):
        self.held = held


def same(one, other):
    """`is`, but for texts: two that were made alike may be one."""
    return one is other or type(one) is str


def some(value):
    """super() says one thing at first and another when Python has specialised the call (from 3.12 on): of None, and
    of a class whose metaclass reads attributes as objects do, where it binds methods to the class (seed 1805)."""
    unsure = (
        value is None or type(value).__getattribute__ is object.__getattribute__ and isinstance(value, type)
    )
    return 0 if unsure else value


def number(value):
    """A number to compute with, whatever an attribute held."""
    return value if type(value) in (int, float, bool) else 3


# ---- descriptors -------------------------------------------------------------------------------------


class Named:
    def __init__(self, name, held=None):
        self.name, self.held = name, held


class SetOnly(Named):
    """Data descriptor without `__get__`: reads find the instance's dict, then the descriptor itself."""

    def __set__(self, owner, value):
        owner.__dict__[self.name] = ["set", value]


class SetHidden(Named):
    """The same, that stores elsewhere."""

    def __set__(self, owner, value):
        vars(owner)["_" + self.name] = value


class DeleteOnly(Named):
    def __delete__(self, owner):
        owner.__dict__.pop(self.name, None)


class GetOnly(Named):
    """Non-data descriptor: the instance's dict goes before it."""

    def __get__(self, owner, cls=None):
        return ("got", self.held) if owner is not None else self


class GetSet(Named):
    def __get__(self, owner, cls=None):
        if owner is None:
            return "on the class"
        return vars(owner).get("_" + self.name, self.held)

    def __set__(self, owner, value):
        vars(owner)["_" + self.name] = value

    def __delete__(self, owner):
        del vars(owner)["_" + self.name]


class GetRaising(Named):
    def __get__(self, owner, cls=None):
        raise AttributeError(f"{self.name} is not to be had")


# ---- descriptors and methods that note each time they are asked ------------------------------------------


def from_dict(name):
    """What the instance's dict has, as a value of `noted`."""
    return lambda owner: vars(owner).get(name, "nothing")


def noted(word, answer=None):
    """A function of any arguments that notes the word; an answer that is an exception is raised."""

    def note(self, *rest):
        SEEN.append(word)
        if isinstance(answer, Exception):
            raise answer
        return answer(self) if type(answer) is types.FunctionType else answer

    return note


class WatchedRead(Named):
    """Non-data descriptor."""

    def __get__(self, owner, cls=None):
        SEEN.append(("read", self.name, owner is None))
        return self.held(owner) if type(self.held) is types.FunctionType and owner is not None else self.held


class Watched(WatchedRead):
    def __set__(self, owner, value):
        SEEN.append(("written", self.name))
        vars(owner)[self.name] = value


def watched_read(self, name):
    if name[:2] != "__":
        SEEN.append(("asked for", name))
    return object.__getattribute__(self, name)


def watched_write(self, name, value):
    SEEN.append(("written", name))
    object.__setattr__(self, name, value)


def watched_delete(self, name):
    SEEN.append(("deleted", name))
    object.__delattr__(self, name)


def derived_from(value, **names):
    """A class below the value's own, with these attributes."""
    return (
        type(value)(type(value).__name__, (type(value),), names)
        if isinstance(value, type)
        else type("Derived", (type(value),), {"__module__": "programs", **names})
    )


# ---- who asks for attributes -------------------------------------------------------------------------


@typing.runtime_checkable
class HasFoo(typing.Protocol):
    foo: typing.Any


@typing.runtime_checkable
class HasBarMethod(typing.Protocol):
    def bar(self): ...


class Hooked(abc.ABC):  # noqa: B024
    """An ABC that looks for a name in the class."""

    @classmethod
    def __subclasshook__(cls, other):
        return any("foo" in vars(c) for c in other.__mro__)


class Asked(type):
    def __instancecheck__(cls, other):
        return hasattr(other, "foo")


class AskedFor(metaclass=Asked):
    pass


# ---- kinds of objects --------------------------------------------------------------------------------


@dataclasses.dataclass
class Record:
    foo: object = 1
    baz: object = "z"


@dataclasses.dataclass(frozen=True)
class Frozen:
    foo: object = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    foo: object = 1
    bar: object = 2


class Pair(typing.NamedTuple):
    foo: object
    bar: object = 2


OldPair = collections.namedtuple("OldPair", "foo baz")


class Color(enum.Enum):
    RED = 1
    BLUE = "blue"

    @property
    def bar(self):
        return self.value


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Trouble(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


class OwnArray(np.ndarray):
    pass


def submodule():
    """One of the library's, with the same numbers in each world."""
    made = Linear(2, 2)
    made.weight, made.bias = Parameter(tensor(2, 2)), Parameter(tensor(2))
    return made


class Net(Module):
    """A module with a parameter, a buffer, a submodule and a plain attribute."""

    foo = 1

    def __init__(self):
        super().__init__()
        self.bar = 2
        self.inner = submodule()
        self.weight = Parameter(tensor(2, 3, seed=3))
        self.register_buffer("kept", tensor(2, 3, seed=4))

    def forward(self, x):
        return x * self.weight


class Registered(Module):
    """A module whose buffer, parameter and submodule have the names that programs use."""

    def __init__(self):
        super().__init__()
        self.register_buffer("foo", tensor(2, 3, seed=4))
        self.bar = Parameter(tensor(2, 3, seed=3))
        self.baz = submodule()

    def forward(self, x):
        return x * self.bar + self.foo


def fresh_function(foo=None):
    def inner(v=1, *, by=2):
        return v * by

    if foo is not None:
        inner.foo = foo
    return inner


def python_module(**names):
    made = types.ModuleType("made")
    vars(made).update(names)
    return made


NAMES = (
    Callable, Container, Fraction, Hashable, Iterable, Mapping, Sequence, Sized, abc, collections, copy, dataclasses,
    enum, functools, inspect, operator, types, typing,
)  # fmt: skip
