"""Classes derived from Python's own, metaclasses, `__new__`, stores on classes, modules and functions, `__dict__`."""

import enum
import types
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple

from stage1_capture.tests.programs.registry import mark, program

Pair = namedtuple("Pair", "left right")
COUNTS, TABLES, QUEUE = Counter(), defaultdict(int), deque(maxlen=2)
NAMES = types.ModuleType("NAMES")


class Default(dict):
    def __missing__(self, key):
        return 7

    def extra(self):
        return len(self)


class Doubled(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Row(list):
    def first(self):
        return self[0]


class Total(tuple):
    __slots__ = ()

    def total(self):
        return sum(self)


class Size(int):
    def twice(self):
        return self * 2


class Name(str):
    __slots__ = ()

    def loud(self):
        return self.upper() + "!"


class Kind(str, enum.Enum):  # noqa: UP042
    A = "a"
    B = "b"

    def apply(self, x):
        return x + len(self.value)


class Bits(enum.Flag):
    ONE = enum.auto()
    TWO = enum.auto()


class Output(OrderedDict):
    """As model outputs are written: fields are items and attributes at once."""

    def __setattr__(self, name, value):
        if name in self:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self):
        return tuple(self[k] for k in self)


class Tagging(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = 5
        return made

    @property
    def size(cls):
        return 3

    def __len__(cls):
        return 4


class Tagged(metaclass=Tagging):
    def __init__(self, v):
        self.v = v


class Made:
    one = None

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.z = 4
        return made

    def __init__(self, v):
        self.v = v


class Single:
    one = None

    def __new__(cls):
        if cls.one is None:
            cls.one = super().__new__(cls)
        return cls.one


class Counted:
    count = 0
    made = 0

    def __init__(self):
        type(self).made += 1

    @classmethod
    def tick(cls):
        cls.count += 1
        return cls.count


class Base:
    def __init_subclass__(cls, k=1, **more):
        super().__init_subclass__(**more)
        cls.k = k

    @classmethod
    def make(cls):
        return cls.k


class Sub(Base, k=4):
    @classmethod
    def make(cls):
        return super().make() + 1


class Stored:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__.get(self.name, 5)

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value


class Holder:
    field = Stored()


class Watched:
    def __init__(self):
        self.v = 2

    def __getattribute__(self, name):
        if name == "w":
            return 9
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2)

    def __delattr__(self, name):
        super().__delattr__(name)


def scale(x):
    return x * scale.factor


def reset():
    COUNTS.clear()
    TABLES.clear()
    QUEUE.clear()
    NAMES.k = 1
    scale.factor = 3
    Counted.count = Counted.made = 0
    Single.one = None


@program()
def dict_derived(x):
    d = Default(a=1)
    d["b"] = x
    mark()
    return x + d["q"] + d["a"], d.extra(), d["b"], isinstance(d, dict), list(d), d == {"a": 1}


@program((3,), lambda: Doubled(a=1, b=2))
def dict_derived_argument(x, d):
    d["c"] = 4
    mark()
    return x + d.a + d["c"], hasattr(d, "zz"), dict(d), {**d}


@program()
def list_derived(x):
    r = Row([x, 2])
    r.append(3)
    mark()
    return r.first() + len(r), r[1:], 2 in r, [*r][1]


@program((3,), lambda: Row([1, 2]))
def list_derived_argument(x, r):
    r.append(3)
    r[0] = 9
    mark()
    return r.first() + x


@program()
def tuple_derived(x):
    t = Total((1, 2))
    mark()
    return x + t.total(), len(t), t[1], type(t).__name__


@program()
def numbers_derived(x):
    n, s = Size(3), Name("ab")
    mark()
    return x + n.twice() + n, s.loud(), s == "ab", f"{n} {s}"


@program((3,), Kind.A)
def enum_with_text(x, kind):
    mark()
    return kind.apply(x), kind == "a", Kind("b") is Kind.B, Kind["A"].name, kind in (Kind.A, Kind.B)


