"""For each kind of guard: a program, a call it is captured from, and a change that only this kind of guard can notice.

Input: whole compiled functions on the backend that runs graphs as captured. A change makes a second entry (or is run
eagerly) and gives what eager gives; undone, the first entry is used again.
"""

import contextlib

import numpy as np
import pytest

import cutaway
from cutaway import inference_mode, no_grad
from stage_contracts.guards import GUARD_KINDS


def x(*shape, dtype="float32"):
    values = cutaway.arange(float(np.prod(shape or (3,)))).reshape(shape or (3,))
    return values.to(getattr(cutaway, dtype)).clone()  # no view


class Name(str):
    pass


class Settings:
    pass


def double(value):
    return value * 2


def triple(value):
    return value * 3


RULE = double


def first(a, *_):
    return a * 2


def both(a, b):
    a.add_(1)
    return a * b


def same(a, b):
    return a * 2 if a is b else a * 3


def all_written(*tensors):
    for tensor in tensors:
        tensor.add_(1)
    return sum(t.sum() for t in tensors)


def all_appended(value, *lists):
    for number, some in enumerate(lists):
        some.append(number)
    return value * 2


def by_rule(a):
    return RULE(a)


def length_of(a, text):
    return a * len(text)


def items_summed(a, items):
    return a * sum(items)


def values_of(a, table):
    return a * sum(table.values()) - len(list(table)[0])


def width_of(a, settings):
    return a * (settings.width if hasattr(settings, "width") else 5)


def width_in(a, settings):
    return a * vars(settings).get("width", 5)


def large_or_small(a):
    return a * 2 if a.shape[0] > 4 else a * 3


def named(a, name):
    return a * (2 if name == "two" else 3)


def text_or_numbers(a, words):
    return a * (words.size if words.dtype.kind == "f" else 7)


def accumulated(model, a):
    model(a).sum().backward()
    return [weight.grad for weight in model.parameters()]


def fresh_lists(count):
    return [[] for _ in range(count)]


@contextlib.contextmanager
def another_rule():
    global RULE
    RULE = triple
    yield
    RULE = double


class Bare:
    pass


BARE = Bare()


def doubled_if_true(a, bare):
    return a * 2 if bare else a


@contextlib.contextmanager
def with_a_length():
    Bare.__len__ = lambda self: 0
    yield
    del Bare.__len__


class Usual(Settings):
    width = 2


class Computing(Settings):
    def __getattr__(self, name):
        return 2 if name == "kept" else object.__getattribute__(self, name)


def kept_of(a, computing):
    return a * computing.kept


@contextlib.contextmanager
def with_a_getter():
    Settings.__getattribute__ = lambda self, name: (
        1000 if name == "width" else object.__getattribute__(self, name)
    )
    yield
    del Settings.__getattribute__


@contextlib.contextmanager
def with_a_property():
    Usual.width = property(lambda self: 2)
    yield
    Usual.width = 2


def settings(kind=Settings, **facts):
    made = kind()
    vars(made).update(facts)
    return made


def twice_the_same(makers):
    one = makers()
    return [one, one, *(makers() for _ in range(3))]


