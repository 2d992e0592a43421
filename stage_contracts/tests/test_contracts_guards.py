"""Guards print as the Python that checks them, and compile to one function; breaks and sources print for people.

Input: one guard of every kind, with a call that passes it and calls that do not.
"""

import types

import numpy as np
import pytest

from stage_contracts import dtype as dt
from stage_contracts.array_guards import ArrayMeta
from stage_contracts.breaks import CATALOGUE, GraphBreak, Unsupported
from stage_contracts.class_guards import changed, facts_of
from stage_contracts.device import CPU, Device
from stage_contracts.guards import GUARD_KINDS, Guard, OpenMeta, TensorOf, check_tensor, compile_guards
from stage_contracts.origin import Origin
from stage_contracts.source import (
    ArgSource,
    AttrSource,
    ClosureSource,
    GlobalSource,
    ItemSource,
    RowSource,
    Source,
)
from stage_contracts.tensor_meta import TensorMeta

X, Y = ArgSource("x"), ArgSource("y")
META = TensorMeta((2, 3), dt.float32)
OPEN = OpenMeta(dt.float32, CPU, False, (None, 3), (0, 1))


class FakeTensor:
    """What check_tensor reads."""

    def __init__(self, meta=META, **changes):
        meta = meta.with_(**changes) if changes else meta
        self.dtype, self.shape, self.device, self.requires_grad = (
            meta.dtype,
            meta.shape,
            meta.device,
            meta.requires_grad,
        )
        self.meta, self.stride = meta, lambda: meta.strides


class OwnTensor(FakeTensor):
    """One of the user's, which no guard may ask for anything."""

    def __getattribute__(self, name):
        raise ZeroDivisionError(name)


OWN = FakeTensor()
OWN.__class__ = OwnTensor
TENSOR, OPEN_TENSOR = TensorOf(FakeTensor, META), TensorOf(FakeTensor, OPEN)


def names(**more):
    return {
        "G": {},
        "C": {},
        "is_grad_enabled": lambda: True,
        "modes": lambda: (),
        "module_epoch": lambda: 0,
        **more,
    }


def checker(*guards, signature="x=None, y=None", **more):
    return compile_guards(guards, signature, names(**more))


class Thing:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


