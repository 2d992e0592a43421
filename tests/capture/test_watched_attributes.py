"""Objects whose class has a `__getattribute__` of its own: it is followed at capture, and no guard ever calls it.

Input: classes as libraries write them for configurations (a second name for an attribute), with `__getattr__`,
properties, values computed on the fly; each program runs three times, with a change in between that asks for a recompile.
"""

import copy
import inspect
import sys
from collections.abc import Sequence

import pytest

import cutaway


class Renaming:
    table = {"b": "a"}  # as libraries have it

    def __init__(self):
        self.a, self.c, self.n = 2.0, [1, 2], 0

    def __getattribute__(self, name):
        if name != "table" and name in super().__getattribute__("table"):
            name = super().__getattribute__("table")[name]
        return super().__getattribute__(name)


class AlsoComputing(Renaming):
    def __getattr__(self, name):
        if name == "z":
            return 5.0
        raise AttributeError(name)

    def method(self, x):
        return x * self.a

    @property
    def more(self):
        return self.b + 1


class Counting(AlsoComputing):
    """Its `__getattribute__` does something else, too: it is not followed."""

    def __getattribute__(self, name):
        if name == "magic":
            return 7.0
        if name == "count":
            n = object.__getattribute__(self, "n")
            object.__setattr__(self, "n", n + 1)
            return n
        return AlsoComputing.__getattribute__(self, name)


def second_name(x, c):
    return x * c.b + c.a


def computed(x, c):
    return x * c.z + c.method(x) * c.more


def asked_quietly(x, c):
    return x * getattr(c, "nope", 3.0) + (1 if hasattr(c, "b") else 2)


def stored(x, c):
    c.a = c.b + 1
    return x * c.b


def copied(x, c):
    d = copy.deepcopy(c)
    d.a = 9.0
    return x * d.b + c.b


def with_effects(x, c):
    return x * c.magic + c.count + c.count


def caught(x, c):
    try:
        return x * c.none
    except AttributeError as error:
        return x + len(str(error))


def as_a_dict(x, c):
    return x * vars(c)["a"] + len(c.__dict__)


PROGRAMS = (second_name, computed, asked_quietly, stored, copied, with_effects, caught, as_a_dict)


def three_calls(function, kind):
    c, said = kind(), []
    for call in range(3):
        try:
            said.append(function(cutaway.ones(2) * 2, c).tolist())
        except AttributeError as error:
            said.append(str(error))
        if call == 1:
            object.__setattr__(c, "a", 4.0)
    return said, object.__getattribute__(c, "__dict__")


@pytest.mark.parametrize("kind", [Renaming, AlsoComputing, Counting], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_followed(program, kind):
    compiled = cutaway.compile(program, backend="eager")
    assert three_calls(compiled, kind) == three_calls(program, kind)
    raises = {("computed", "Renaming"), ("with_effects", "Renaming"), ("with_effects", "AlsoComputing")}
    copies = {("copied", "AlsoComputing")}  # whose __getattr__ the copy is asked, too
    whole = kind is not Counting and (program.__name__, kind.__name__) not in raises | copies
    assert not (whole and compiled.breaks), compiled.breaks


def test_no_guard_calls_it():
    """Neither does residual code: a call that an entry fits runs no Python of the class."""
    compiled, c, x = cutaway.compile(second_name, backend="eager"), Renaming(), cutaway.ones(2)
    compiled(x, c)
    called = []

    def watch(frame, event, arg):
        if event == "call" and frame.f_code is Renaming.__getattribute__.__code__:
            called.append(frame.f_locals["name"])

    sys.setprofile(watch)
    try:
        compiled(x, c)
    finally:
        sys.setprofile(None)
    assert called == [] and len(compiled.entries) == 1


def test_the_method_may_change():
    class Mine(Renaming):
        pass

    compiled, c, x = cutaway.compile(second_name, backend="eager"), Mine(), cutaway.ones(2)
    assert compiled(x, c).tolist() == [4, 4]
    Mine.__getattribute__ = lambda self, name: 10.0
    assert compiled(x, c).tolist() == [20, 20]
    del Mine.__getattribute__
    assert compiled(x, c).tolist() == [4, 4]


class View(Sequence):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return i + 1


def test_a_sequences_generator_that_is_dropped():
    """zip drops it inside Sequence.__iter__'s `try`, whose `except IndexError` does nothing then."""

    def f(x):
        for a, b in zip([1, 2], View(5), strict=False):
            x = x * a + b
        return x

    compiled = cutaway.compile(f, backend="eager", fullgraph=True)
    assert compiled(cutaway.ones(2)).tolist() == f(cutaway.ones(2)).tolist()


def test_a_generator_that_notices_is_not_dropped_quietly():
    seen = []

    def noticing():
        try:
            yield 1
            yield 2
        except GeneratorExit:
            seen.append("left")
            raise

    def f(x):
        for a, b in zip([1], noticing(), strict=False):
            x = x * a + b
        return x

    assert cutaway.compile(f, backend="eager")(cutaway.ones(2)).tolist() == [2, 2]
    assert seen == ["left"]


def takes(x, y, /, scale=2, *rest, flag: bool = True, **more):
    return x


class Block:
    def feed(self, x, y=1):
        return x


SIGNED = {"function": takes, "method": Block().feed, "unbound": Block.feed, "lambda": lambda: 0}


@pytest.mark.parametrize("function", SIGNED.values(), ids=SIGNED)
def test_signatures(function):
    def f(x, g):
        parameters = inspect.signature(g).parameters
        names = [name for name in parameters if name != "y"]
        given = sum(p.default for p in parameters.values() if isinstance(p.default, int))
        kinds = len([p for p in parameters.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD])
        bare = sum(1 for p in parameters.values() if p.default is inspect.Parameter.empty)
        return x * len(names) + given + 10 * kinds + 100 * bare

    compiled = cutaway.compile(f, backend="eager", fullgraph=True)
    assert compiled(cutaway.ones(2), function).tolist() == f(cutaway.ones(2), function).tolist()
