"""What the caller makes anew for each call: functions of the same code, and lists that grow across a break.

Input: the tables here, and random programs of them. On the tree before, a lambda made anew was a compile at each call,
and a list had one for each of its lengths.
"""

import functools
import random
import types

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch

X = np.arange(3, dtype=np.float32)


def compiles_of(function, calls, backend="eager"):
    """How many graphs `calls` (functions that make the arguments) need; each result is eager's."""
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = cutaway.compile(function, backend=counted if backend == "eager" else backend)
    for make in calls:
        same(compiled(*make()), function(*make()))
    return len(graphs)


def same(got, expected):
    assert type(got) is type(expected)
    if isinstance(got, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same(one, other)
    elif isinstance(got, cutaway.Tensor):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
    else:
        assert got == expected


def x():
    return torch.tensor(X)


# ---- functions ---------------------------------------------------------------------------------------


def applied(x, f):
    return f(x) + 1


def applied_across_a_break(x, f):
    y = f(x)
    print(end="")
    return f(y) * 2


def all_applied(x, functions):
    for f in functions:
        x = f(x)
    return x


def scaled(k):
    return lambda y: y * k


def lengthened(text):
    return lambda y: y + len(text)


def keyword(k):
    def plus(y, *, z=k):
        return y + z

    return plus


def default(k):
    return lambda y, q=k: y * q


def breaking(k):
    def inside(y):
        y = y * k
        print(end="")
        return y + k

    return inside


def breaking_default(k):
    def inside(y, q=k):
        y = y * q
        print(end="")
        return y + q

    return inside


def composed(f, g):
    return lambda y: f(g(y))


class Holder:
    def __init__(self, f):
        self.f = f


def held(x, holder):
    return holder.f(x)


ANEW = {  # name: the function, and what makes its second argument for call number i
    "lambda": (applied, lambda i: lambda y: y * 2),
    "float in a cell": (applied, lambda i: scaled(i + 0.5)),
    "int in a cell": (applied, lambda i: scaled(i + 2)),
    "tensor in a cell": (applied, lambda i: scaled(torch.full((3,), float(i)))),
    "text in a cell": (applied, lambda i: lengthened("abc")),
    "keyword default": (applied, lambda i: keyword(i + 0.5)),
    "default": (applied, lambda i: default(i + 0.5)),
    "tensor as default": (applied, lambda i: default(torch.full((3,), float(i)))),
    "function in a cell": (applied, lambda i: composed(scaled(2.0), keyword(i + 0.5))),
    "partial": (applied, lambda i: functools.partial(keyword(2), z=i + 0.5)),
    "in a list": (all_applied, lambda i: [scaled(2.0), keyword(i + 0.5)]),
    "in a dict": (lambda x, d: d["f"](x), lambda i: {"f": scaled(i + 0.5)}),
    "on an object": (held, lambda i: Holder(scaled(i + 0.5))),
    "as a key": (lambda x, f: max([x, x + 1], key=f)[0] + 1, lambda i: lambda y: y.ndim),
    "across a break": (applied_across_a_break, lambda i: scaled(i + 0.5)),
    "that breaks": (applied, lambda i: breaking(i + 0.5)),  # its own number is fixed at first
    "that breaks, by default": (applied, lambda i: breaking_default(i + 0.5)),
}


@pytest.mark.parametrize("name", ANEW)
def test_a_function_made_anew_is_not_compiled_anew(name):
    function, make = ANEW[name]
    graphs = compiles_of(function, [lambda i=i: (x(), make(i)) for i in range(5)])
    assert graphs == {"across a break": 2, "that breaks": 4, "that breaks, by default": 3}.get(name, 1)


def other_globals(scale):
    return types.FunctionType((lambda y: y * SCALE).__code__, {"SCALE": scale, "__name__": "other"})  # noqa: F821


def with_attribute(scale):
    made = scaled(1.0)
    made.scale = scale
    return made


def breaking_with(defaults, by_name):
    """A function that breaks, of the same code whichever its defaults are."""

    def made(y, s=1.0, *, t=1.0):
        print(end="")
        return y * s + t

    made.__defaults__, made.__kwdefaults__ = defaults, by_name
    return made


def given_what_it_lacks(x, f):
    return f(x, *([] if f.__defaults__ else [3.0]), **({} if f.__kwdefaults__ else {"t": 4.0}))


F, G = scaled(2.0), scaled(3.0)
TOLD_APART = {  # what a program may see of a function beside its code, with arguments that differ in it
    "code": (applied, [scaled(2.0), default(2.0)]),
    "number of defaults": (lambda x, f: f(x) if f.__defaults__ else x, [default(2.0), scaled(2.0)]),
    "defaults of a callee that breaks": (
        given_what_it_lacks,
        [breaking_with((2.0,), {"t": 5.0}), breaking_with(None, {"t": 6.0}), breaking_with((7.0,), None)],
    ),
    "constant in a cell": (lambda x, f: f(x), [*map(lengthened, ("a", "bc"))]),
    "global variables": (applied, [other_globals(2.0), other_globals(3.0)]),
    "identity": (lambda x, f: x + (f is F), [G, F]),
    "equality": (lambda x, f: x + (f == F), [G, F]),
    "a dict's key": (lambda x, f: x + {F: 1, G: 2}[f], [F, G]),
    "membership": (lambda x, f: x + (f in [F]), [F, G]),
    "attribute": (lambda x, f: x + f.scale, [with_attribute(1), with_attribute(2)]),
    "absent attribute": (lambda x, f: x + getattr(f, "scale", 5), [F, with_attribute(2)]),
    "name": (lambda x, f: x + len(f.__name__), [F, keyword(2)]),
    "wraps": (
        lambda x, f: x + getattr(functools.wraps(f)(lambda y: y), "scale", 5),
        [F, with_attribute(2)],
    ),
}


@pytest.mark.parametrize("name", TOLD_APART)
@pytest.mark.parametrize("back", [False, True], ids=["first", "last"])
def test_what_tells_functions_apart_is_guarded(name, back):
    function, given = TOLD_APART[name]
    given = given[::-1] if back else given
    compiles_of(function, [lambda f=f: (x(), f) for f in (*given, *given)])


def counter():
    count = 0.0

    def more(y):
        nonlocal count
        count += 1
        return y + count

    return more, lambda: count


def both(x, more, get):
    y = more(x)
    return y * get()


@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)])
def test_functions_that_share_a_cell_are_not_those_that_do_not(order):
    """A cell that two functions share at capture: the value that one reads is what the other wrote."""
    makers = (lambda: (x(), *counter()), lambda: (x(), counter()[0], counter()[1]))
    compiles_of(both, [makers[i] for i in order])