SHARED = Thing()
FLOAT = np.dtype("float32")
WITH_A_VALUE = type("WithAValue", (Thing,), {"foo": 1})
# kind: (guard, its text, a call that holds, calls that do not)
CASES = {
    "GRAD_MODE": (Guard("GRAD_MODE", None, True), "is_grad_enabled() is True", (), []),
    "MODES": (Guard("MODES", None, ()), "modes() == ()", (), []),
    "TENSOR": (Guard("TENSOR", X, TENSOR), "check_tensor(x, 'float32[2, 3]')", (FakeTensor(),),
               [(FakeTensor(shape=(3, 2)),), (FakeTensor(dtype=dt.float64),), (FakeTensor(requires_grad=True),),
                (FakeTensor(shape=(2, 3), strides=(1, 2)),), (3,), (None,), (OWN,)]),
    "OPEN_TENSOR": (Guard("OPEN_TENSOR", X, OPEN_TENSOR), "check_open_tensor(x, 'float32[?, 3]')", (FakeTensor(),),
               [(FakeTensor(shape=(2, 4)),), (FakeTensor(dtype=dt.float64),), (FakeTensor(strides=(1, 2)),), (3,), (OWN,)]),
    "ARRAY": (Guard("ARRAY", X, ArrayMeta(FLOAT, (2, 3), (12, 4))), "check_array(x, 'float32 ndarray[2, 3]')",
               (np.zeros((2, 3), FLOAT),), [(np.zeros((3, 2), FLOAT),), (np.zeros((2, 3)),), (FakeTensor(),), (3,),
                (np.zeros((3, 2), FLOAT).T,), (np.ma.zeros((2, 3), FLOAT),)]),
    "OPEN_ARRAY": (Guard("OPEN_ARRAY", X, OPEN), "check_open_array(x, 'float32[?, 3]')", (np.zeros((7, 3), FLOAT),),
               [(np.zeros((7, 4), FLOAT),), (np.zeros((7, 3)),), (np.zeros((3, 7), FLOAT).T,), (3,)]),
    "LEFT_TO_NUMPY": (Guard("LEFT_TO_NUMPY", X, None), "left_to_numpy(x)", (np.array(["a"]),),
               [(np.zeros(3),), ("a",)]),
    "NOT_ALIASED": (Guard("NOT_ALIASED", X, Y), "x is not y", (1, 2), [(SHARED, SHARED)]),
    "APART": (Guard("APART", RowSource((X,)), RowSource((Y,))), "apart((x, ), (y, ))", (1, 2), [(SHARED, SHARED)]),
    "APART twice": (Guard("APART", RowSource((X, Y)), RowSource(())), "", (1, 2), [(SHARED, SHARED)]),
    "WRITTEN": (Guard("WRITTEN", RowSource((X,)), RowSource((Y,))), "written_apart((x, ), (y, ))", (SHARED, Thing(_base=None)),
                [(SHARED, SHARED), (SHARED, Thing(_base=SHARED)), (Thing(_base=SHARED), Thing())]),
    "ALIASED": (Guard("ALIASED", X, Y), "x is y", (SHARED, SHARED), [(SHARED, Thing())]),
    "IDENTITY": (Guard("IDENTITY", X, len), "x is len", (len,), [(max,), (None,)]),
    "IDENTITY of None": (Guard("IDENTITY", X, None), "x is None", (None,), [(0,), (False,)]),
    "TYPE": (Guard("TYPE", X, Thing), "type(x) is Thing", (Thing(),), [(1,), (Thing,)]),
    "EQUALS": (Guard("EQUALS", X, 3), "type(x) is type(3) and x == 3", (3,), [(3.0,), (4,), (True,), ("3",)]),
    "EQUALS of a zero": (Guard("EQUALS", X, 0.0), "type(x) is float and x.hex() == '0x0.0p+0'", (0.0,), [(-0.0,), (0,), (1.0,)]),
    "CLASS": (
        Guard("CLASS", X, facts_of(Thing, ("__getattr__", "__init__"), lambda cls: cls is not object)),
        "x.__mro__ is Thing.__mro__ and '__getattr__' not in vars(Thing) "
        "and vars(Thing)['__init__'] is Thing.__init__", (Thing,), [(type("Own", (Thing,), {}),), (object,), (3,)],
    ),
    "CLASS of a plain value": (
        Guard("CLASS", X, facts_of(WITH_A_VALUE, (), lambda cls: cls is WITH_A_VALUE, ("foo",))),
        "x.__mro__ is WithAValue.__mro__ and type(vars(WithAValue)['foo']) is int", (WITH_A_VALUE,), [(Thing,)],
    ),
    **{
        f"EQUALS of {value!r}": (Guard("EQUALS", X, value), "", (again,), [(other,) for other in others])
        for value, again, others in (
            (complex("nan"), complex("nan"), [1j, complex(0.0, float("nan"))]),
            (complex(0.0, -0.0), complex(0.0, -0.0), [0j, complex(-0.0, -0.0)]),
            ((1, True), (1, True), [(1, 1), (True, True), (1.0, True)]),
            ((0.0, float("nan")), (0.0, float("nan")), [(-0.0, float("nan")), (0.0, 1.0)]),
            (frozenset({1}), frozenset({1}), [frozenset({True}), frozenset({1.0})]),
            (range(0), range(0), [range(1, 1)]),
            (np.float32("nan"), np.float32("nan"), [np.float64("nan"), np.float32(1)]),
            (np.float32(0.0), np.float32(0.0), [np.float32(-0.0)]),
        )
    },
    "EQUALS of NaN": (Guard("EQUALS", X, float("nan")), "type(x) is float and x.hex() == 'nan'", (float("nan"),), [(1.0,)]),
    "EQUALS of an infinity": (Guard("EQUALS", X, float("inf")), "", (float("inf"),), [(float("-inf"),), (1.0,)]),
    "LENGTH": (Guard("LENGTH", X, 2), "len(x) == 2", ([1, 2],), [([],), (5,)]),
    "ITEMS": (Guard("ITEMS", X, (SHARED, len)), "same_objects(x, <tuple>)", ([SHARED, len],), [([len, SHARED],), ([SHARED],)]),
    "NO_GRADIENTS": (Guard("NO_GRADIENTS", RowSource((X, Y)), None), "no_gradients((x, y, ))", (Thing(grad=None), Thing(grad=None)),
                     [(Thing(grad=None), Thing(grad=1))]),
    "KEYS": (Guard("KEYS", X, ("a", "b")), "tuple(x) == ('a', 'b')", ({"a": 1, "b": 2},), [({"b": 1, "a": 2},), ({},)]),
    "KEYS of numbers": (Guard("KEYS", X, (1, 2)), "", ({1: 0, 2: 0},), [({True: 0, 2: 0},), ({1.0: 0, 2: 0},)]),
    "ABSENT": (Guard("ABSENT", X, "hook"), "not hasattr(x, 'hook')", (Thing(),), [(Thing(hook=1),)]),
    "PRESENT": (Guard("PRESENT", X, "k"), "'k' in x", ({"k": 1},), [({},)]),
    "ABSENT_KEY": (Guard("ABSENT_KEY", X, "k"), "'k' not in x", ({},), [({"k": 1},)]),
    "SHAPE": (Guard("SHAPE", X, "x.shape[0] < 5"), "x.shape[0] < 5", (FakeTensor(),), [(FakeTensor(shape=(9, 3)),), (1,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_kind(name):
    guard, text, holds, fails = CASES[name]
    if text:
        assert str(guard) == text
    check = checker(guard)
    assert check(*holds) is True
    for call in fails:
        assert check(*call) is False, call


def test_every_kind_has_a_case_and_a_meaning():
    assert {name.split()[0] for name in CASES} == set(GUARD_KINDS)
    assert all(kind.meaning and kind.template for kind in GUARD_KINDS.values())
    with pytest.raises(ValueError, match="unknown guard kind 'SHAPES'; expected one of GRAD_MODE"):
        Guard("SHAPES", X, 1)


def test_grad_mode():
    on, off = checker(Guard("GRAD_MODE", None, True)), checker(Guard("GRAD_MODE", None, False))
    assert on() is True and off() is False


def test_the_line_that_needed_it():
    guard = Guard("EQUALS", AttrSource(X, "n"), 3, Origin("model.py", 7, "x.n > 2"))
    assert str(guard) == "type(x.n) is type(3) and x.n == 3  # model.py:7: x.n > 2"


def test_sources_are_expressions_and_read_well():
    deep = ItemSource(AttrSource(GlobalSource("model"), "layers"), "a b")
    assert deep.expression() == "G['model'].layers['a b']" and str(deep) == "model.layers['a b']"
    assert ClosureSource("w").expression() == "C['w'].cell_contents" and str(ClosureSource("w")) == "w"
    guards = [
        Guard("EQUALS", deep, 5),
        Guard("EQUALS", ClosureSource("w"), 1),
        Guard("EQUALS", ItemSource(X, 0), 2),
    ]
    model = types.SimpleNamespace(layers={"a b": 5})
    check = checker(*guards, G={"model": model}, C={"w": types.CellType(1)})
    assert check([2]) is True and check([3]) is False
    model.layers["a b"] = 6
    assert check([2]) is False
    with pytest.raises(NotImplementedError):
        Source().expression()


def test_what_is_gone_counts_as_a_failed_guard():
    check = checker(
        Guard("EQUALS", AttrSource(AttrSource(X, "a"), "b"), 1), Guard("LENGTH", ItemSource(Y, "k"), 0)
    )
    assert check(Thing(a=Thing(b=1)), {"k": []}) is True
    for call in ((Thing(),), (Thing(a=Thing(b=1)), {}), (Thing(a=Thing(b=1)), None)):
        assert check(*call) is False
    assert checker(Guard("EQUALS", GlobalSource("model"), 1))() is False


def test_cheap_kinds_run_first_and_each_check_once():
    guards = [
        Guard("SHAPE", None, "x.shape[0] > 1"), Guard("EQUALS", Y, 3), Guard("TENSOR", X, TENSOR), Guard("GRAD_MODE", None, True),
        Guard("EQUALS", Y, 3, Origin("a.py", 1)),
    ]  # fmt: skip
    check = checker(*guards)
    text = check.source_text
    order = [text.index(part) for part in ("is_grad_enabled", "check_tensor", "y == 3", "x.shape[0] > 1")]
    assert order == sorted(order) and text.count("y == 3") == 1
    assert check(FakeTensor(), 3) is True


def test_the_signature_is_the_functions_own():
    check = checker(
        Guard("EQUALS", ArgSource("flag"), False), signature="x, *rest, flag=default", default=False
    )
    assert check(1) is True and check(1, 2, flag=True) is False
    with pytest.raises(TypeError):  # a call that the function itself would refuse
        check()
    assert checker()() is True


def test_guards_under_the_epoch_run_only_when_it_moved():
    reads, epoch = [], [1]

    class Module:
        @property
        def training(self):
            reads.append(1)
            return self.value

    module = Module()
    module.value = True
    guards = [Guard("EQUALS", AttrSource(X, "training"), True, under_epoch=True), Guard("EQUALS", Y, 1)]
    check = checker(*guards, module_epoch=lambda: epoch[0])
    assert check(module, 1) is True and len(reads) == 1
    assert check(module, 1) is True and len(reads) == 1
    assert check(module, 2) is False and len(reads) == 1  # what is not under the epoch is checked always
    epoch[0] = 2  # something changed somewhere, nothing here
    assert check(module, 1) is True and len(reads) == 2 and check(module, 1) is True and len(reads) == 2
    epoch[0], module.value = 3, False
    assert check(module, 1) is False
    assert check(module, 1) is False  # a failure is not remembered as success
    module.value = True
    epoch[0] = 4
    assert check(module, 1) is True


def test_a_kept_row_is_read_again_when_the_epoch_moved():
    epoch, one, other = [1], Thing(grad=None), Thing(grad=None)
    row = RowSource((AttrSource(X, "w"), AttrSource(X, "v")), kept=True)
    check = checker(
        Guard("NO_GRADIENTS", row, None), Guard("APART", row, RowSource((Y,))), module_epoch=lambda: epoch[0]
    )
    module = Thing(w=one, v=other)
    assert check(module, 1) is True
    other.grad = 1
    assert check(module, 1) is False
    module.v = Thing(grad=None)
    assert check(module, 1) is False  # the epoch says that w and v are what they were
    epoch[0] = 2
    assert check(module, 1) is True and check(module, one) is False
    assert str(row) == "(x.w, x.v)" and str(RowSource((X,) * 5)) == "(x, x, x, and 2 more)"


def test_a_path_that_several_guards_begin_with_is_read_once():
    deep = ItemSource(AttrSource(X, "table"), "a")
    check = checker(
        Guard("TYPE", deep, Thing),
        Guard("EQUALS", AttrSource(deep, "n"), 3),
        Guard("KEYS", AttrSource(X, "table"), ("a",)),
        Guard("EQUALS", Y, "x.table['a']"),
    )
    assert check.source_text.count("x.table") == 2  # read once, and once in a string
    holds = Thing(table={"a": Thing(n=3)})
    assert check(holds, "x.table['a']") is True and check(holds, "x") is False
    assert check(Thing(table={"a": Thing(n=4)}), "x.table['a']") is False
    assert check(Thing(table={}), "x.table['a']") is False


def test_expected_objects_are_compared_by_identity_and_never_hashed_nor_asked():
    class Hostile:
        __hash__ = None

        def __getattr__(self, name):
            raise RuntimeError(f"asked for {name}")

        def __eq__(self, other):
            raise AssertionError("compared")

    one, other = Hostile(), Hostile()
    check = checker(Guard("IDENTITY", X, one), Guard("NOT_ALIASED", Y, X), Guard("IDENTITY", Y, other))
    assert check(one, other) is True and check(other, one) is False


class Watched:
    """A descriptor in Python, which no guard may ask."""

    def __get__(self, owner, cls=None):
        raise ZeroDivisionError


# what is done to a class whose base has `there`, and not `foo`; what a person is told
CLASS_CHANGES = {
    "a base gets what it lacked": (lambda base, own: setattr(base, "foo", Watched()), "no foo -> one"),
    "the class does": (lambda base, own: setattr(own, "foo", Watched()), "no foo -> one"),
    "a member is replaced": (lambda base, own: setattr(base, "there", Watched()), "another there"),
    "a member is hidden": (
        lambda base, own: setattr(own, "there", Watched()),
        "another there",
    ),
    "a member goes": (lambda base, own: delattr(base, "there"), "another there"),
    "a plain value is computed": (lambda base, own: setattr(base, "plain", Watched()), "another plain"),
    "another base": (
        lambda base, own: setattr(own, "__bases__", (type("Second", (), {}),)),
        "another class, or other bases",
    ),
}


@pytest.mark.parametrize("case", CLASS_CHANGES)
def test_a_class_is_looked_at_without_asking_it(case):
    base = type("Base", (), {"there": len, "plain": 1})
    own = type("Own", (base,), {})
    facts = facts_of(own, ("foo", "there"), lambda cls: cls in (own, base), ("plain",))
    check, (change, told) = checker(Guard("CLASS", X, facts)), CLASS_CHANGES[case]
    own.other = base.another = 1
    assert check(own) is True
    change(base, own)
    assert check(own) is False and changed(own, facts) == told


def test_check_tensor_reads_every_field():
    assert check_tensor(FakeTensor(), TENSOR)
    assert not check_tensor(FakeTensor(device=Device("cuda")), TENSOR) and META.device == CPU


# ---- breaks -----------------------------------------------------------------------------------------------------


def test_breaks_say_where_why_and_what_to_do(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("y = x.item()\n")
    there = GraphBreak("GB0004", "x.item()", Origin(str(path), 1, "x.item()", 4, 12))
    lines = str(there).splitlines()
    assert lines[0].startswith("graph break GB0004 (a tensor's data read into Python")
    assert lines[2:4] == ["    y = x.item()", "        ^^^^^^^^"]
    assert lines[-1] == f"  hint: {CATALOGUE['GB0004'][1]}" and there.page == "breaks/#gb0004"
    with pytest.raises(ValueError, match="unknown graph break code 'GB9999'"):
        GraphBreak("GB9999", "")
    for code, (title, hint) in CATALOGUE.items():
        assert code.startswith("GB") and title and hint


def test_unsupported_carries_its_break():
    error = Unsupported("a while loop", Origin("m.py", 3), code="GB0003")
    assert (
        isinstance(error, RuntimeError)
        and error.graph_break.code == "GB0003"
        and error.construct == "a while loop"
    )
    assert (
        "a while loop" in str(error)
        and str(error).endswith(CATALOGUE["GB0003"][1])
        and error.origin.line == 3
    )
