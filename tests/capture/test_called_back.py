"""Functions that C code or a module calls back are compiled though the frame that reaches them breaks there.

Input: small functions whose callback, property or special method breaks in its middle. Frames with a graph are
counted, not only results.
"""

import functools
import traceback

import pytest

import cutaway
from cutaway import compiler, nn
from stage_contracts import events

LOG = []


def loud(*words):
    """A break."""
    LOG.append(print(*words, end=""))


def key(x):
    y = x * 2
    loud()
    return float((y + 1).sum().item())


def step(a, b):
    y = a * b
    loud()
    return y + 1


def hook(module, args, output):
    y = output * 3
    loud()
    return y + 1


class Adds:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        y = x * self.by
        loud()
        return y + 1


class Held:
    """Every method computes, breaks, and computes again."""

    def __init__(self):
        self.kept = None

    @property
    def doubled(self):
        y = WEIGHT * 2
        loud()
        return y + 1

    @doubled.setter
    def doubled(self, x):
        y = x * 2
        loud()
        self.kept = y + 1

    def __getattr__(self, name):
        y = WEIGHT * len(name)
        loud()
        return y + 1

    def __add__(self, x):
        y = x * 2
        loud()
        return y + 1

    def __rsub__(self, count):
        y = WEIGHT * count
        loud()
        return y + 1

    def __imul__(self, x):
        y = x * 2
        loud()
        return y + 1

    def __neg__(self):
        y = WEIGHT * 2
        loud()
        return y + 1

    def __lt__(self, x):
        y = x * 2
        loud()
        return y + 1

    def __eq__(self, x):
        y = x * 2
        loud()
        return y + 1

    def __getitem__(self, place):
        y = WEIGHT * place
        loud()
        return y + 1

    def __setitem__(self, place, x):
        y = x * place
        loud()
        self.kept = y + 1

    def __delitem__(self, place):
        y = WEIGHT * place
        loud()
        self.kept = y + 1

    def __contains__(self, x):
        y = x * 2
        loud()
        return (y.abs() + 1).sum().item()

    def __len__(self):
        y = WEIGHT * 2
        loud()
        return int((y.abs() + 1).sum().item() > 0)

    def __enter__(self):
        y = WEIGHT * 2
        loud()
        return y + 1

    def __exit__(self, kind, error, traceback):
        y = WEIGHT * 3
        loud()
        self.kept = y + 1
        return True


class Truthful(Held):
    def __bool__(self):
        y = WEIGHT * 2
        loud()
        return bool((y.abs() + 1).sum().item() < 0)


class Asked:
    """Its methods are reached by functions of Python's, by f-strings, loops and slices."""

    def __init__(self):
        self.kept = None

    @property
    def tripled(self):
        y = WEIGHT * 3
        loud()
        return y + 1

    @tripled.setter
    def tripled(self, x):
        y = x * 3
        loud()
        self.kept = y + 1

    def __iter__(self):
        y = WEIGHT * 2
        loud()
        return iter([y + 1, y + 2])

    def __next__(self):
        y = WEIGHT * 2
        loud()
        return y + 1

    def __str__(self):
        y = WEIGHT * 2
        loud()
        return f"{(y + 1).sum().item():.3f}"

    def __repr__(self):
        y = WEIGHT * 2
        loud()
        return f"<{(y + 1).sum().item():.3f}>"

    def __format__(self, spec):
        y = WEIGHT * 2
        loud()
        return f"{spec}{(y + 1).sum().item():.3f}"

    def __getitem__(self, place):
        y = WEIGHT * place.stop
        loud()
        return y + 1

    def __setitem__(self, place, x):
        y = x * place.stop
        loud()
        self.kept = y + 1

    def __getattr__(self, name):
        y = WEIGHT * len(name)
        loud()
        return y + 1

    def __int__(self):
        y = WEIGHT * 2
        loud()
        return int((y.abs() + 1).sum().item())


WEIGHT = cutaway.tensor([1.0, -2.0, 3.0])


def sets(x, held):
    held.doubled = x
    return held.kept


def stores(x, held):
    held[3] = x
    return held.kept


def deletes(x, held):
    del held[3]
    return held.kept


def multiplies(x, held):
    held *= x
    return held


def branches(x, held):
    if held:
        return x + 1
    return x - 1


def enters(x, held):
    with held as y:
        x = x + y
    return x + held.kept


