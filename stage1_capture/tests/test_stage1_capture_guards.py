"""Guards: they hold on the call they were made from, and fail when what they are about is rebound.

Input: the seam `capture`. One case per thing a program can read; each changes it and puts it back.
"""

import inspect
from contextlib import contextmanager

import pytest

from stage0_eager import nn, no_grad
from stage0_eager.functions.pointwise import sin
from stage0_eager.nn.module import bump_structure_epoch
from stage1_capture.capture import signature_text
from stage1_capture.tests.harness import guard_function, guards_hold, may_break, tensor
from stage_contracts import dtype as dt

SCALE = 2.0
ZERO = 0.0
TABLE = {"a": 1, "b": [1, 2]}
WEIGHT = tensor(4)
OTHER = tensor(4, seed=1)
POINTS = [(1, 2)]


def helper(x, by=2, *, bias=1):
    return x * by + bias


def replaced(x, by=2, *, bias=1):
    return x * by - bias


class Settings:
    rate = 0.5

    def __init__(self):
        self.width = 4
        self.names = ["x"]

    def scaled(self, x):
        return x * self.rate


SETTINGS = Settings()


class Net(nn.Module):
    ratio = 2

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.stages = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.scale = 0.5
        self.sizes = [1, 2]
        self.register_buffer("offset", tensor(4))

    def forward(self, x):
        x = self.stages(self.fc(x)) * self.scale + self.offset
        return x * self.sizes[0] * self.ratio if self.training else x


def reads_scale(x):
    return x * SCALE


def reads_zero(x):
    return x * ZERO


def reads_table(x):
    return x * TABLE["a"] * TABLE["b"][0]


def reads_weight(x):
    return x * WEIGHT


def reads_points(x):
    for a, b in POINTS:
        x = x + a * b
    return x


def calls_helper(x):
    return helper(x)


def calls_sin(x):
    return sin(x)


def reads_by_type(x):
    return x * type(SETTINGS).rate


def makes_one(x):
    return x * type(Settings()).rate


def reads_settings(x):
    return SETTINGS.scaled(x) * SETTINGS.width + len(SETTINGS.names)


class Computing:
    __slots__ = ("__dict__", "slot")

    def __getattr__(self, name):
        return 3


COMPUTING = Computing()


class Slots:
    __slots__ = ("slot",)


SLOTS = Slots()


def computes(x):
    return x * COMPUTING.anything


def looks_for_slot(x):
    return x + 1 if hasattr(SLOTS, "slot") else x - 1


def looks_for(x):
    return x + 1 if hasattr(SETTINGS, "extra") else x - 1


def uses_len(x):
    return x * len(TABLE)


def has_default(x, y=3, *, k=1.5):
    return x * y + k


def with_default(x, y=WEIGHT):
    return x * y


def takes_all(x, y, *more, **options):
    for m in more:
        x = x + m
    return x * y if options.get("flag") else x


def repeats(x, n):
    for _ in range(n):
        x = x + 1
    return x


def two(x, y):
    return x + y


def same(x, y):
    return x + y if x is y else x - y


def in_place(x, y):
    x.add_(y)
    return x * 2


def walks_keys(x, d):
    return x + 1, list(d)


def run_module(net, x):
    return net(x)


def run_modules(nets, x):
    for net in nets:
        x = net(x)
    return x


def closing_over(weight, power):
    def closed(x):
        return (x * weight) ** power

    return closed


@contextmanager
def rebound(holder, name, value):
    """holder.name = value, and back."""
    in_items = isinstance(holder, (dict, list))
    old = holder[name] if in_items else getattr(holder, name)
    setter = holder.__setitem__ if in_items else lambda n, v: setattr(holder, n, v)
    setter(name, value)
    try:
        yield
    finally:
        setter(name, old)


@contextmanager
def added(holder, name, value):
    setattr(holder, name, value)
    try:
        yield
    finally:
        delattr(holder, name)


def here(name, value):
    return lambda *_: rebound(globals(), name, value)


X = tensor(3, 4)
NET = Net()
BATCH = tensor(3, 3)
NARROW = nn.Parameter(tensor(1, 4))