USES = (
    "x = f(x)", "x = x + (f is g)", "x = f(x) if f is not g else g(x)", "print(end='')", "x = x + len(d) * (f in d)",
    "x = g(f(x))", "f, g = g, f", "x = (lambda h: h(x) + 1)(f)", "x = sum(h(x) for h in [f, g])", "d[f] = 1",
    "x = x + getattr(f, 'seen', 0.5)", "f.seen = 2", "f = functools.partial(f)", "x = x * (getattr(f, '__code__', 1) is getattr(g, '__code__', 2))",
    "h = lambda y, f=f: f(y) + 1; x = h(x)", "x = list(map(f, [x, x + 1]))[1]", "x = x + len(getattr(f, '__closure__', None) or ())",
)  # fmt: skip


def random_program(seed):
    """A function of a tensor, two functions and a dict; and what makes the arguments of one of its calls."""
    chosen = random.Random(seed)
    lines = [f"    {chosen.choice(USES)}" for _ in range(chosen.randint(2, 6))]
    names = {"functools": functools}
    exec("\n".join(["def program(x, f, g, d):", *lines, "    return x, len(d)"]), names)

    def function(depth=1):
        kind = chosen.choice((scaled, keyword, default, breaking, composed)[: 4 + depth])
        if kind is composed:
            return composed(function(0), function(0))
        return kind(chosen.choice((2.0, 3, 0.5, True, torch.full((3,), 2.0))))

    def call():
        state = chosen.getstate()

        def make():
            chosen.setstate(state)
            f = function()
            g = f if chosen.random() < 0.3 else function()
            return x(), f, g, {f: 1} if chosen.random() < 0.5 else {}

        make()  # moves on to where the next call's begin
        return make

    return names["program"], [call() for _ in range(5)]