def leaves_by_an_error(x, held):
    with held:
        raise ValueError
    return x + held.kept


def loops(x, asked):
    for y in asked:
        x = x + y
    return x


def unpacks(x, asked):
    a, b = asked
    return x + a - b


def unpacks_a_rest(x, asked):
    a, *b = asked
    return x + a - b[0]


def sets_a_slice(x, asked):
    asked[1:4] = x
    return asked.kept


def sets_by_name(x, asked):
    asked.tripled = x
    return asked.kept


def hooked():
    layer = nn.ReLU()
    layer.register_forward_hook(hook)
    return layer


CALLERS = {
    "key": (lambda x, _: sorted([x, x * 3], key=key)[0] - 1, None),
    "step": (lambda x, _: functools.reduce(step, [x, x]) - 1, None),
    "mapped step": (lambda x, _: list(map(step, [x], [x]))[0] - 1, None),
    "hook": (lambda x, layer: layer(x) - 1, hooked),
    "Adds.__call__": (lambda x, adds: adds(x) - 1, lambda: Adds(2)),
    "Held.doubled": (lambda x, held: held.doubled - x, Held),
    "set Held.doubled": (sets, Held),
    "Held.__getattr__": (lambda x, held: held.nowhere - x, Held),
    "Held.__add__": (lambda x, held: (held + x) - 1, Held),
    "Held.__rsub__": (lambda x, held: (2 - held) - x, Held),
    "Held.__imul__": (multiplies, Held),
    "Held.__neg__": (lambda x, held: -held - x, Held),
    "Held.__lt__": (lambda x, held: (held < x) - 1, Held),
    "Held.__eq__": (lambda x, held: (held == x) - 1, Held),
    "Held.__getitem__": (lambda x, held: held[3] - x, Held),
    "Held.__setitem__": (stores, Held),
    "Held.__delitem__": (deletes, Held),
    "Held.__contains__": (lambda x, held: x - (x in held), Held),
    "not Held.__contains__": (lambda x, held: x - (x not in held), Held),
    "Held.__len__": (lambda x, held: x - len(held), Held),
    "if Held.__len__": (branches, Held),
    "not Held.__len__": (lambda x, held: x - (not held), Held),
    "Truthful.__bool__": (branches, Truthful),
    "bool Truthful.__bool__": (lambda x, held: x - bool(held), Truthful),
    "Held.__enter__": (enters, Held),
    "Held.__exit__": (enters, Held),
    "raising Held.__exit__": (leaves_by_an_error, Held),
    "for Asked.__iter__": (loops, Asked),
    "iter Asked.__iter__": (lambda x, asked: next(iter(asked)) - x, Asked),
    "list Asked.__iter__": (lambda x, asked: list(asked)[1] - x, Asked),
    "sum Asked.__iter__": (lambda x, asked: sum(asked) - x, Asked),
    "unpacked Asked.__iter__": (unpacks, Asked),
    "starred Asked.__iter__": (unpacks_a_rest, Asked),
    "next Asked.__next__": (lambda x, asked: next(asked) - x, Asked),
    "str Asked.__str__": (lambda x, asked: x + len(str(asked)), Asked),
    "repr Asked.__repr__": (lambda x, asked: x + len(repr(asked)), Asked),
    "format Asked.__format__": (lambda x, asked: x + len(format(asked, "abc")), Asked),
    "f-string Asked.__format__": (lambda x, asked: x + len(f"{asked}"), Asked),
    "f-string of a spec Asked.__format__": (lambda x, asked: x + len(f"{asked:abc}"), Asked),
    "f-string !s Asked.__str__": (lambda x, asked: x + len(f"{asked!s}"), Asked),
    "f-string !r Asked.__repr__": (lambda x, asked: x + len(f"{asked!r:>20}"), Asked),
    "slice Asked.__getitem__": (lambda x, asked: asked[1:3] - x, Asked),
    "set slice Asked.__setitem__": (sets_a_slice, Asked),
    "getattr Asked.__getattr__": (lambda x, asked: asked.nowhere - x, Asked),
    "getattr or Asked.__getattr__": (lambda x, asked: getattr(asked, "nowhere", x) - x, Asked),
    "getattr Asked.tripled": (lambda x, asked: asked.tripled - x, Asked),
    "hasattr Asked.__getattr__": (lambda x, asked: x + hasattr(asked, "nowhere"), Asked),
    "setattr Asked.tripled": (sets_by_name, Asked),
    "int Asked.__int__": (lambda x, asked: x + int(asked), Asked),
}