# what the program is, its arguments, what is changed around the second check
REBINDINGS = {
    "global constant": (reads_scale, (X,), here("SCALE", 2.5)),
    "global's type": (reads_scale, (X,), here("SCALE", 2)),
    "sign of zero": (reads_zero, (X,), here("ZERO", -0.0)),
    "global tensor's shape": (reads_weight, (X,), here("WEIGHT", tensor(1))),
    "global tensor's class": (reads_weight, (X,), here("WEIGHT", 2.0)),
    "item of a global": (reads_table, (X,), lambda *_: rebound(TABLE, "a", 5)),
    "deep item": (reads_table, (X,), lambda *_: rebound(TABLE, "b", [7, 2])),
    "longer list": (reads_points, (X,), here("POINTS", [(1, 2), (3, 4)])),
    "longer tuple": (reads_points, (X,), here("POINTS", [(1, 2, 3)])),
    "inlined function": (calls_helper, (X,), here("helper", replaced)),
    "its default": (calls_helper, (X,), lambda *_: rebound(helper, "__defaults__", (5,))),
    "its keyword default": (calls_helper, (X,), lambda *_: rebound(helper.__kwdefaults__, "bias", 0)),
    "operator": (calls_sin, (X,), here("sin", WEIGHT.cos.__func__)),
    "attribute": (reads_settings, (X,), lambda *_: rebound(SETTINGS, "width", 8)),
    "class attribute": (reads_settings, (X,), lambda *_: rebound(Settings, "rate", 0.25)),
    "class attribute by type()": (reads_by_type, (X,), lambda *_: rebound(Settings, "rate", 0.25)),
    "class attribute of one made inside": (makes_one, (X,), lambda *_: rebound(Settings, "rate", 0.25)),
    "class attribute shadowed": (reads_settings, (X,), lambda *_: added(SETTINGS, "rate", 0.1)),
    "method": (reads_settings, (X,), lambda *_: rebound(Settings, "scaled", lambda self, x: x)),
    "method shadowed": (reads_settings, (X,), lambda *_: added(SETTINGS, "scaled", lambda x: x)),
    "list of an object": (reads_settings, (X,), lambda *_: rebound(SETTINGS, "names", ["x", "y"])),
    "object": (reads_settings, (X,), here("SETTINGS", 3)),
    "computed attribute that is there now": (computes, (X,), lambda *_: added(COMPUTING, "anything", 1)),
    "computed attribute on the class": (computes, (X,), lambda *_: added(Computing, "anything", 1)),
    "slot that was empty": (looks_for_slot, (X,), lambda *_: added(SLOTS, "slot", 1)),
    "attribute that was absent": (looks_for, (X,), lambda *_: added(SETTINGS, "extra", 1)),
    "shadowed builtin": (uses_len, (X,), lambda *_: shadowed("len", lambda x: 7)),
    "default": (has_default, (X,), lambda *_: rebound(has_default, "__defaults__", (4,))),
    "keyword default": (has_default, (X,), lambda *_: rebound(has_default.__kwdefaults__, "k", 2.5)),
    "tensor default": (with_default, (X,), lambda *_: rebound(with_default, "__defaults__", (1,))),
    "grad mode": (two, (X, X), lambda *_: no_grad()),
    "requires_grad": (two, (tensor(3), tensor(3)), lambda x, y: rebound(y, "requires_grad", True)),
    "training": (run_module, (NET, X), lambda *_: evaluated(NET)),
    "training of a child": (run_module, (nn.Sequential(nn.Dropout(0.5)), X), lambda net, _: evaluated(net)),
    "attribute of a module": (run_module, (NET, X), lambda *_: rebound(NET, "scale", 0.1)),
    "class attribute of a module": (run_module, (NET, X), lambda *_: rebound(Net, "ratio", 3)),
    "list of a module": (run_module, (NET, X), lambda *_: rebound(NET.sizes, 0, 9)),
    "forward of the class": (run_module, (NET, X), lambda *_: rebound(Net, "forward", lambda self, x: x)),
    "forward of the instance": (run_module, (NET, X), lambda *_: added(NET, "forward", lambda x: x)),
    "child module beside the registry": (run_module, (NET, X), lambda *_: beside(NET, "fc", nn.Linear(4, 4))),
    "child module": (run_module, (NET, X), lambda *_: rebound(NET, "fc", nn.Linear(4, 4))),
    "parameter's shape": (run_module, (NET, X), lambda *_: rebound(NET.fc, "weight", NARROW)),
    "parameter removed": (run_module, (NET, X), lambda *_: rebound(NET.fc, "bias", None)),
    "parameter frozen": (run_module, (NET, X), lambda *_: rebound(NET.fc.weight, "requires_grad", False)),
    "buffer": (run_module, (NET, X), lambda *_: rebound(NET, "offset", tensor(1))),
    "buffer requires grad": (run_module, (NET, X), lambda *_: rebound(NET.offset, "requires_grad", True)),
    "hook": (run_module, (NET, X), lambda *_: hooked(NET.fc)),
    "longer Sequential": (run_module, (NET, X), lambda *_: longer(NET.stages)),
}  # fmt: skip


