"""A break inside attribute access, descriptors, the making of classes and objects, and user-defined managers.

Input: classes whose methods say mark() before they answer. One program a block.
"""

import copy
import threading
import weakref

from stage1_capture.tests.programs.break_helpers import Answers, mark, noted  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks, program


class Length:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        mark("len")
        return self.n


class Attributes:
    def __init__(self):
        self.__dict__["held"] = 3

    def __getattr__(self, name):
        mark(f"get {name}")
        if name.startswith("no"):
            raise AttributeError(f"nothing called {name}")
        return len(name)

    def __setattr__(self, name, value):
        mark(f"set {name}")
        self.__dict__[name] = value

    def __delattr__(self, name):
        mark(f"delete {name}")
        del self.__dict__[name]


class Watched:
    kind = 5

    def __init__(self):
        self.own = 2

    def __getattribute__(self, name):
        mark(f"watched {name}")
        if name == "hidden":
            raise AttributeError("hidden")
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        mark(f"fallback {name}")
        return 11


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        mark("get")
        return self if instance is None else instance.__dict__.get(self.name, 1)

    def __set__(self, instance, value):
        mark("set")
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        mark("delete")
        instance.__dict__.pop(self.name)


class ReadOnly:
    """A non-data descriptor: what lies in the object's own dict goes first."""

    def __get__(self, instance, owner=None):
        mark("read")
        return 4


class Described:
    width = Descriptor()
    height = ReadOnly()


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left):
        mark("init")
        self.left = left


class Generic:
    def __class_getitem__(cls, item):
        mark("class item")
        return (cls.__name__, item)


class Meta(type):
    def __instancecheck__(cls, instance):
        mark("instance")
        return isinstance(instance, int)

    def __subclasscheck__(cls, other):
        mark("subclass")
        return other is int

    def __call__(cls, *args):
        mark("call")
        return super().__call__(*args)

    def __getitem__(cls, item):
        mark("meta item")
        return item

    def __len__(cls):
        mark("meta len")
        return 6

    def __iter__(cls):
        mark("meta iter")
        return iter((1, 2))

    def __contains__(cls, item):
        mark("meta contains")
        return item == 3


class Checked(metaclass=Meta):
    def __init__(self, n=0):
        mark("init")
        self.n = n


class Made:
    def __new__(cls, n):
        mark("new")
        if n > 5:
            return n
        made = super().__new__(cls)
        made.early = n
        return made

    def __init__(self, n):
        mark("init")
        self.n = n + self.early


class BadInit:
    def __init__(self, value):
        mark("init")
        return value


class Registered:
    known = []

    def __init_subclass__(cls, /, tag=None, **kwargs):
        mark("init subclass")
        super().__init_subclass__(**kwargs)
        cls.tag = tag


class Called:
    def __call__(self, x, *args, by=2, **kwargs):
        mark("call")
        return x * by + len(args) + len(kwargs)


class Manager:
    def __init__(self, takes=True, fails=False):
        self.takes, self.fails, self.seen = takes, fails, []

    def __enter__(self):
        mark("enter")
        return self

    def __exit__(self, kind, error, traceback):
        mark("exit")
        self.seen.append(kind and kind.__name__)
        if self.fails:
            raise KeyError("exit")
        return self.takes


class Copied:
    def __init__(self, items):
        self.items = items

    def __copy__(self):
        mark("copy")
        return Copied(self.items)

    def __deepcopy__(self, memo):
        mark("deepcopy")
        return Copied(copy.deepcopy(self.items, memo))


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self._x, self._y = x, y

    @property
    def x(self):
        mark("x")
        return self._x

    @property
    def y(self):
        mark("y")
        return self._y


