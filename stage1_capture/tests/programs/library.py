"""The standard library inside a function: functools, operator, itertools, copy, contextlib, re, datetime, typing."""

import collections.abc
import contextlib
import copy
import datetime
import functools
import itertools
import math
import numbers
import operator
import re
import sys
import typing
from fractions import Fraction

from stage1_capture.tests.programs.registry import LOG, mark, program

PATTERN = re.compile(r"(\w)(\d)")
GET = operator.attrgetter("b.c", "d")


@functools.cache
def doubled(n):
    return n * 2


@functools.cache
def counted(n):
    LOG.append(n)
    return n + 1


@functools.lru_cache
def listed(n):
    return [n, n + 1]


@functools.singledispatch
def kind(value):
    return 1


@kind.register
def _(value: int):
    return value * 10


@kind.register(list)
def _(value):
    return value[0]


def deco(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) + 1

    return inner


@deco
def decorated(x):
    """Doubles."""
    return x * 2


decorated.tag = 4


class Node:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Scaled:
    def __init__(self, by):
        self.by, self.log = by, []

    @functools.cache
    def cached(self, n):
        return self.by + n

    @functools.cached_property
    def square(self):
        self.log.append("computed")
        return self.by * self.by

    def both(self, a, b):
        return self.by * a + b

    half = functools.partialmethod(both, b=4)


@typing.runtime_checkable
class Goes(typing.Protocol):
    def go(self): ...


class Goer:
    def go(self):
        return 1


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, v):
        self.v = v


SCALED = Scaled(3)


def reset():
    doubled.cache_clear()
    counted.cache_clear()
    listed.cache_clear()
    Scaled.cached.cache_clear()


@program()
def cached(x):
    mark()
    return x + doubled(3) + doubled(3), doubled.__name__


@program()
def cached_with_effects(x):
    mark()
    return x + counted(3) + counted(3), list(LOG)


@program()
def cached_list(x):
    listed(1).append(5)
    mark()
    return x + len(listed(1)), listed(1) is listed(1)


@program((3,), lambda: SCALED)
def cached_method(x, s):
    mark()
    return x + s.cached(2)


@program((3,), lambda: Scaled(4))
def cached_property(x, s):
    mark()
    return x + s.square + s.square, s.log


@program()
def dispatched(x):
    mark()
    return x + kind(3) + kind([4]) + kind("other")


@program()
def wrapped(x):
    again = deco(decorated)
    mark()
    return again(x), again.__name__, again.__doc__, again.tag, again.__wrapped__(x)


@program()
def partial_parts(x):
    p = functools.partial(pow, 2)
    q = functools.partial(p, 3)
    mark()
    return x + q(), p.func is pow, q.args, q.keywords, SCALED.half(2)


@program()
def getters(x):
    node = Node(b=Node(c=4), d=5)
    get = operator.itemgetter(1)
    mark()
    rows = sorted([(2, "a"), (1, "b")], key=operator.itemgetter(0))
    return get([x, x * 2]) + GET(node)[0], operator.methodcaller("split", ",")("a,b"), rows


@program()
def grouped(x):
    groups = [(k, list(g)) for k, g in itertools.groupby("aabca")]
    mark()
    first, second = itertools.tee([1, 2, 3])
    next(first)
    again = {k: len(list(g)) for k, g in itertools.groupby([1, 3, 2], key=lambda a: a % 2)}
    return x + len(groups), groups, again, list(second), list(first)


@program()
def combined(x):
    pairs = list(itertools.combinations_with_replacement("ab", 2))
    mark()
    return x + len(pairs), pairs, list(itertools.zip_longest([1, 2], [3], fillvalue=0))


@program()
def copied(x):
    node = Node(rows=[1], y=x + 1)
    deep, shallow = copy.deepcopy(node), copy.copy(node)
    deep.rows.append(2)
    shallow.rows.append(3)
    mark()
    return deep.y + 1, node.rows, deep.rows, shallow.rows is node.rows


@contextlib.contextmanager
def logged(n):
    LOG.append(n)
    yield n
    LOG.append(-n)


@logged(7)
def inside(x):
    return x * 2


@program()
def exit_stack(x):
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(logged(1))
        stack.callback(LOG.append, 99)
        x = x + a + stack.enter_context(logged(2))
    mark()
    return inside(x), list(LOG)


@program()
def managers_of_the_library(x):
    with contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
        x = x + three
        {}["a"]
    mark()
    return x * 2


@program()
def patterns(x):
    found = re.match(r"a(\d+)", "a12")
    mark()
    return x + int(found.group(1)), PATTERN.findall("a1b2"), re.sub("a", "b", "aa"), bool(re.search("z", "a"))


@program((3,), datetime.date(2020, 1, 2))
def dates(x, d):
    later = d + datetime.timedelta(days=3)
    mark()
    return x + later.day, d.isoformat(), Fraction(1, 3) + Fraction(1, 6)


@program()
def type_checks(x):
    mark()
    return (
        x,
        isinstance([], collections.abc.Sequence),
        isinstance(3, numbers.Number),
        isinstance(3, int | str),
        (isinstance(None, int | None)),
        isinstance(Goer(), Goes),
        isinstance(3, Goes),
        isinstance({}.keys(), collections.abc.KeysView),
        issubclass(bool, int),
    )


@program()
def generic_class(x):
    y: int | None = typing.cast(int, 3)
    mark()
    return Box(x).v + Box[int](y).v


@program()
def number_methods(x):
    mark()
    return (
        x,
        (5).bit_length(),
        (0.5).as_integer_ratio(),
        int("ff", 16),
        float.fromhex("0x1.8p+0"),
        bin(5),
        (int.from_bytes(b"a", "big")),
        divmod(-7, 2),
        pow(3, -1, 7),
        round(2.567, 2),
        math.comb(5, 2),
        2**100,
        slice(0, 9, 2).indices(5),
    )


@program()
def text_methods(x):
    mark()
    return (
        x,
        "ab".translate(str.maketrans("a", "z")),
        "{} {a!r:>5}".format(1, a="q"),
        "%s %03d" % ("a", 5),
        "a,b".split(","),
    )


@program()
def loaded_modules(x):
    mark()
    modules = sys.modules
    absent = modules.get("no.such"), modules.get("no.such", 3), "no.such" in modules
    try:
        modules["no.such"]
    except KeyError as error:
        absent = (*absent, str(error))
    there = modules["math"] is math, "math" in modules, modules.get("re") is re
    return x + len(there), absent, there


@program()
def all_loaded_modules(x):
    mark()
    every = sys.modules
    return (
        x,
        len(every) > 9,
        "math" in [*every],
        every.keys() >= {"re"},
        list(every.items())[0][0],
        dict(every) == every,
    )


@program()
def a_module_of_the_program(x):
    mark()
    before = "no.such" in sys.modules
    sys.modules["no.such"] = math
    found = sys.modules["no.such"].sqrt(4.0), "no.such" in sys.modules, [*sys.modules][-1]
    del sys.modules["no.such"]
    return x * found[0], before, found, "no.such" in sys.modules