@program()
def enum_walked(x):
    for kind in Kind:
        x = x + len(kind.value)
    mark()
    return x, len(Kind), Kind.A in Kind, [k.name for k in Kind]


@program()
def enum_flags(x):
    both = Bits.ONE | Bits.TWO
    mark()
    return x + (1 if Bits.ONE in both else 2), bool(both & Bits.TWO)


@program()
def model_output(x):
    out = Output(loss=x.sum(), logits=x * 2)
    out.loss = out["loss"] + 1
    mark()
    return out.to_tuple(), list(out), out["loss"], out


@program()
def counters(x):
    c = Counter("aab")
    c["z"] += 2
    c.update("ab")
    mark()
    return x + c["a"] + c["missing"], c.most_common(1), sum(c.values()), Counter(a=1) + Counter(a=3)


@program()
def counter_global(x):
    COUNTS["calls"] += 1
    mark()
    return x + COUNTS["calls"]


@program()
def default_dict_global(x):
    TABLES["calls"] += 1
    QUEUE.append(len(QUEUE))
    QUEUE.appendleft(7)
    mark()
    return x + TABLES["calls"] + len(QUEUE)


@program((3,), lambda: Pair(1, 2), lambda: OrderedDict(a=1, b=2))
def tuples_and_dicts_from_outside(x, pair, d):
    d["z"] = pair.left
    d.move_to_end("b", last=False)
    mark()
    return x + pair.right + pair[0], list(d), pair._replace(left=5), pair


@program()
def user_containers(x):
    d, items = UserDict(a=x), UserList([1, 2])
    d["b"] = 3
    items.append(3)
    mark()
    return d["a"] + d["b"], len(d), "a" in d, items[2], len(items)


@program()
def metaclass(x):
    t = Tagged(2)
    mark()
    return x + t.v + t.tag + Tagged.size + len(Tagged)


@program()
def new_followed(x):
    m = Made(3)
    mark()
    return x + m.v + m.z, vars(m)


@program()
def singleton(x):
    a, b = Single(), Single()
    mark()
    return x + 1, a is b, Single.one is a


@program()
def class_counter(x):
    Counted.count += 1
    Counted()
    mark()
    return x + Counted.count + Counted.tick() + Counted.made, Counted().count


@program()
def subclass_hooks(x):
    mark()
    return x + Sub.k + Sub.make(), [c.__name__ for c in Sub.__mro__]


@program()
def module_counter(x):
    NAMES.k += 1
    mark()
    return x + NAMES.k


@program()
def function_counter(x):
    scale.factor += 1
    mark()
    return scale(x), scale.__name__, scale.__defaults__, scale.__code__.co_argcount


@program()
def own_dict(x):
    m = Made(1)
    m.__dict__["c"] = 5
    vars(m).update(d=6)
    mark()
    return x + m.c + m.d, sorted(vars(m)), "v" in m.__dict__, [k for k, _ in m.__dict__.items()]


@program((3,), Holder, lambda: Made(2))
def own_dict_from_outside(x, h, m):
    before = h.field
    h.field = 9
    m.__dict__["new"] = x + 1
    del m.__dict__["z"]
    mark()
    return x + before + h.field, h.__dict__, Holder.field.name, sorted(m.__dict__)


@program()
def attribute_methods(x):
    w = Watched()
    w.u = 3
    y = x + w.v + w.w + w.u
    mark()
    del w.u
    return y, hasattr(w, "u")


@program()
def abstract_class(x):
    try:
        Shape()
    except TypeError:
        x = x + 1
    mark()
    return x + Square().side


class Shape:
    """Without ABCMeta's own message, which differs between versions."""

    def __new__(cls):
        if cls is Shape:
            raise TypeError("abstract")
        return super().__new__(cls)


class Square(Shape):
    side = 2


@program()
def global_deleted(x):
    global GONE
    GONE = 5
    y = x + GONE
    del GONE
    mark()
    try:
        return GONE
    except NameError as error:
        return y, str(error)