def said(function, *args):
    """What it gives, or how it fails."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


enter_blocks(
    __name__,
    """
    attributes_computed:
        a = Attributes()
        y = x + a.held + a.four
        a.other = 5
        a.held += 1
        del a.other
        return y, a.held, getattr(a, 'none', 'gone'), hasattr(a, 'nope'), said(lambda: a.nowhere), a.__dict__, mark()

    attributes_by_name:
        a = Attributes()
        setattr(a, 'p', x)
        y = getattr(a, 'p') + getattr(a, 'qq')
        delattr(a, 'p')
        return y, said(delattr, a, 'p'), sorted(vars(a)), mark()

    attributes_watched:
        w = Watched()
        return x + w.own + w.kind, w.hidden, getattr(w, 'hidden', 0), hasattr(w, 'missing'), mark()

    descriptors:
        d = Described()
        y = x + d.width
        d.width = 6
        d.width += 1
        z = y * d.width
        del d.width
        return z, d.width, Described.width is Described.__dict__['width'], Described.width.name, vars(d), mark()

    descriptor_without_set:
        d = Described()
        y = x + d.height
        d.height = 9
        return y, d.height, Described.height, vars(d), mark()

    slots:
        s = Slotted(x)
        y = s.left + 1
        s.right = 2
        del s.right
        return y, said(lambda: s.right), said(setattr, s, 'other', 1), hasattr(s, '__dict__'), s, mark()

    class_item:
        return x + 1, Generic[3], Generic[1, 2], Checked[4], mark()

    checks_of_a_metaclass:
        return x + 1, isinstance(3, Checked), isinstance('a', (str, Checked)), issubclass(int, Checked), mark()

    checks_of_its_own_class:
        c = Checked(2)
        return x + c.n, isinstance(c, Checked), type(c) is Checked, issubclass(Checked, Checked), mark()

    class_as_a_container:
        return x + len(Checked), list(Checked), 3 in Checked, 4 in Checked, mark()

    made_by_new:
        a = Made(2)
        return x + a.n, a.early, Made(9), mark()

    init_that_returns:
        y = x + 1
        return y, said(BadInit, 3), said(BadInit, x)[0], type(BadInit(None)).__name__, mark()

    class_made_inside:
        class Inner(Registered, tag=5):
            pass
        return x + Inner.tag, Inner().tag, mark()

    called_object:
        c = Called()
        return c(x), c(x, 1, 2, by=3), c(x, *[1], **{'q': 2}), list(map(c, [x])), callable(c), mark()

    manager_that_takes:
        y = x
        with Manager(takes=[1]) as m:
            y = y + 1
            raise ValueError
        return y, m.seen, mark()

    manager_that_declines:
        m = Manager(takes=())
        y = x + 1
        try:
            with m:
                raise ValueError('v')
        except ValueError as error:
            return y, str(error), m.seen, mark()

    manager_judged_by_length:
        y = x
        with Manager(takes=Length(2)) as m:
            raise ValueError
        return y + 1, m.seen, mark()

    manager_that_fails:
        y = x + 1
        try:
            with Manager(fails=True):
                raise ValueError('v')
        except KeyError as error:
            return y, str(error), type(error.__context__).__name__, mark()

    manager_without_a_method:
        y = x + 1
        def enter(value):
            with value:
                return 1
        return y, said(enter, Length(1)), said(enter, 3), mark()

    copies:
        c = Copied([1, x])
        d, e = copy.copy(c), copy.deepcopy(c)
        return e.items[1] + 1, d.items is c.items, e.items is c.items, mark()

    matched:
        match Point(1, x):
            case Point(2, _):
                y = x
            case Point(1, y=t):
                y = t + 1
        match Point(1, 2):
            case Point(a, b, c):
                y = y + 1
        return y, mark()

    matched_sequences:
        match [1, x, 3]:
            case [1, t, *rest]:
                y = t + len(rest)
        match {'a': 1, 'b': x}:
            case {'a': 1, **others}:
                y = y + len(others)
        match Answers(len=3):
            case [_, _, _]:
                y = y + 1
            case object(answers=a):
                y = y + a['len']
        return y, mark()

    finalised:
        class Ends:
            def __init__(self, log):
                self.log = log
            def __del__(self):
                self.log.append('ended')
        log = []
        e = Ends(log)
        y = x + 1
        mark()
        del e
        return y, log

    object_that_ends_as_its_name_is_stored:
        class Ended:
            def __del__(self):
                log.append('ended')
        log = []
        r = Ended()
        y = x + 1
        r, s = n, y + 2
        for t in (Ended(), n):
            y = y + s
        return r * y, t, log

    directory_of_an_object:
        class Listed:
            def __dir__(self):
                mark('dir')
                return ['b', 'a']
        return x + 1, dir(Listed()), mark()

    abstract_by_hook:
        import abc
        class Sized(abc.ABC):
            @classmethod
            def __subclasshook__(cls, other):
                mark('hook')
                return hasattr(other, '__len__')
        return x + 1, isinstance(Length(1), Sized), issubclass(int, Sized), mark()
    """,
)


class Guarded:
    def __init__(self):
        self.scale = 2

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@program((3,), Guarded)
def argument_with_a_getattribute(x, w):
    """3.13 loads both at once, and breaks at the second (what was lost then was the first)."""
    return x * w.scale


@program((3,), Guarded)
def argument_whose_name_a_comprehension_uses(x, w):
    y = [w for w in (1, 2)]
    mark()
    return x * w.scale + sum(y)


class OfThread(threading.local):
    kind = 5

    def __init__(self, scale=2):
        self.scale = scale


class Held:
    scale = 3

    def __call__(self, x):
        return x * self.scale


HELD = Held()


@program((3,), OfThread)
def attributes_of_a_thread(x, own):
    """They lie in no `__dict__` that object.__getattribute__ finds: capture took them for absent."""
    y = x * getattr(own, "scale", 0) + own.kind if hasattr(own, "scale") else x
    mark()
    own.extra = 4
    return y, sorted(vars(own)), own.extra


@program((3,), lambda: weakref.proxy(HELD))
def attributes_behind_a_weak_proxy(x, held):
    y = x * getattr(held, "scale", 0)
    mark()
    return y, held(x), hasattr(held, "scale"), getattr(held, "missing", 1)
