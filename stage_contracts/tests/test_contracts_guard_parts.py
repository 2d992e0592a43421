"""Guards of equal parts are one function: what it says of many calls is what the guards say one by one.

Input: random guards about the items of a list of objects, some of which differ between items, and random changes to one
place of one item. The oracle is each guard compiled alone.
"""

import itertools
import random

import pytest

from stage_contracts import dtype as dt
from stage_contracts.guards import Guard, TensorOf, compile_guards
from stage_contracts.source import ArgSource, AttrSource, CallSource, ItemSource, RowSource
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.tests.test_contracts_guards import FakeTensor, Thing, names

LAYERS = AttrSource(ArgSource("x"), "layers")
KINDS = [Thing, type("Other", (Thing,), {})]
FUNCTIONS = [len, max]
WORDS = ["a", "b", 1, 1.0, True, 0.0, -0.0, (1, "a"), None]
METAS = [TensorMeta((2,), dt.float32), TensorMeta((3,), dt.float32), TensorMeta((2,), dt.float64)]


def layer(rng):
    """An object with something of each kind, and one inside it that has the same."""
    own = {"function": rng.choice(FUNCTIONS), "word": rng.choice(WORDS), "row": list(range(rng.randrange(3)))}
    own["table"] = dict.fromkeys(rng.sample("abc", rng.randrange(3)))
    own |= {f"weight_{k}": FakeTensor(rng.choice(METAS)) for k in range(10)}
    return rng.choice(KINDS)(**own)


def layers_of(rng, count):
    """Layers, most of which are like the first, as far as the guards can tell."""
    usual, made = rng.random(), []
    for _ in range(count):
        one = layer(random.Random(usual) if rng.random() < 0.7 else rng)
        one.inner = layer(random.Random(usual))
        made.append(one)
    return made


def facts_about(place, value, chosen):
    """Guards that hold, of the kinds in `chosen`."""
    found = [
        Guard("TYPE", place, type(value), under_epoch=True),
        Guard("IDENTITY", place, value, under_epoch=True),
        Guard("IDENTITY", AttrSource(place, "function"), value.function, under_epoch=True),
        Guard("EQUALS", AttrSource(place, "word"), value.word, under_epoch=True),
        Guard("LENGTH", AttrSource(place, "row"), len(value.row), under_epoch=True),
        Guard("KEYS", AttrSource(place, "table"), tuple(value.table), under_epoch=True),
        Guard("ABSENT_KEY", AttrSource(place, "table"), "d", under_epoch=True),
        Guard("ABSENT", place, "missing", under_epoch=True),
    ]
    for k in range(10):
        meta = getattr(value, f"weight_{k}").meta
        found.append(
            Guard("TENSOR", AttrSource(place, f"weight_{k}"), TensorOf(FakeTensor, meta), under_epoch=True)
        )
    return [guard for guard, wanted in zip(found, chosen, strict=True) if wanted]


def guards_of(rng, layers):
    chosen = [[rng.random() < 0.7 for _ in range(18)] for _ in range(2)]
    guards = []
    for k, value in enumerate(layers):
        place = ItemSource(LAYERS, k)
        guards += facts_about(place, value, chosen[0])
        guards += facts_about(AttrSource(place, "inner"), value.inner, chosen[1])
    if rng.random() < 0.3:  # a guard that leads to a part in another way
        lists = RowSource(
            (AttrSource(ItemSource(LAYERS, 1), "row"), AttrSource(ItemSource(LAYERS, 2), "row"))
        )
        guards.append(Guard("APART", lists, RowSource(()), under_epoch=True))
    if rng.random() < 0.3:
        called = CallSource(ArgSource("y"), (AttrSource(ItemSource(LAYERS, 1), "row"),))
        guards.append(Guard("EQUALS", called, len(layers[1].row), under_epoch=True))
    return guards


def change(rng, value):
    """Changes one place; what is put there may be what was there."""
    name = rng.choice(("function", "word", "row", "table", "missing", "class", "weight_3", "gone"))
    if name == "class":
        value.__class__ = rng.choice(KINDS)
    elif name == "gone":
        del value.table
    elif name == "weight_3":
        value.weight_3 = FakeTensor(rng.choice(METAS))
    elif name == "missing":
        value.missing = 1
    else:
        setattr(value, name, getattr(layer(rng), name))


def compiled(*guards):
    """They are checked in every call: the epoch always moves."""
    return compile_guards(guards, "x, y", names(module_epoch=itertools.count().__next__))


@pytest.mark.parametrize("seed", range(12))
def test_the_function_of_equal_parts_says_what_the_guards_say(seed):
    rng = random.Random(seed)
    layers = layers_of(rng, 7)
    x = Thing(layers=layers)
    guards = guards_of(rng, layers)
    together, alone = compiled(*guards), [compiled(guard) for guard in guards]
    assert together(x, len)
    failed = 0
    for _ in range(30):
        changed = rng.choice(layers)
        changed = rng.choice((changed, changed.inner))
        cls, before = type(changed), dict(changed.__dict__)
        change(rng, changed)
        holds = all(check(x, len) for check in alone)
        assert together(x, len) is holds
        failed += not holds
        changed.__class__ = cls
        changed.__dict__.clear()
        changed.__dict__.update(before)
    assert failed
    assert together(x, len)


def test_equal_parts_are_one_function():
    layers = [layer(random.Random(0)) for _ in range(6)]
    guards = [g for k, v in enumerate(layers) for g in facts_about(ItemSource(LAYERS, k), v, [True] * 18)]
    text = compile_guards(guards, "x", names()).source_text
    assert text.count("check_tensors(") == 1 and text.count("def ") == 2


def test_parts_of_which_other_things_are_asked_are_checked_as_before():
    layers = [layer(random.Random(0)) for _ in range(6)]
    guards = [
        Guard("EQUALS", AttrSource(ItemSource(LAYERS, k), "word"), k, under_epoch=True) for k in range(6)
    ]
    assert compile_guards(guards, "x", names()).source_text.count("def ") == 1
    assert not compile_guards(guards, "x", names())(Thing(layers=layers))
