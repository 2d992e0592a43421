"""Guards about modules are compiled when a module has changed, and then say what they would have said at once.

Input: small models, and a change to one of them: before a call, or while it is compiled.
"""

import pytest

import cutaway
from cutaway import compile_frame, nn, residual
from stage_contracts.guards import Guard, compile_guards
from stage_contracts.signature import arguments_text
from stage_contracts.source import ArgSource, AttrSource


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(5))
        self.scale = 2

    def forward(self, x, *rest, plus=1, **more):
        for layer in self.layers:
            x = layer(x) if layer.training else layer(x) * 2
        return x * self.scale + plus + sum(rest) + sum(more.values())


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch):
    """Cutaway's own tests check all guards of a new entry at once: conftest.py says so."""
    monkeypatch.setattr(compile_frame, "ALWAYS_CHECK_ALL", False)


@pytest.fixture
def compiled():
    """(model, compiled model, its entries, x), after one call."""
    model, x = Model().eval(), cutaway.ones(2, 3)
    made = cutaway.compile(model)
    assert cutaway.allclose(made(x), model(x))
    return model, made, lambda: made.compiled.entries, x


def is_made(entry):
    return hasattr(entry.check.under_epoch, "source_text")


def test_as_long_as_no_module_changes_they_are_not_compiled(compiled):
    model, made, entries, x = compiled
    made(x), made(x)
    (entry,) = entries()
    assert not is_made(entry)


def test_a_change_of_another_module_compiles_them_once(compiled):
    model, made, entries, x = compiled
    (entry,) = entries()
    for _ in range(2):
        Model().train()
        assert cutaway.allclose(made(x), model(x))
    assert is_made(entry) and entries() == (entry,)


def train(model):
    model.layers[2].train()


def scale(model):
    model.scale = 3


def another_layer(model):
    model.layers[1] = nn.Linear(3, 3, bias=False)


def other_weight(model):
    model.layers[4].weight = nn.Parameter(cutaway.zeros(3, 3), requires_grad=False)


def hook(model):
    model.layers[0].register_forward_hook(lambda module, args, out: out * 5)


def fewer(model):
    model.layers = model.layers[:2]


@pytest.mark.parametrize("change", [train, scale, another_layer, other_weight, hook, fewer])
def test_a_change_is_seen(compiled, change):
    model, made, entries, x = compiled
    change(model)
    assert cutaway.allclose(made(x), model(x))
    assert len(entries()) == 2


@pytest.mark.parametrize("call", [((1,), {}), ((), {"plus": 4}), ((1, 2), {"k": 5, "plus": 2})])
def test_calls_of_every_form_reach_them(call):
    args, kwargs = call
    model, x = Model().eval(), cutaway.ones(2, 3)
    made = cutaway.compile(model)
    for _ in range(2):
        assert cutaway.allclose(made(x, *args, **kwargs), model(x, *args, **kwargs))
        Model().train()
    change = model.layers[3]
    change.weight = nn.Parameter(cutaway.zeros(3, 3))
    assert cutaway.allclose(made(x, *args, **kwargs), model(x, *args, **kwargs))


@pytest.mark.internal_errors
def test_a_module_that_changes_while_it_is_compiled():
    """Its guards are asked at once: the epoch at which capture began is no more."""
    model, x = Model().eval(), cutaway.ones(2, 3)
    changes = [lambda: model.layers[0].train()]

    def backend(graph, inputs):
        if changes:
            changes.pop()()
        return graph.forward

    made = cutaway.compile(model, backend=backend)
    assert cutaway.allclose(made(x), model(x))
    model.layers[0].eval()
    assert cutaway.allclose(made(x), model(x))


SIGNATURES = {
    "x": "x",
    "x, y=None, *, flag=False": "x, y, flag=flag",
    "x, /, y=1, *rest, k=2, **more": "x, y, *rest, k=k, **more",
    "": "",
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_the_arguments_are_passed_on(signature):
    assert arguments_text(signature) == SIGNATURES[signature]


class Thing:
    value = 1


def test_the_epoch_at_which_they_hold_is_believed_once():
    epoch, asked = [5], []
    guards = (Guard("EQUALS", AttrSource(ArgSource("x"), "value"), 1, under_epoch=True),)

    def now(under):
        asked.append(under)
        return compile_guards(under, "x", {"module_epoch": lambda: epoch[0]})

    check = compile_guards(guards, "x", {"module_epoch": lambda: epoch[0]}, (5, now))
    thing = Thing()
    thing.value = 2  # past every module: nobody said so
    assert check(thing) and not asked
    epoch[0] = 6
    assert not check(thing) and asked == [guards]
    thing.value = 1
    assert check(thing)
    epoch[0] = 7
    assert check(thing) and len(asked) == 1


class Strided(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1, stride=(1, 1), padding=(0, 0))

    def forward(self, x):
        return self.conv(x) * self.conv.stride[0]


def test_what_is_in_a_module_s_tuple_is_read_when_the_module_has_changed():
    model, x = Strided().eval(), cutaway.ones(1, 1, 4, 4)
    made = cutaway.compile(model)
    assert cutaway.allclose(made(x), model(x))
    (entry,) = made.compiled.entries
    about = [g for g in entry.guards if "stride" in str(g.source)]
    assert {"LENGTH", "EQUALS"} <= {g.kind for g in about} and all(g.under_epoch for g in about)
    for value in ((2, 1), (1, 2), (2.0, 2), (2, 2, 2)[:2]):
        model.conv.stride = value
        if type(value[0]) is int:
            assert cutaway.allclose(made(x), model(x))
        else:
            assert not entry.check(model, x)
    assert len(made.compiled.entries) > 1


@pytest.mark.internal_errors
def test_guards_that_cannot_be_compiled_do_not_hold(compiled, monkeypatch):
    """The call that finds it out gets a new entry, and the fault is told."""
    model, made, entries, x = compiled
    ours = residual.compile_guards

    def fails(guards, *rest):
        if all(g.under_epoch for g in guards):
            raise RecursionError("planted")
        return ours(guards, *rest)

    monkeypatch.setattr(residual, "compile_guards", fails)
    Model().train()
    with pytest.warns(UserWarning, match="planted"):
        assert cutaway.allclose(made(x), model(x))
    assert len(entries()) == 2
