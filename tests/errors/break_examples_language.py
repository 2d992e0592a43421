"""One program for each break of Python's own language, GB0031 to GB0059, and what to write instead.

Input: as break_examples.py, which has the codes before; the site's page and a test run them.
"""

import abc
import collections
import dataclasses
import functools

import cutaway
from cutaway import compiler


async def later(x):
    return x + 1


def finished(coroutine):
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


class Nothing:
    """Objects of this class have no method of their own."""


def gb0031(x):
    return finished(later(x)) * 2


def gb0031_instead(x):
    return (x + 1) * 2


def guarded(x):
    try:
        yield x + 1
        yield x + 2
    finally:
        cutaway.sin(x)


def gb0032(x):
    return next(guarded(x)) * 2


def gb0032_instead(x):
    return list(guarded(x))[0] * 2


def sent_on(values):
    yield from values


class Ones:
    """An iterator that gives ones, and takes nothing."""

    def __iter__(self):
        return self

    def __next__(self):
        return 1


def gb0033(x):
    steps = sent_on(Ones())
    next(steps)
    try:
        steps.send(2)
    except AttributeError:
        return x * 3
    return x


def gb0033_instead(x):
    return x * 3


class Doubled:
    def values(self, x):
        yield self.factor() * x
        yield x

    def factor(self):
        return 2


class Tripled(Doubled):
    def values(self, x):
        yield super().factor() * x
        yield super().factor() + x


def endless(x, n):
    return x if n == 0 else endless(x, n - 1) + 1


def gb0035(x):
    return endless(x, 300)


def gb0035_instead(x):
    for _ in range(300):
        x = x + 1
    return x


def gb0036(x):
    n = 0
    for _ in range(1_000_000):
        n += 1
    return x * n


def gb0036_instead(x):
    return x * len(range(1_000_000))


def gb0037(x):
    try:
        raise ValueError("no")
    except ValueError:
        compiler.graph_break()
        try:
            raise
        except ValueError:
            return x + 1


def gb0037_instead(x):
    return x + 1


def gb0038(x):
    try:
        return ([x] + Nothing())[0]
    except TypeError:
        return x


def gb0038_instead(x):
    return x


def gb0039(x):
    try:
        return x * sum(Nothing())
    except TypeError:
        return x


def gb0039_instead(x):
    return x * sum([1])


def gb0040(x):
    try:
        return x * Nothing()[0]
    except TypeError:
        return x


def gb0040_instead(x):
    return x * [1][0]


def gb0041(x):
    try:
        with Nothing():
            return x * 2
    except TypeError:
        return x


def gb0041_instead(x):
    return x


def gb0042(x):
    try:
        return cutaway.sum(x, **Nothing())
    except TypeError:
        return x


def gb0042_instead(x):
    return x


def gb0043(x):
    counts = collections.defaultdict(int, a=2)
    match counts:
        case {"a": n}:
            return x * n
    return x


def gb0043_instead(x):
    counts = collections.defaultdict(int, a=2)
    return x * counts["a"] if "a" in counts else x


def gb0044(x):
    try:
        return x * [1, 2][Nothing()]
    except TypeError:
        return x


def gb0044_instead(x):
    return x * [1, 2][0]


class Unsure:
    def __len__(self):
        return Nothing()


def gb0045(x):
    try:
        return x * len(Unsure())
    except TypeError:
        return x


def gb0045_instead(x):
    return x * len([1])


def gb0046(x):
    pair = (x.ndim, 2)
    return x * (1 + (id(pair) == id(x)))


def gb0046_instead(x):
    pair = (x.ndim, 2)
    return x * (1 + (pair == x.ndim))


class Number(abc.ABC):  # noqa: B024 (it says in Python who is a subclass)
    @classmethod
    def __subclasshook__(cls, other):
        return other is int


def gb0047(x):
    return x * 2 if issubclass(int, Number) else x


def gb0047_instead(x):
    return x * 2 if issubclass(int, int) else x


def gb0048(x):
    return x * len(type(super(Tripled, Tripled())).__name__)


def gb0048_instead(x):
    return x * len("super")


def gb0049(x):
    try:
        return super(Doubled, 3).factor() * x
    except TypeError:
        return x * 2


def gb0049_instead(x):
    return Doubled.factor(Doubled()) * x


def gb0050(x):
    return x * 2 if x.is_leaf else x


def gb0050_instead(x):
    return x.detach() * 2


def gb0051(x, thing):
    names = thing.__dict__
    compiler.graph_break()
    names["scale"] = 3
    return x * thing.scale


def gb0051_instead(x, thing):
    thing.scale = 3
    return x * thing.scale


class Watched:
    scale = 2

    def __getattribute__(self, name):
        return object.__getattribute__(self, str(name))


def gb0052(x, watched):
    return watched.scale * x


def gb0052_instead(x, scale):
    return x * scale


def from_a_handler():
    try:
        raise ValueError("no")
    except ValueError:
        yield 1
        yield 2


def gb0053(x):
    steps = from_a_handler()
    return x * next(steps), steps


def gb0053_instead(x):
    steps = list(from_a_handler())
    return x * steps[0], steps


class Closing:
    def __init__(self):
        self.open = True

    def __del__(self):
        pass


def gb0054(x, closing):
    held = closing.pop()
    del held
    return x + 1


def gb0054_instead(x, closing):
    return x + 1


def gb0055(x):
    try:
        import a_module_that_is_not_there
    except ImportError:
        return x + 1
    return x * a_module_that_is_not_there.scale


def gb0055_instead(x):
    return x + 1


def gb0056(x):
    class Local:
        scale = 2

        def __init_subclass__(cls):
            pass

    class Derived(Local):
        pass

    return x * Derived.scale


class Outside:
    scale = 2


def gb0056_instead(x):
    return x * Outside.scale


def gb0057(x):
    class Local:
        size = property(lambda self: 2, None, None, "how many")

    return x * Local().size


def gb0057_instead(x):
    class Local:
        size = property(lambda self: 2)

    return x * Local().size


class Name:
    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return self.text == other.text

    def __hash__(self):
        return hash(self.text)


def gb0058(x):
    return x * {Name("a"): 2}[Name("a")]


def gb0058_instead(x):
    return x * {"a": 2}["a"]


COUNTS = []


@functools.lru_cache
def counted(n):
    COUNTS.append(n)
    return n + 1


def gb0059(x):
    return x * counted(1)


def gb0059_instead(x):
    return x * 2


@dataclasses.dataclass
class Holder:
    """What holds an attribute to be set."""


ARGUMENTS = {
    "gb0051": lambda: (cutaway.ones(3), Holder()),
    "gb0051_instead": lambda: (cutaway.ones(3), Holder()),
    "gb0052": lambda: (cutaway.ones(3), Watched()),
    "gb0052_instead": lambda: (cutaway.ones(3), 2),
    "gb0054": lambda: (cutaway.ones(3), [Closing()]),
    "gb0054_instead": lambda: (cutaway.ones(3), [Closing()]),
}