@pytest.mark.parametrize("name", CALLERS)
def test_what_is_called_back_is_compiled(name, capsys):
    function, make = CALLERS[name]
    called = name.rpartition(" ")[2]
    given = make() if make else None
    counter = compiler.CompileCounter()
    compiled = cutaway.compile(function, backend=counter)
    x = cutaway.randn(3)
    mark = events.EVENT_LOG.mark()
    for _ in range(2):
        assert cutaway.equal(compiled(x, given), function(x, given))
    graphs = [made.function_name for made in compiled.artifacts if made.frame.graph is not None]
    assert graphs.count(called) == 2, "the part before its break, and the part behind it"
    assert counter.frame_count == len(graphs)
    told = [
        event for event in events.EVENT_LOG.since(mark) if event.kind == "compile" and event.name == called
    ]
    assert len(told) >= 2, "the event log knows them"


class Plain:
    """Its methods break, then decline, answer what Python refuses, or raise."""

    def __add__(self, other):
        loud("add")
        return NotImplemented

    def __radd__(self, other):
        loud("radd")
        return NotImplemented

    def __iadd__(self, other):
        loud("iadd")
        return NotImplemented

    def __pow__(self, other):
        loud("pow")
        raise KeyError("pow")

    def __lt__(self, other):
        loud("lt")
        return NotImplemented

    def __gt__(self, other):
        loud("gt")
        return NotImplemented

    def __eq__(self, other):
        loud("eq")
        return NotImplemented

    def __len__(self):
        loud("len")
        return -1

    def __bool__(self):
        loud("bool")
        return 3

    @property
    def misses(self):
        loud("misses")
        return self.nowhere

    def __enter__(self):
        loud("enter")


class Derived(Plain):
    def __radd__(self, other):
        loud("derived radd")
        return 2

    def __gt__(self, other):
        loud("derived gt")
        return 3


class Heir(Plain):
    """Derived too, but `__radd__` is its parent's."""


def adds_in_place(a, b):
    a += b
    return a


def enters_nothing(a, b):
    with a:
        return 1


DISPATCHED = {
    "+": lambda a, b: a + b,
    "+=": adds_in_place,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "len": lambda a, b: len(a),
    "not": lambda a, b: not a,
    "misses": lambda a, b: a.misses,
    "enter": enters_nothing,
}
OPERANDS = {
    "derived": Derived,
    "heir": Heir,
    "same": Plain,
    "int": lambda: 3,
    "list": lambda: [3],
    "str": str,
}


def outcome(function, a, b, capsys):
    """What it gives or raises, the user's lines of the traceback, and what was printed in which order."""
    try:
        found = function(a, b)
    except Exception as error:
        lines = [(f.name, f.lineno, f.colno) for f in traceback.extract_tb(error.__traceback__)]
        own = [
            line
            for f, line in zip(traceback.extract_tb(error.__traceback__), lines)
            if f.filename == __file__
        ]
        found = type(error), str(error), own[1:], error.__context__, getattr(error, "name", None)
    return found, capsys.readouterr().out


UNARY = ("len", "not", "misses", "enter")  # what they do not look at need not vary
CASES = [(name, right) for name in DISPATCHED for right in OPERANDS if right == "int" or name not in UNARY]


@pytest.mark.parametrize(("name", "right"), CASES)
def test_methods_are_asked_in_pythons_order(name, right, capsys):
    function = DISPATCHED[name]
    a, b = Plain(), OPERANDS[right]()
    expected = outcome(function, a, b, capsys)
    assert expected[1] or name in ("!=", "enter"), "a method was reached"
    compiled = cutaway.compile(function, backend="eager")
    for _ in range(2):
        assert outcome(compiled, a, b, capsys) == expected


def test_what_runs_a_compiled_function_is_not_compiled_itself():
    def inner(x):
        loud()
        return x * 2

    def outer(x):
        return compiled_inner(x) + 1

    compiled_inner = cutaway.compile(inner, backend="eager")
    mark = events.EVENT_LOG.mark()
    assert cutaway.compile(outer, backend="eager")(cutaway.ones(2)).tolist() == [3, 3]
    names = [event.name for event in events.EVENT_LOG.since(mark, "compile")]
    assert any(name.endswith("inner") for name in names) and not any("__call__" in name for name in names), (
        names
    )