class Module:
    """This test module as an object, to add a global to it."""

    def __new__(cls):
        raise TypeError


@contextmanager
def evaluated(net):
    net.eval()
    yield
    net.train()


@contextmanager
def hooked(net):
    remove = net.register_forward_hook(lambda module, args, output: output * 2)
    yield
    remove.remove()


@contextmanager
def beside(net, name, value):
    vars(net)[name] = value
    bump_structure_epoch()
    yield
    del vars(net)[name]
    bump_structure_epoch()


@contextmanager
def longer(net):
    net.add_module("9", nn.ReLU())
    yield
    del net._modules["9"]
    bump_structure_epoch()


@pytest.mark.parametrize("name", REBINDINGS)
@pytest.mark.conformance("capture", tier="core")
def test_a_rebound_thing_fails_the_guards(seam, name):
    """A fact that the graph relies on is guarded: rebind it, and the guards fail."""
    function, args, change = REBINDINGS[name]
    frame = seam("capture")(function, args, {})
    if may_break(seam, frame):
        return
    check = guard_function(frame, function)
    assert check(*args)
    with change(*args):
        assert not check(*args), f"still holds:\n{check.source_text}"
    assert guards_hold(frame, function, args), "the change was undone, so that the facts are true again"


@contextmanager
def shadowed(name, value):
    globals()[name] = value
    yield
    del globals()[name]


def named_as_what_checks_call(x, type, len, tuple, *, hasattr, lacks):
    y = x * 2 if "k" in tuple and not getattr(lacks, "absent", None) else x
    return y + len[0] + hasattr


@pytest.mark.conformance("capture", tier="core")
def test_parameters_may_have_the_names_of_what_checks_call(seam):
    args, kwargs = (X, 1, [2], {"k": 3}), {"hasattr": 4, "lacks": Net()}
    frame = seam("capture")(named_as_what_checks_call, args, kwargs)
    if may_break(seam, frame):
        return
    check = guard_function(frame, named_as_what_checks_call)
    assert check(*args, **kwargs)
    assert not check(X, 1, [2, 2], {"k": 3}, **kwargs)
    assert not check(X, 1, [2], {}, **kwargs)


@pytest.mark.conformance("capture", tier="core")
def test_registered_names_are_read_without_a_call(seam, monkeypatch):
    """Module.__getattr__ takes several times as long as the two dicts it looks into."""
    net = Net()
    frame = seam("capture")(run_module, (net, X), {})
    if may_break(seam, frame):
        return
    check = guard_function(frame, run_module)
    monkeypatch.delattr(nn.Module, "__getattr__")
    assert check(net, X)
    del net._modules["fc"]
    bump_structure_epoch()
    assert not check(net, X)


# the program, the call it was captured from, a call that must not run it
OTHER_CALLS = {
    "shape": (two, (X, X), (tensor(5, 4), tensor(5, 4))),
    "dtype": (two, (tensor(3), tensor(3, seed=1)), (tensor(3), tensor(3).double())),
    "strides": (two, (tensor(3, 3), tensor(3, 3, seed=1)), (tensor(3, 3), tensor(3, 3).T)),
    "number for a tensor": (two, (tensor(3), tensor(3, seed=1)), (tensor(3), 2.0)),
    "another number that decides": (repeats, (X, 2), (X, 3)),
    "int to float": (two, (X, 2), (X, 2.0)),
    "int to bool": (two, (X, 1), (X, True)),
    "None": (has_default, (X, 3), (X, None)),
    "aliased": (two, (X, X), (X, tensor(3, 4))),
    "not aliased": (same, (X, tensor(3, 4)), (X, X)),
    "aliased in place": (in_place, (tensor(3), tensor(3, seed=1)), (ALIAS := tensor(3), ALIAS)),
    "view in place": (in_place, (tensor(3), tensor(3, seed=1)), (ALIAS, ALIAS[:])),
    "views in place": (in_place, (tensor(3), BATCH[0]), (BATCH, BATCH[0])),
    "kind of a key": (walks_keys, (X, {1: 2}), (X, {True: 2})),
    "fewer star arguments": (takes_all, (X, 2, 1), (X, 2)),
    "another module": (run_module, (NET, X), (Net(), X)),
    "another list": (run_modules, ([NET, NET], X), ([NET], X)),
    "another class": (run_modules, ([NET], X), ((NET,), X)),
    "another function": (lambda x, f: f(x), (X, helper), (X, replaced)),
}


