"""Corners of Python that published code reaches: named tuples, enums, metaclasses, getters, partials, tuples in place.

Input: none. What changes where tensors live is in tensor_homes.py.
"""

import enum
import functools
import itertools
import operator
import typing
from collections import OrderedDict, deque

from stage1_capture.tests.programs.registry import mark, program


def scaled(x, n, k=2):
    return x * n + k


PART = functools.partial(scaled, n=3)


@functools.lru_cache(maxsize=16)
def multiplied(n, k=2):
    return n * k


class Pair(typing.NamedTuple):
    a: int
    b: int = 3

    def total(self):
        return self.a + self.b

    @staticmethod
    def double(value):
        return value * 2

    @classmethod
    def of(cls, value):
        return cls(value, value)

    @property
    def product(self):
        return self.a * self.b


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def tenfold(self):
        return self.value * 10

    def said(self):
        return self.name

    @classmethod
    def default(cls):
        return cls.BLUE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Registered(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = 7
        return made

    def __len__(cls):
        return 3

    def __getitem__(cls, key):
        return key * 2

    def __iter__(cls):
        return iter((1, 2))

    def __contains__(cls, value):
        return value == 1

    @property
    def kind(cls):
        return "kind"

    def of_base(cls):
        return cls.base


class WithMeta(metaclass=Registered):
    base = 5

    def __init__(self, value):
        self.value = value


class Guesses:
    def __length_hint__(self):
        return 5


class Positive:
    def __init__(self, value):
        self.value = value

    def __pos__(self):
        return self.value * 2


PAIR = Pair(1)


@program()
def attributes_of_a_partial(x):
    mark()
    return PART(x) + PART.keywords["n"] + len(PART.args), PART.func is scaled


@program()
def partial_made_inside(x):
    made = functools.partial(scaled, n=4, k=1)
    mark()
    return made(x) + made.keywords["n"], made.func.__name__, made.args


@program()
def partial_that_holds_more(x):
    made = functools.partial(scaled, n=4)
    made.more = 5
    mark()
    return made(x) + made.more


@program()
def cache_with_defaults(x):
    first = multiplied(3)
    mark()
    return x + first + multiplied(3, k=4) + multiplied(n=2)


@program()
def named_tuple_methods(x):
    mark()
    return x * PAIR.total() + Pair.double(2) + PAIR.double(3) + Pair.of(4).product + PAIR.of(2).b


@program()
def named_tuple_replaced(x):
    made = PAIR._replace(a=x)
    mark()
    return made.a * 2, made._asdict()["b"], Pair._fields, made._fields, made


@program()
def enum_members(x):
    total = 0
    for member in Colour:
        total += member.value
    mark()
    return (
        x * Colour.RED.tenfold + Colour(2).value + Colour["BLUE"].value + total,
        Colour.RED.said(),
        len(Colour),
    )


@program()
def enum_tests(x):
    mark()
    known = Colour.RED in Colour, Colour.default() is Colour.BLUE, isinstance(Colour.RED, Colour)
    return x * {Colour.RED: 2, Colour.BLUE: 3}[Colour.BLUE], known


@program()
def int_enum(x):
    mark()
    return x * Level.LOW + (Level.HIGH > Level.LOW), Level.LOW == 1, Level(2).name, int(Level.HIGH)


@program()
def enum_flags(x):
    both = Access.READ | Access.WRITE
    mark()
    return (
        x * (Access.READ in both),
        both.value,
        bool(both & Access.READ),
        (both ^ Access.READ) == Access.WRITE,
    )


@program()
def metaclass_makes(x):
    made = WithMeta(2)
    mark()
    return x * made.value + made.tag


@program()
def metaclass_answers(x):
    mark()
    return x * len(WithMeta) + WithMeta[4] + WithMeta.of_base(), list(WithMeta), 1 in WithMeta, WithMeta.kind


@program()
def class_made_with_a_keyword(x):
    class Told:
        def __init_subclass__(cls, k=1, **rest):
            cls.k = k

    class Made(Told, k=4):
        pass

    mark()
    return x * Made.k


@program()
def unary_plus(x):
    same = +x
    mark()
    return same + 1, +3, +True, +2.5, operator.pos(x) * 2, +Positive(3)


@program()
def tuple_in_place(x):
    row = (1, x)
    before = row
    row += (3,)
    mark()
    row += (4, x)
    row *= 2
    return row[1] * len(row), before, row is before


@program()
def tuple_in_place_of_a_list(x):
    row = (x,)
    try:
        row += [1]
    except TypeError as error:
        mark()
        return row[0] + 1, str(error)


@program()
def in_place_by_operator(x):
    row, items = operator.iadd((1, x), (2,)), [1]
    mark()
    same = operator.iadd(items, (2, 3))
    return row[1] * len(row) + len(items), same is items, operator.imul((1,), 2), operator.iconcat((1,), (x,))


@program()
def length_hints(x):
    walk, back = iter((1, 2, 3)), reversed([1, 2])
    next(walk)
    mark()
    hints = [operator.length_hint(v) for v in ([1, 2], {1: 2}, "abc", walk, back, Guesses(), range(4))]
    return x * operator.length_hint(3, 9) + sum(hints), hints


@program()
def length_hint_of_a_wrong_default(x):
    try:
        return operator.length_hint([1], "a")
    except TypeError as error:
        mark()
        return x + 1, str(error)


@program()
def method_callers(x):
    double = operator.methodcaller("mul", 2)
    mark()
    return double(x) + operator.methodcaller("sum", dim=0, keepdim=True)(x), operator.methodcaller("upper")(
        "a"
    )


@program()
def item_getters(x):
    both, first = operator.itemgetter("a", "b"), operator.itemgetter(slice(0, 2))
    mark()
    return (
        both({"a": x * 1, "b": 2}),
        operator.itemgetter(1)([1, x + 1]),
        first(x) + 0,
        operator.itemgetter(-1)((1, 2)),
    )


@program()
def getters_as_keys(x):
    rows, first = [(2, "b"), (1, "a")], operator.itemgetter(0)
    mark()
    return x * sorted(rows, key=first)[0][0], max(rows, key=operator.itemgetter(1)), list(map(first, rows))


@program()
def filter_goes_on(x):
    kept = filter(lambda v: v > 1, [1, 2, 3])
    first = next(kept)
    mark()
    return x * first + next(kept), list(kept)


@program()
def map_goes_on(x):
    doubled = map(lambda v: v * 2, [1, 2, x])
    first = next(doubled)
    mark()
    return x * first + sum(doubled)


@program()
def list_that_grows(x):
    grown = []
    for i in range(3):
        grown.append(x * i)
        mark()
    return sum(grown), len(grown)


@program()
def except_star(x):
    try:
        raise ExceptionGroup("both", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        x = x + len(group.exceptions)
    except* TypeError:
        x = x * 3
    mark()
    return x


@program()
def except_star_of_a_plain_error(x):
    try:
        raise ValueError(1)
    except* ValueError as group:
        count = len(group.exceptions)
    mark()
    return x + count


@program()
def except_star_that_leaves_some(x):
    try:
        try:
            raise ExceptionGroup("all", [ValueError(1), ExceptionGroup("in", [KeyError(2), TypeError(3)])])
        except* KeyError as group:
            x = x + len(group.exceptions)
    except ExceptionGroup as left:
        mark()
        return x * 2, len(left.exceptions)


def shrunk():
    many = set(range(100))
    many -= set(range(100)) - {3, 64}
    return many  # its copy has another order


@program((3,), shrunk)
def set_that_has_shrunk(x, numbers):
    mark()
    for number in numbers:
        x = x * 2 + number
    return x, 3 in numbers, len(numbers)


@program()
def calls_that_do_not_fit(x):
    told = []
    for call in (lambda: (1, 2).__contains__(), lambda: OrderedDict([], []), lambda: [1].__len__(2)):
        try:
            call()
        except TypeError as error:
            told.append(str(error))
    mark()
    return x + len(told), told


@program()
def hint_of_a_repeat(x):
    mark()
    return x + operator.length_hint(itertools.repeat(1, 5)), operator.length_hint(v for v in (1, 2))


@program()
def walks_of_a_deque(x):
    row = deque((1, 2, 3, 4), maxlen=4)
    walk, back = iter(row), reversed(row)
    first, last = next(walk), next(back)
    mark()
    return x * first + last, list(walk), next(back), list(back)


@program()
def keyword_given_twice(x):
    def inner(*, a):
        return a

    try:
        return inner(a=1, **{"a": x})
    except TypeError as error:
        mark()
        return x + 1, str(error)


@program()
def types_in_brackets_that_do_not_fit(x):
    try:
        return list[int][str]
    except TypeError as error:
        mark()
        return x + 1, str(error)


@program()
def walk_of_a_deque_that_changed(x):
    told, row = [], deque((1, 2, 3), maxlen=3)
    for change in (lambda: row.append(4), lambda: row.rotate(1), lambda: row.extend(()), row.popleft):
        walk, back = iter(row), reversed(row)
        next(walk), next(back)
        change()
        mark()
        for walked in (walk, back):
            try:
                told.append(next(walked))
            except RuntimeError as error:
                told.append(str(error))
    return x + len(told), told


@program()
def deque_that_grows_in_its_loop(x):
    row = deque((1, 2))
    try:
        for value in row:
            row.append(value)
            mark()
    except RuntimeError as error:
        return x + len(row), str(error)


@program()
def names_that_errors_tell(x):
    told = []
    for read in (lambda: x.nothing, lambda: nowhere, lambda: PAIR.c):
        try:
            read()
        except (AttributeError, NameError) as error:
            mark()
            told.append((str(error), error.name, getattr(error, "obj", None) is PAIR))
    return x + len(told), told


@program()
def star_of_a_number(x):
    try:
        return [*x.ndim]
    except TypeError as error:
        mark()
        return x + 1, str(error)
