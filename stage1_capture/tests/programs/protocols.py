"""What objects answer: as keys, as text, as numbers, as containers, one by one and by index."""

import dataclasses

from stage1_capture.tests.programs.registry import mark, program


@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: str = "b"


class Plain:
    pass


class Text:
    def __format__(self, spec):
        return "F" + spec

    def __str__(self):
        return "S"

    def __repr__(self):
        return "R"


class Number:
    def __index__(self):
        return 2

    def __int__(self):
        return 5

    def __float__(self):
        return 1.5

    def __round__(self, n=None):
        return 4

    def __divmod__(self, other):
        return 1, 2

    def __abs__(self):
        return 3


class ByIndex:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 2


class Walked:
    def __iter__(self):
        yield 1
        yield 2


class Failing(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code

    def __str__(self):
        return f"<{self.code}>"


class Lazy:
    @property
    def missing(self):
        raise AttributeError("missing")

    @property
    def v(self):
        return self.__dict__.get("_v", 1)

    @v.setter
    def v(self, value):
        self.__dict__["_v"] = value

    @v.deleter
    def v(self):
        self.__dict__.pop("_v", None)


@program()
def keys_by_value(x):
    d = {Key(1): 5, Key(2): 6}
    mark()
    return x + d[Key(1)], Key(1) in d, len({Key(1), Key(1)}), hash(Key(1)) == hash(Key(1))


@program()
def keys_by_identity(x):
    a, b = Plain(), Plain()
    d = {a: 1, b: 2}
    mark()
    return x + d[b], a in {a}, len({a, b, a}), id(a) == id(a), id(a) == id(b)


@program()
def tensor_keys(x):
    y = x + 1
    d = {x: 1, y: 2}
    mark()
    return y * d[y], x in d, len({x, y})


@program((3,), lambda: {(1, 2): 3, None: 4, 2.5: 5, Plain: 6})
def keys_of_all_kinds(x, d):
    d[3, 4] = 1
    mark()
    return x * d[1, 2] + d[None] + d[Plain], list(d), d


@program()
def texts(x):
    t = Text()
    mark()
    return (
        x,
        f"{t:>3} {t!s} {t!r} {t}",
        str(t),
        repr([t, {"a": t}]),
        format(t, "z"),
        "%s %r" % (t, t),
        f"{t} {t!r}",
    )


@program()
def objects_as_numbers(x):
    n = Number()
    mark()
    return x + int(n) + float(n), [1, 2, 3][n.__index__()], hex(n), round(n), divmod(n, 1), abs(n)


@program()
def loops_by_index(x):
    for k in ByIndex():
        x = x + k
    mark()
    return x, list(ByIndex()), 4 in ByIndex(), 2 in Walked(), [*Walked()]


@program()
def containers_compared(x):
    mark()
    a, b = [x, 2], (x, 5)
    return (
        x,
        a == [x, 2],
        b == (x, 5),
        b < (x, 6),
        {"k": x} == {"k": x},
        a != [x],
        {"a": 1}.keys() == {"a"},
        [a] == [a],
    )


@program()
def dict_algebra(x):
    d = {"a": 1} | {"b": x}
    d |= {"c": 3}
    mark()
    e = dict.fromkeys("pq", 0)
    return (
        d["b"] + 1,
        list(d),
        e,
        {"a": 1}.keys() & {"a"},
        {"a": 1}.items() & {("a", 1)},
        {"a": 1}.keys().isdisjoint({"q"}),
    )


@program()
def custom_error(x):
    try:
        raise Failing(3)
    except Failing as error:
        mark()
        return x + error.code, str(error), error.args, repr(error)


@program()
def error_with_notes(x):
    try:
        error = ValueError("a")
        error.add_note("n")
        raise error
    except ValueError as seen:
        notes = seen.__notes__
    mark()
    return x, notes


@program()
def properties_of_all_kinds(x):
    o = Lazy()
    o.v = 4
    y = x + o.v
    del o.v
    mark()
    return y + o.v, getattr(o, "missing", 9), hasattr(o, "missing")


@program()
def iterated_until(x):
    items = [1, 2, 0, 4]
    mark()
    return x, list(iter(lambda: items.pop(0), 0)), items


@program()
def functions_looked_at(x):
    def inner(a: int, b: "str" = 2, *, c=3) -> None:
        """Text."""
        return x * a

    mark()
    return (
        inner(2),
        inner.__defaults__,
        inner.__kwdefaults__,
        sorted(inner.__annotations__),
        inner.__doc__,
        inner.__name__,
    )


@program()
def group_raised(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError("a"), TypeError("b")])
    except* ValueError as group:
        mark()
        y = y * len(group.exceptions)
    except* TypeError:
        y = y + 5
    return y * 2
