"""Data classes, named tuples, enums, descriptors, classes defined inside."""

import dataclasses
import enum
import functools
from collections import namedtuple
from typing import NamedTuple

from stage1_capture.tests.programs.objects import Base
from stage1_capture.tests.programs.registry import LOG, mark, program

Pair = namedtuple("Pair", "left right", defaults=(5,))


class Point(NamedTuple):
    x: object
    y: int = 2

    def total(self):
        return self.x + self.y


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def lower(self):
        return self.name.lower()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)

    def apply(self, x):
        return x * self.scale


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 3


class Clamped:
    """A descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        setattr(instance, self.name, min(value, 10))


class WithDescriptor:
    level = Clamped()


class Cached:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def double(self):
        LOG.append("computed")
        return self.x * 2


@program((3,), WithDescriptor)
def descriptor(x, o):
    o.level = 50
    mark()
    return x + o.level


@program((3,), lambda: Cached(3))
def cached_property(x, o):
    a = o.double
    mark()
    return x + a + o.double


@program()
def data_class(x):
    s = Settings(3.0)
    s.names.append("a")
    mark()
    return s.apply(x), s, s.names


@program((3,), lambda: Settings(0.5, ["z"]))
def data_class_from_outside(x, s):
    s.names.append("y")
    s.scale = 4.0
    mark()
    return s.apply(x)


@program()
def data_class_equal(x):
    mark()
    return x, Settings(1.0) == Settings(1.0), Settings(1.0) == Settings(2.0)


@program()
def data_class_replaced(x):
    s = dataclasses.replace(Settings(1.0), scale=3.0)
    mark()
    return s.apply(x)


@program()
def frozen_data_class(x):
    f = Frozen(1)
    mark()
    try:
        f.a = 2
    except dataclasses.FrozenInstanceError:
        return x + f.a + f.b


@program()
def named_tuple(x):
    p = Pair(x, 2)
    mark()
    left, right = p
    return left + right, p.right, p[1], len(p), p


@program()
def named_tuple_default(x):
    p = Pair(left=x)
    mark()
    return p.left + p.right, isinstance(p, tuple), type(p).__name__


@program()
def named_tuple_replaced(x):
    p = Pair(1, 2)._replace(right=x)
    mark()
    return p


@program()
def typed_named_tuple(x):
    p = Point(x)
    mark()
    return p.total(), p


@program()
def enum_members(x):
    c = Colour.RED
    mark()
    y = x + c.value
    return y, c is Colour.RED, c == Colour.BLUE, c.name, c.lower


@program((3,), Colour.BLUE)
def enum_argument(x, c):
    if c is Colour.BLUE:
        mark()
        return x + 2
    return x


@program()
def int_enum(x):
    mark()
    return x * Level.HIGH, Level.LOW < Level.HIGH


@program()
def enum_as_key(x):
    d = {Colour.RED: 1, Colour.BLUE: 2}
    mark()
    return x + d[Colour.BLUE]


@program()
def class_inside(x):
    class Local:
        factor = 3

        def apply(self, y):
            return y * self.factor

    mark()
    return Local().apply(x) + 1


@program()
def class_inside_after_work(x):
    y = x + 1

    class Local(Base):
        def apply(self, z):
            return super().apply(z) * 2

    z = Local(4).apply(y)
    return z


@program((3,), lambda: Base(1))
def class_attribute(x, o):
    mark()
    return x, o.kind, Base.kind, type(o).made, o.__class__.__name__


@program()
def named_tuple_as_a_tuple(x):
    pair, plain = Pair(x + 1), (x, 1)
    mark()
    items = tuple(pair)
    return items, type(items) is tuple, items == pair, tuple(plain) is plain, pair[:], [*pair]