@pytest.mark.parametrize("part", range(2))
def test_random_programs_of_functions_do_what_eager_does(part):
    for seed in range(part, 32, 2):
        function, calls = random_program(seed)
        try:
            compiles_of(function, calls)
        except Exception as error:
            raise AssertionError(f"program {seed}") from error


# ---- lists -------------------------------------------------------------------------------------------


def appended(x, n):
    found = []
    for i in range(n):
        found.append(x * i)
        print(end="")
    return found


def added_in_place(x, n):
    found = []
    for _ in range(n):
        x = x + 1
        found += [x, x * 2]
        print(end="")
    return found


def extended(x, n):
    found = []
    while len(x) < 3 + n:
        x = torch.cat([x, x[:1]])
        found.extend([x, x + 1])
        print(end="")
    return found


def two_in_a_dict(x, n):
    found = {"a": [], "b": []}
    for _ in range(n):
        x = x + 1
        found["a"].append(x)
        found["b"].append(x * 2)
        print(end="")
    return found["a"] + found["b"]


def comprehended(x, n):
    return [print(end="") or x * i for i in range(n)]


def keep(found, x):
    found.append(x * 2)
    return x + 1


def through_a_function(x, n):
    found = []
    for _ in range(n):
        x = keep(found, x)
        print(end="")
    return [torch.stack(found)]


GROWING = {  # the function: how many graphs it needs, for any number of turns
    appended: 2,
    added_in_place: 2,
    two_in_a_dict: 2,
    through_a_function: 3,
}


@pytest.mark.parametrize("function", GROWING, ids=lambda f: f.__name__)
def test_a_list_that_grows_across_a_break_is_compiled_once(function):
    assert compiles_of(function, [lambda: (x(), 7)]) == GROWING[function]


@pytest.mark.parametrize("function", [extended, comprehended])
def test_other_lists_that_grow_do_what_eager_does(function):
    compiles_of(function, [lambda: (x(), 4)])


def test_a_list_of_the_callers_may_have_any_length():
    def logged(x, log):
        y = x + 1
        log.append(y)
        return y

    calls = [lambda n=n: (x(), [n] * n) for n in range(6)]
    assert compiles_of(logged, calls) == 1


READS = {
    "length": lambda x, found: found.append(x) or x + len(found),
    "last": lambda x, found: found.append(x + 1) or found[-1] * 2,
    "first": lambda x, found: found.append(x + 1) or found[0] * 2,
    "truth": lambda x, found: x + 1 if found else x - 1,
    "equal": lambda x, found: x + (found == []),
    "popped": lambda x, found: found.append(x) or found.pop(0) * 2,
    "reversed": lambda x, found: found.append(x + 1) or found.reverse() or found[0] * 2,
    "sum": lambda x, found: sum(found, x) + 1,
    "itself": lambda x, found: found.extend(found) or x + len(found),
    "twice": lambda x, found: [x + 1, found.append(x), found, len(found), found.append(x * 2)][:3],
}


@pytest.mark.parametrize("name", READS)
def test_who_reads_a_list_sees_what_is_in_it(name):
    """It is read after it grew: what was in it before, and what is new; and is left as eager leaves it."""
    function = lambda x, found: (READS[name](x, found), list(found))  # noqa: E731
    compiles_of(function, [lambda n=n: (x(), [x() * i for i in range(n)]) for n in (2, 0, 1, 2, 0)])


def test_a_list_given_twice_is_one_list():
    def both_ends(x, one, other):
        one.append(x + 1)
        other.append(x + 2)
        return x * 2, list(one), list(other)

    def alike():
        found = [x()]
        return x(), found, found

    compiles_of(both_ends, [alike, lambda: (x(), [x()], [x()]), alike])