FIRST_GUARDS = {"shape", "dtype", "strides"}  # what the guards of a first version are about


def tier_of(name):
    """A graph with an input for each argument holds for arguments that are no longer one: only a good one has one."""
    tier = "first" if name in FIRST_GUARDS else "full" if name == "aliased" else "core"
    return pytest.mark.conformance("capture", tier=tier)


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier_of(name)) for name in OTHER_CALLS])
def test_another_kind_of_call_fails_the_guards(seam, name):
    """The guards of a frame fail for a call that its graph was not made for."""
    function, args, others = OTHER_CALLS[name]
    frame = seam("capture")(function, args, {})
    if name not in FIRST_GUARDS and may_break(seam, frame):
        return
    check = guard_function(frame, function)
    assert check(*args)
    assert not check(*others), f"still holds:\n{check.source_text}"


# facts that a program does not use must not be guarded: the same graph serves the other call
REUSES = {
    "other values": (two, (X, tensor(3, 4, seed=1)), (tensor(3, 4, seed=5), tensor(3, 4, seed=6))),
    "unused argument": (lambda x, y: x + 1, (X, 3), (X, "three")),
    "items not read": (lambda x, d: x * d["a"], (X, {"a": 1, "b": 2}), (X, {"a": 1, "b": 3})),
    "other object of the class": (lambda x, s: x * s.width, (X, Settings()), (X, Settings())),
}


@pytest.mark.parametrize("name", REUSES)
@pytest.mark.conformance("capture", tier="full")
def test_what_is_not_used_is_not_guarded(seam, name):
    function, args, others = REUSES[name]
    frame = seam("capture")(function, args, {})
    assert frame.breaks == ()
    assert guards_hold(frame, function, others)


@pytest.mark.conformance("capture", tier="full")
def test_closures_are_guarded_by_their_cells(seam):
    closed = closing_over(tensor(4), 2)
    frame = seam("capture")(closed, (X,), {})
    check = guard_function(frame, closed)
    assert check(X)
    cells = dict(zip(closed.__code__.co_freevars, closed.__closure__, strict=True))
    cells["weight"].cell_contents = tensor(4, seed=7)
    assert check(X), "another tensor of the same kind is another input of the same graph"
    cells["power"].cell_contents = 3
    assert not check(X)


@pytest.mark.conformance("capture", tier="full")
def test_a_module_is_guarded_in_one_comparison_while_no_module_changes(seam):
    """Facts of the tree are under the epoch; what the epoch does not see is checked at each call."""
    frame = seam("capture")(run_module, (NET, X), {})
    inside = [g for g in frame.guards if g.under_epoch]
    always = [g for g in frame.guards if not g.under_epoch]
    assert any(str(g.source) == "net.fc.weight" and g.kind == "TENSOR" for g in inside)
    assert any(str(g.source) == "net.training" for g in inside)
    assert {str(g.source) for g in always} >= {"net", "x"}
    assert len(always) < 15, "\n".join(map(str, always))


@pytest.mark.conformance("capture", tier="full")
def test_a_guard_carries_the_line_that_needed_it(seam):
    frame = seam("capture")(has_default, (X, 3), {})
    (guard,) = [g for g in frame.guards if g.kind == "TYPE" and str(g.source) == "y"]
    assert guard.origin.text in ("y", "x")  # 3.13 loads x and y in one instruction, which points at x
    assert guard.origin.file == __file__
    assert guard.origin.line == has_default.__code__.co_firstlineno + 1
    assert str(guard).startswith("type(y) is int  # test_stage1_capture_guards.py:")


def test_the_signature_is_that_of_the_code():
    """Not that of what it wraps, nor what it claims to be."""

    def wrapper(x, /, y, z=1, *rest, k, j=2, **options):
        return x

    wrapper.__wrapped__ = two
    wrapper.__signature__ = inspect.signature(two)
    text, names = signature_text(wrapper)
    assert text == "x, /, y, z=__default_z, *rest, k, j=__default_j, **options"
    assert names == {"__function__": wrapper, "__default_z": 1, "__default_j": 2}
    assert signature_text(lambda x, /: x)[0] == "x, /"
    assert signature_text(lambda *, k: k)[0] == "*, k"
    assert signature_text(lambda: None)[0] == ""


@pytest.mark.conformance("capture", tier="full")
def test_dtypes_are_constants(seam):
    frame = seam("capture")(lambda x, d: x.to(d), (X, dt.float64), {})
    check = guard_function(frame, lambda x, d: x.to(d))
    assert check(X, dt.float64) and not check(X, dt.float16)