PLAIN = contextlib.nullcontext
# kind: the program, how its arguments are made, how those of another call are, and in what that other call stands.
# A list of several first calls opens what changes between them.
CASES = {
    "GRAD_MODE": (first, [lambda: (x(),)], lambda: (x(),), no_grad),
    "MODES": (first, [lambda: (x(),)], lambda: (x(),), inference_mode),
    "TENSOR": (first, [lambda: (x(),)], lambda: (x(dtype="float64"),), PLAIN),
    "OPEN_TENSOR": (first, [lambda: (x(3),), lambda: (x(5),)], lambda: (x(7, dtype="float64"),), PLAIN),
    "ARRAY": (first, [lambda: (np.arange(3.0),)], lambda: (np.arange(3),), PLAIN),
    "OPEN_ARRAY": (first, [lambda: (np.arange(3.0),), lambda: (np.arange(5.0),)], lambda: (np.arange(7),), PLAIN),
    "LEFT_TO_NUMPY": (text_or_numbers, [lambda: (x(), np.array(["a"]))], lambda: (x(), np.ones(4)), PLAIN),
    "NOT_ALIASED": (both, [lambda: (x(), x())], lambda: (x(),) * 2, PLAIN),
    "ALIASED": (same, [lambda: (x(),) * 2], lambda: (x(), x()), PLAIN),
    "APART": (all_appended, [lambda: (x(), *fresh_lists(5))], lambda: (x(), *twice_the_same(list)), PLAIN),
    "WRITTEN": (all_written, [lambda: tuple(x() for _ in range(5))], lambda: tuple(twice_the_same(x)), PLAIN),
    "IDENTITY": (by_rule, [lambda: (x(),)], lambda: (x(),), another_rule),
    "TYPE": (width_of, [lambda: (x(), settings(width=2))], lambda: (x(), Name("a")), PLAIN),
    "EQUALS": (length_of, [lambda: (x(), "ab")], lambda: (x(), "abc"), PLAIN),
    "EQUALS, of a derived class": (named, [lambda: (x(), Name("two"))], lambda: (x(), Name("three")), PLAIN),
    "CLASS": (width_of, [lambda: (x(), settings(width=2))], lambda: (x(), settings(width=2)), with_a_getter),
    "CLASS, of a plain value": (width_of, [lambda: (x(), settings(Usual))], lambda: (x(), settings(Usual)), with_a_property),
    "PRESENT": (kept_of, [lambda: (x(), settings(Computing, kept=2))], lambda: (x(), settings(Computing)), PLAIN),
    "CLASS, of what it lacks": (doubled_if_true, [lambda: (x(), BARE)], lambda: (x(), BARE), with_a_length),
    "LENGTH": (items_summed, [lambda: (x(), [1, 2])], lambda: (x(), [1, 2, 3]), PLAIN),
    "KEYS": (values_of, [lambda: (x(), {"a": 1, "bb": 2})], lambda: (x(), {"bb": 2, "a": 1}), PLAIN),
    "ABSENT": (width_of, [lambda: (x(), settings())], lambda: (x(), settings(width=3)), PLAIN),
    "ABSENT_KEY": (width_in, [lambda: (x(), settings())], lambda: (x(), settings(width=3)), PLAIN),
    "SHAPE": (large_or_small, [lambda: (x(5),), lambda: (x(6),)], lambda: (x(3),), PLAIN),
}  # fmt: skip


def plain(value):
    """A result and the arguments after the call, as data that compares."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, cutaway.Tensor):
        return str(value.dtype), value.requires_grad, value.is_inference(), value.tolist()
    return (
        value.tolist()
        if isinstance(value, np.ndarray)
        else repr(type(value))
        if isinstance(value, Settings)
        else value
    )


def agrees(function, compiled, make):
    expected, got = make(), make()
    assert plain(compiled(*got)) == plain(function(*expected))
    assert plain(got) == plain(expected)


@pytest.mark.parametrize("kind", CASES)
def test_a_change_is_noticed_and_its_undoing_too(kind):
    function, calls, other, context = CASES[kind]
    compiled = cutaway.compile(function, backend="eager")
    for make in calls:
        agrees(function, compiled, make)
    assert any(guard.kind == kind.partition(",")[0] for guard in compiled.entries[0].guards), [
        str(g) for g in compiled.entries[0].guards
    ]
    before = len(compiled.entries)
    with context():
        agrees(function, compiled, other)
        assert len(compiled.entries) == before + 1
        agrees(function, compiled, other)
    for make in calls:
        agrees(function, compiled, make)
    assert len(compiled.entries) == before + 1


def parameters_grown(model, grad):
    for weight in model.parameters():
        weight.grad = cutaway.ones_like(weight) if grad else None
    return model


def test_gradients_that_are_there_are_noticed():
    models = [cutaway.nn.Sequential(cutaway.nn.Linear(3, 3), cutaway.nn.Linear(3, 2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    compiled = cutaway.compile(accumulated, backend="eager")
    for grad, entries in ((False, 1), (True, 2), (False, 2), (True, 2)):
        expected, got = (parameters_grown(model, grad) for model in models)
        assert plain(compiled(got, x())) == plain(accumulated(expected, x()))
        assert len(compiled.entries) == entries
    assert any(guard.kind == "NO_GRADIENTS" for entry in compiled.entries for guard in entry.guards)


def stepped(optimizer):
    optimizer.step()


def test_an_optimizers_parameters_in_another_order_are_noticed():
    weights = [cutaway.nn.Parameter(cutaway.ones(size)) for size in (2, 3)]
    for weight in weights:
        weight.grad = cutaway.ones_like(weight)
    optimizer = cutaway.optim.SGD(weights, lr=0.5)
    compiled = cutaway.compile(stepped, backend="eager")
    compiled(optimizer)  # which makes the optimizer's state
    compiled(optimizer)
    for times, entries in ((3, 2), (4, 2), (5, 2)):
        optimizer.param_groups[0]["params"].reverse()
        compiled(optimizer)
        assert [weight.tolist() for weight in weights] == [[1 - times / 2] * 2, [1 - times / 2] * 3]
        assert len(compiled.entries) == entries
    assert any(guard.kind == "ITEMS" for entry in compiled.entries for guard in entry.guards)


def test_every_kind_is_tried():
    assert {*(case.partition(",")[0] for case in CASES), "NO_GRADIENTS", "ITEMS"} == set(GUARD_KINDS)
