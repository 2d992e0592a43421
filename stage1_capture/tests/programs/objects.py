"""User-defined objects: attributes, methods, properties, dunder methods, classes of every kind."""

import types

from stage1_capture.tests.programs.registry import LOG, mark, program


class Base:
    kind = "base"
    made = 0

    def __init__(self, n=1):
        self.n = n

    def grow(self, by):
        self.n += by
        return self

    def describe(self):
        return f"{self.kind}:{self.n}"

    def apply(self, x):
        return x + self.n

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value // 2

    @staticmethod
    def static(x):
        return x * 10

    @classmethod
    def create(cls, n):
        return cls(n)


class Child(Base):
    kind = "child"

    def __init__(self, n=1, m=2):
        super().__init__(n)
        self.m = m

    def apply(self, x):
        return super().apply(x) * self.m


class Grandchild(Child):
    def apply(self, x):
        mark("grandchild")
        return super().apply(x) - 1


class Mixin:
    def apply(self, x):
        return super().apply(x) + 100


class Mixed(Mixin, Child):
    pass


class Vector:
    def __init__(self, *items):
        self.items = list(items)

    def __add__(self, other):
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*[a + b for a, b in zip(self.items, other.items)])

    def __radd__(self, other):
        return Vector(*[other + a for a in self.items])

    def __mul__(self, n):
        return Vector(*[a * n for a in self.items])

    def __iadd__(self, n):
        self.items.append(n)
        return self

    def __neg__(self):
        return Vector(*[-a for a in self.items])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, value):
        self.items[i] = value

    def __delitem__(self, i):
        del self.items[i]

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.items == other.items

    def __lt__(self, other):
        return len(self) < len(other)

    def __bool__(self):
        return bool(self.items)

    def __call__(self, x):
        return x + len(self.items)

    def __repr__(self):
        return f"Vector{tuple(self.items)}"

    __hash__ = None


class Computed:
    def __getattr__(self, name):
        if name.startswith("n_"):
            return int(name[2:])
        raise AttributeError(f"no {name}")


class Setting:
    def __setattr__(self, name, value):
        LOG.append(name)
        object.__setattr__(self, name, value)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


SHARED = Base(7)


@program((3,), lambda: Base(3))
def reads_attribute(x, o):
    mark()
    return x + o.n


@program((3,), lambda: Base(3))
def writes_attribute(x, o):
    o.n = 10
    mark()
    o.m = x + 1
    return o.m + o.n


@program((3,), lambda: Base(3))
def writes_and_deletes(x, o):
    o.extra = 1
    mark()
    del o.extra
    return x + 1, hasattr(o, "extra")


@program((3,), lambda: Base(3))
def augmented_attribute(x, o):
    o.n += 1
    mark(o.n)
    o.n *= 2
    return x + o.n


@program((3,), lambda: Base(3))
def calls_method(x, o):
    o.grow(2).grow(3)
    mark()
    return o.apply(x), o.describe()


@program((3,), lambda: Base(3))
def swaps_attributes(x, o):
    o.a, o.b = 1, 2
    o.a, o.b = o.b, o.a
    mark()
    return x + o.a, o.b


@program((3,), lambda: Base(3))
def property_read_and_written(x, o):
    o.double = 20
    mark()
    return x + o.double + o.n


@program((3,), lambda: Child(3, 4))
def inherited(x, o):
    mark()
    return o.apply(x), o.describe(), isinstance(o, Base), type(o).__name__


@program((3,), Grandchild)
def break_in_an_override(x, o):
    return o.apply(x) * 2


@program((3,), Mixed)
def cooperative_super(x, o):
    mark()
    return o.apply(x)


@program()
def static_and_class_methods(x):
    o = Base.create(4)
    mark()
    return Base.static(x) + o.n, o.static(x)


@program()
def constructed(x):
    o = Child(2, m=5)
    mark()
    return o.apply(x), o


@program()
def constructed_and_returned(x):
    o = Base()
    o.x = x + 1
    return o


@program()
def object_holds_itself(x):
    o = Base()
    o.me = o
    o.list = [o, x]
    mark()
    return o


@program()
def two_objects_share(x):
    items = [x + 1]
    a, b = Base(items), Base(items)
    mark()
    a.n.append(x)
    return a, b, a.n is b.n


@program()
def global_object(x):
    SHARED.last = x.shape[0]
    mark()
    return SHARED.apply(x)


@program()
def operators(x):
    v = Vector(1, 2) + Vector(3, 4)
    mark()
    w = -(v * 2)
    return x + w[0], list(w), len(w)


@program()
def operators_with_tensors(x):
    v = Vector(x, x + 1)
    mark()
    total = (v + v)[0] + v[1]
    return total, v


@program()
def reflected_operator(x):
    v = 5 + Vector(1, 2)
    mark()
    return x, v


@program()
def in_place_operator(x):
    v = w = Vector(1)
    v += 2
    mark()
    return x + len(w), v is w


@program()
def container_methods(x):
    v = Vector(1, 2, 3)
    v[0] = 10
    del v[1]
    mark()
    return x + v[0], 3 in v, 2 in v, [i for i in v], bool(v)


@program()
def comparison_methods(x):
    mark()
    return (
        x,
        Vector(1) == Vector(1),
        Vector(1) != Vector(2),
        Vector() < Vector(1),
        sorted([Vector(1, 2), Vector()]),
    )


@program((3,), lambda: Vector(1, 2))
def callable_object(x, v):
    y = v(x)
    mark()
    return y * 2


@program()
def unsupported_operator(x):
    try:
        return Vector(1) + 3
    except TypeError:
        mark()
        return x + 1


@program((3,), Computed)
def computed_attributes(x, o):
    mark()
    return x + o.n_5, hasattr(o, "n_7"), hasattr(o, "other"), getattr(o, "other", 3)


@program((3,), Setting)
def own_setattr(x, o):
    o.a = 1
    mark()
    o.b = 2
    return x + o.a + o.b


@program()
def slots(x):
    o = Slotted(4)
    o.b = x + 1
    mark()
    return o.b + o.a


@program((3,), lambda: Slotted(3))
def slots_from_outside(x, o):
    o.a += 1
    mark()
    return x + o.a, hasattr(o, "b")


@program((3,), lambda: Base(2))
def dynamic_attributes(x, o):
    setattr(o, "k", 3)
    mark()
    y = x + getattr(o, "k")
    delattr(o, "k")
    return y, hasattr(o, "k"), getattr(o, "k", None)


@program((3,), lambda: Base(2))
def attribute_error(x, o):
    try:
        return x + o.missing
    except AttributeError as error:
        mark()
        return x + 1, str(error)


@program((3,), lambda: Base(2))
def bound_method_as_value(x, o):
    f = o.apply
    mark()
    return f(x)


@program((3,), lambda: Base(2))
def unbound_method(x, o):
    mark()
    return Base.apply(o, x)


@program((3,), lambda: Base(2), lambda: Base(2))
def identity(x, a, b):
    mark()
    return x, a is b, a is a, a == b, a != b


@program((3,), lambda: types.SimpleNamespace(a=1, b=[2]))
def namespace(x, ns):
    ns.a += 1
    ns.b.append(3)
    mark()
    return x + ns.a + len(ns.b)


@program()
def many_objects(x):
    items = [Base(i) for i in range(4)]
    mark()
    return x + sum(o.n for o in items), [o.grow(1).n for o in items]


@program((3,), lambda: [Base(1), Base(2)])
def objects_in_a_list(x, items):
    for o in items:
        o.n += 1
        mark()
        x = x + o.n
    return x
