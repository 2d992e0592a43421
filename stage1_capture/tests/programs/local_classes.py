"""Programs that define classes: followed, looked up, and made again where they live on.

Input: registry.py. A class that is returned is compared by its names, its bases and what its methods close over.
"""

import functools

from stage1_capture.tests.programs.registry import mark, program


class Base:
    kind = "base"

    def __init__(self, v):
        self.v = v

    def apply(self, x):
        return x + self.v

    @classmethod
    def make(cls, v):
        return cls(v)

    @property
    def twice(self):
        return self.v * 2


def extended(cls):
    cls.extra = 5
    return cls


@program()
def class_returned(x):
    class Local:
        """What it is for."""

        factor: int = 3
        other: "str"

        def apply(self, y: float = 2.0, *, z=x) -> int:
            """What it does."""
            return y * self.factor + z

    mark()
    return Local().apply(x) + 1, Local, Local().apply(1)


@program()
def instance_returned(x):
    class Local:
        def __init__(self, v):
            self.v = v

        def more(self):
            return self.v + 1

    made = Local(x * 2)
    mark()
    return made, made.more(), [made], Local


@program()
def all_kinds_of_methods(x):
    class Local(Base):
        def __init__(self, v):
            super().__init__(v)
            self.me = __class__

        def apply(self, z):
            mark()
            return super().apply(z) * 2

        def again(self):
            return Local(self.v)

        @property
        def thrice(self):
            return self.v * 3

        @thrice.setter
        def thrice(self, new):
            mark()
            self.v = new

        @staticmethod
        def plus(a):
            return a + 1

        @classmethod
        def of(cls, v):
            return cls(v)

    made = Local(4)
    made.thrice = 7
    y = made.again().apply(Local.plus(x))
    other, third = Local.of(3), Local.make(2)
    kinds = isinstance(other, Local), type(third) is Local, issubclass(Local, Base), Base in Local.__mro__
    return y, made, other.thrice, third.twice, Local.kind, made.me is Local, kinds, Local


@program()
def class_that_holds_itself(x):
    found = []

    class Local:
        registry = found

        def __init__(self):
            found.append(self)

    found.append(Local)
    made = Local()
    mark()
    return x + len(found), Local, found, made


@program()
def classes_that_name_each_other(x):
    class One:
        def other(self):
            return Two()

        def value(self):
            return x

    class Two(One):
        def other(self):
            return One()

        def value(self):
            mark()
            return super().value() + 1

    return One().other().value() + Two().other().value(), One, Two


@program()
def class_in_a_class(x):
    class Outer:
        class Inner:
            scale = 4

            def apply(self, y):
                mark()
                return y + self.scale

        inner = Inner()

        def apply(self, y):
            return self.inner.apply(y) * Outer.Inner.scale

    return Outer().apply(x), Outer


@program()
def class_in_a_loop(x):
    made = []
    for i in range(3):

        class Local:
            scale = i

            def apply(self, y):
                return y * self.scale

        made.append(Local)
        mark(i)
        x = x + Local().apply(x)
    return x, [cls.scale for cls in made], len(set(made)), made


@program()
def class_body_that_computes(x):
    class Local:
        total = 0
        for i in range(4):
            total += i
        del i
        if total > 3:
            scaled = x * total
        names = [n + 1 for n in (1, 2)]
        mark("body")

        def get(self):
            return self.scaled

    return Local().get(), Local, Local.names


@program()
def class_body_with_comprehensions(x):
    a = x * 2

    class Local:
        same = len([v for v in (x, a) if v is a])
        names = [a for a in (3, 4)]
        both = [n * b for n in (1, 2) for b in (same, 5)], a
        mark("body")

        def get(self):
            return a * self.same

    return Local().get(), Local.names, Local.both


@program()
def class_body_that_raises(x):
    y = x + 1
    try:

        class Local:
            z = y * 2
            mark()
            raise KeyError("no")

    except KeyError as error:
        return y, str(error)
    return Local


@program()
def class_body_without_a_name(x):
    y = x + 1
    try:

        class Local:
            z = nobody_knows

    except NameError as error:
        return y, str(error)
    return Local


@program()
def decorated(x):
    @extended
    class Local:
        def get(self):
            return x * self.extra

    mark()
    return Local().get(), Local.extra, Local


@program()
def decorated_method(x):
    def noted(function):
        @functools.wraps(function)
        def inner(self, *args):
            mark()
            return function(self, *args) + 1

        return inner

    class Local:
        @noted
        def apply(self, y):
            """What it does."""
            return y * 2

    return Local().apply(x), Local


@program()
def method_that_lives_on_with_its_class(x):
    class Local(Base):
        def apply(self, y):
            mark()
            return super().apply(y) + 1

    pair = (Local(2).apply, Local.apply)
    mark()
    return x + 1, pair[0](x), pair[1] is Local.apply, pair[0].__func__ is Local.apply


@program()
def tuple_of_a_function_that_names_the_class(x):
    made = (lambda: Local, [1])

    class Local:
        held = made
        call = made[0]

    mark()
    return x + 1, made, Local, made[0]() is Local, Local.held is made
