"""Programs that define data classes inside: Python's decorator on a class of the frame's.

Input: registry.py.
"""

import dataclasses
from dataclasses import dataclass, field

from stage1_capture.tests.programs.registry import LOG, mark, program


@dataclass
class Outside:
    first: int
    second: float = 2.0


class Watched:
    def __set_name__(self, owner, name):
        LOG.append(name)


@program()
def plain(x):
    @dataclass
    class Point:
        a: object
        b: float = 2.0

        def total(self):
            mark()
            return self.a * self.b

    made = Point(x, b=3.0)
    return made.total(), made, Point, Point.b, Point.__doc__, Point.__match_args__


@program()
def frozen_and_ordered(x):
    @dataclass(frozen=True, order=True)
    class Point:
        a: int
        b: int = 1

    one, two = Point(3), Point(3, 2)
    mark()
    try:
        one.a = 5
    except dataclasses.FrozenInstanceError as error:
        said = str(error)
    return x * one.a, one < two, one == Point(3), {one: 1}[Point(3)], said, [one, two], Point


@program()
def fields_with_factories(x):
    kept = []

    def made():
        return [len(kept)]

    @dataclass
    class Point:
        a: object
        items: list = field(default_factory=list)
        mine: list = field(default_factory=made, repr=False, compare=False)
        later: int = field(init=False, default=4)

        def __post_init__(self):
            mark()
            self.items.append(self.later)
            kept.append(1)

    one, two = Point(x), Point(x + 1, [7])
    return one.a + two.later, one, two, one.items is two.items, Point


@program()
def inherits_inside(x):
    @dataclass
    class One:
        a: object

    @dataclass
    class Two(One):
        b: int = 1

        def value(self):
            return super().__init__(x + 1) or self.a * self.b

    made = Two(x, 2)
    mark()
    return made.value(), made, One, Two


@program()
def inherits_from_outside(x):
    @dataclass
    class Local(Outside):
        third: object = None

    made = Local(1, third=x)
    mark()
    return made.third * made.second + made.first, made, isinstance(made, Outside), Local


@program()
def replaced(x):
    @dataclass
    class Point:
        a: object
        b: int = 2

    made = dataclasses.replace(Point(x), b=5)
    mark()
    return made.a * made.b, made, [f.name for f in dataclasses.fields(made)], dataclasses.is_dataclass(Point)


@program()
def matched(x):
    @dataclass
    class Point:
        a: object
        b: int

    mark()
    match Point(x, 2):
        case Point(a, 2):
            return a + 1
    return x


@program()
def method_that_lives_on(x):
    @dataclass
    class Point:
        a: int

    made = Point(3)
    equal = made.__eq__
    mark()
    return x + 1, equal(Point(3)), Point.__init__.__name__, equal.__func__ is Point.__eq__


@program()
def fields_that_live_on(x):
    @dataclass
    class Point:
        a: int

    found = dataclasses.fields(Point)
    y = x + 1
    return y, found[0].name, found[0] is dataclasses.fields(Point)[0], found


@program()
def annotated_in_other_ways(x):
    @dataclass
    class Point:
        a: "int"
        b: list[int]

    return x * Point(2, []).a, Point


@program()
def changed_before(x):
    class Point:
        a: int
        b: int = 1

    Point.b = 7
    Point = dataclass(Point)
    return x * Point(2).b, Point(1)


@program()
def with_slots(x):
    @dataclass(slots=True)
    class Point:
        a: object

    return Point(x).a + 1, Point.__slots__


@program()
def with_a_default_that_is_told_its_name(x):
    @dataclass
    class Point:
        a: object = field(default=Watched())

    return x + 1, LOG[:]


@program()
def refused(x):
    y = x + 1
    try:

        @dataclass
        class Point:
            a: list = []

    except ValueError as error:
        return y, str(error)
    return Point


@program()
def used_after_a_break(x):
    @dataclass
    class Point:
        a: object
        b: float = 2.0

    made = [Point(x), Point(x + 1)]
    total = x * 0
    for point in made:
        mark(point.b)
        total = total + point.a * point.b
        point.b += 1.0
    return total, made, Point
