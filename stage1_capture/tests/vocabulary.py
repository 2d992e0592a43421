"""What random programs may name: functions with and without breaks, generators, managers, objects; and the log.

Input: grammar.py says how programs use these. Everything that happens is noted in LOG or printed, so its order shows.
"""

import contextlib
from collections import deque

from stage0_eager import enable_grad, no_grad
from stage0_eager.functions.pointwise import sin

LOG = []
# What a generator notes that is dropped before its end. An exception that was handled across a break, or that left the
# function, may keep it alive until the garbage collector comes: that its end runs is promised, not when.
ENDED = []


# ---- functions -------------------------------------------------------------------------------------


def helper(x, by=2):
    return x * by if by else x


def mark(*words):
    """A break."""
    print("mark", *words)


def shown(value):
    """A break in the middle of an expression."""
    print("shown", type(value).__name__)
    return value


def broken(x, by=1):
    """A callee with a break of its own."""
    y = x + by
    LOG.append(by)
    print("in broken", by)
    return y * 2


def failing(x, n):
    if n % 2:
        raise ValueError(f"odd {n}")
    return x + n


def spread(*values, by=1, **named):
    """The first value times the number of all."""
    return values[0] * (len(values) + len(named) + by)


def nested(x, depth):
    """Recursion, with a break at the bottom."""
    if depth <= 0:
        mark("bottom")
        return x
    return nested(x * 0.5, depth - 1) + 1


def noted(function):
    """A decorator."""

    def inner(*args, **kwargs):
        LOG.append("called")
        return function(*args, **kwargs)

    return inner


# ---- generators ------------------------------------------------------------------------------------


def counting(n):
    """A generator that takes what is sent to it."""
    total = 0
    for i in range(n):
        sent = yield total
        total += i if sent is None else sent


def guarding(values):
    """A generator with a finally, a break inside, and a return value."""
    seen, where = 0, ENDED
    try:
        for value in values:
            seen += 1
            if seen == 2:
                print("second")
            yield value
        where = LOG
    finally:
        where.append(("seen", seen))
    return seen


def relayed(values):
    """A generator that hands on to another."""
    count = yield from guarding(values)
    LOG.append(count)


# ---- objects ---------------------------------------------------------------------------------------


class Box:
    limit = 3

    def __init__(self, value):
        self.value, self.seen = value, []

    def put(self, value):
        self.seen.append(self.value)
        self.value = value
        return self

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, value):
        print("set")
        self.value = value * 0.5

    def __add__(self, other):
        return Box(self.value + other)

    def __call__(self, x, by=1):
        return self.value - x * by

    def __len__(self):
        return len(self.seen)

    def __bool__(self):
        return True

    def __getitem__(self, key):
        return self.seen[key]

    def __setitem__(self, key, value):
        LOG.append(("set", key))
        self.seen[key] = value

    def __contains__(self, value):
        return value == self.limit

    def __iter__(self):
        yield from (self.limit, 1)


class Loud(Box):
    """A subclass with a break in its methods."""

    def put(self, value):
        mark("put")
        return super().put(value + self.limit)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return len(name)


class Trouble(ValueError):
    """An exception with state."""

    def __init__(self, code):
        super().__init__(f"trouble {code}")
        self.code = code


# ---- managers --------------------------------------------------------------------------------------


class Guarded:
    """A context manager that notes what happens, and takes ValueErrors."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind and kind.__name__))
        return kind is not None and issubclass(kind, ValueError)


class Printing(Guarded):
    """A manager with breaks in both methods, which takes nothing."""

    def __enter__(self):
        print("enter")
        return super().__enter__()

    def __exit__(self, kind, value, traceback):
        print("exit", kind and kind.__name__)


@contextlib.contextmanager
def managed(n):
    LOG.append(("begin", n))
    try:
        yield n + 1
    finally:
        LOG.append(("end", n))


@contextlib.contextmanager
def swallowing(n):
    """Takes KeyErrors, with a break."""
    try:
        yield n
    except KeyError as error:
        print("swallowed", error)


NAMES = {name: value for name, value in globals().items() if callable(value)}
NAMES |= {
    "LOG": LOG,
    "ENDED": ENDED,
    "suppress": contextlib.suppress,
    "no_grad": no_grad,
    "enable_grad": enable_grad,
    "sin": sin,
    "deque": deque,
}
NAMES |= {"G": 1.5, "__name__": "random_program"}
