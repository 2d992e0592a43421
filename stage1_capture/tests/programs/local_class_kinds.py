"""Programs that define classes which Python treats in its own way, or that change them, or that are left to Python.

Input: registry.py. Exceptions, descriptors, slots, modules, derived classes; hooks and metaclasses are breaks.
"""

from stage0_eager import nn
from stage0_eager.nn import functional as F
from stage1_capture.tests.programs.registry import LOG, mark, program


class Base:
    pass


class Fault(Exception):
    pass


class Scaled:
    """A descriptor."""

    def __init__(self, n):
        self.n = n

    def __get__(self, owner, cls):
        return self if owner is None else owner.held * self.n

    def __set__(self, owner, value):
        owner.held = value


@program()
def exception_class(x):
    class Bad(Fault):
        code = 3

        def __init__(self, message, extra):
            super().__init__(message)
            self.extra = extra

    try:
        mark()
        raise Bad("a", 4)
    except Fault as error:
        return x + error.extra, str(error), error.args, type(error) is Bad, error.code, Bad


@program()
def exception_class_leaves(x):
    y = x + 1

    class Bad(ValueError):
        pass

    mark()
    raise Bad(f"bad {tuple(y.shape)}")


@program()
def descriptor_in_a_class(x):
    class Local:
        size = Scaled(3)

        def __init__(self, v):
            self.size = v

    made = Local(x)
    mark()
    return made.size, made, Local


@program()
def slots(x):
    class Local:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    made = Local(x + 1)
    mark()
    return made.a, hasattr(made, "b"), made


@program()
def match_arguments(x):
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    mark()
    match Point(x, 2):
        case Point(a, 2):
            return a + 1
    return x


@program()
def special_methods(x):
    class Value:
        def __init__(self, t):
            self.t = t

        def __add__(self, other):
            return Value(self.t + other.t)

        def __call__(self, k):
            mark()
            return self.t * k

        def __getitem__(self, i):
            return self.t[i]

        def __len__(self):
            return 3

        def __eq__(self, other):
            return True

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

        def __iter__(self):
            yield self.t
            yield self.t + 1

        def __getattr__(self, name):
            return name

        def __repr__(self):
            return "Value!"

    v = Value(x) + Value(x)
    with v as w:
        y = w(3)
    return y, v[0], len(v), v == w, list(v), v.unknown, Value.__hash__, f"{v}", Value


@program()
def module_class(x):
    class Net(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, y):
            mark()
            return y * self.k

    return Net(3)(x), type(Net(2)).__name__, Net


@program()
def derived_dict(x):
    class Local(dict):
        def more(self):
            return len(self)

    made = Local(a=1)
    made["b"] = x
    mark()
    return x + made.more(), made["b"], Local


@program()
def class_as_a_key(x):
    class One:
        pass

    class Two(One):
        pass

    table = {One: 1, Two: 2}
    mark()
    return x + table[Two], {One} == {Two}, One in (One, Two), type(Two()) is One, table


@program()
def generator_method(x):
    class Local:
        def walk(self):
            for i in range(3):
                mark(i)
                yield x * i

    return sum(Local().walk()), Local


@program()
def attributes_stored_later(x):
    class Local:
        n = 1

    made = Local()
    Local.n = 5
    Local.t = x + 1
    Local.made = made
    made.cls = Local
    mark()
    return made.n * made.t, Local, made


@program()
def method_stored_later(x):
    class Local:
        pass

    def get(self):
        return x + 1

    Local.get = get
    return Local().get(), Local


@program()
def values_in_a_class(x):
    class Local:
        first = lambda self, y: y + 1
        second = staticmethod(lambda y: y + 2)
        builtin = len
        operator = staticmethod(F.relu)
        number, items, pair, text, nothing = 2.5, [1], (1, 2), "a", None

    made = Local()
    mark()
    return (
        made.first(x) + made.second(x),
        made.builtin([1, 2]),
        made.operator(x),
        made.pair,
        made.items,
        Local,
    )


@program()
def class_described(x):
    class Local:
        pass

    mark()
    named = Local.__name__, Local.__qualname__, Local.__module__, Local.__doc__
    return x + 1, repr(Local), f"{Local}", named, Local.__mro__[1] is object, Local.__bases__


@program()
def method_changes_a_variable(x):
    count = 0

    class Local:
        def hit(self):
            nonlocal count
            count += 1
            return count

    made = Local()
    made.hit()
    mark()
    made.hit()
    return x + count, made.hit(), Local


@program()
def method_with_a_list_as_default(x):
    kept = [1]

    class Local:
        def add(self, to=kept, *, y=x):
            to.append(len(to))
            mark()
            return y + len(kept)

        add.note = kept

    return Local().add(), Local, kept, Local.add.note is kept


@program()
def class_with_init_subclass(x):
    class Local:
        def __init_subclass__(cls):
            LOG.append(cls.__name__)

    class Other(Local):
        pass

    return x + 1, LOG[:], Other.__name__


@program()
def class_with_a_metaclass(x):
    class Meta(type):
        pass

    class Local(metaclass=Meta):
        pass

    return x + 1, type(Local) is Meta


@program()
def class_with_set_name(x):
    class Named:
        def __set_name__(self, owner, name):
            LOG.append((owner.__name__, name))

    class Local:
        field = Named()

    return x + 1, LOG[:], Local.__name__


@program()
def class_with_del(x):
    class Local:
        def __del__(self):
            LOG.append("gone")

    made = Local()
    del made
    return x + 1, LOG[:]


@program()
def subclasses_are_only_real_ones(x):
    class Local(Base):
        pass

    return x + 1, Local, len([cls for cls in Base.__subclasses__() if cls is Local])
