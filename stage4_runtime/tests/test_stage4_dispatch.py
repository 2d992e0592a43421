"""Dispatch: the first entry whose guards hold; and a miss explained in one line, for every kind of guard."""

from types import SimpleNamespace

import numpy as np
import pytest

import stage0_eager
from stage4_runtime.runtime import explain_miss, explain_misses
from stage_contracts.array_guards import ArrayMeta
from stage_contracts.class_guards import facts_of
from stage_contracts.device import CPU
from stage_contracts.dtype import dtype_of
from stage_contracts.guards import CHECKS, GUARD_KINDS, Guard, OpenMeta, TensorOf, compile_guards
from stage_contracts.origin import Origin
from stage_contracts.pipeline import Entry
from stage_contracts.source import ArgSource, AttrSource, GlobalSource, ItemSource, RowSource
from stage_contracts.tensor_meta import TensorMeta

first = pytest.mark.conformance("dispatch", tier="first")
core = pytest.mark.conformance("dispatch", tier="core")
full = pytest.mark.conformance("dispatch", tier="full")

X, N = ArgSource("x"), ArgSource("n")
LINE = Origin("model.py", 31, "x @ w")
NAMES = {
    "G": {"limit": 3},
    "C": {},
    "is_grad_enabled": lambda: True,
    "modes": lambda: (),
    "module_epoch": lambda: 1,
}


def entry_for(*guards, signature="x, n=1, *, flag=False"):
    return Entry(guards, compile_guards(guards, signature, NAMES), run=lambda *a, **k: None, frame=None)


def equals(value):
    return Guard("EQUALS", N, value)


@first
def test_the_first_entry_whose_guards_hold_runs(seam):
    """Dispatch returns the first entry whose guards hold for the call."""
    two, three, also_two = entry_for(equals(2)), entry_for(equals(3)), entry_for(equals(2))
    entries = (two, three, also_two)
    assert seam("dispatch")(entries, (None, 2), {}) is two
    assert seam("dispatch")(entries, (None,), {"n": 3}) is three


@first
def test_no_entry_holds(seam):
    """Where no guards hold, dispatch returns None."""
    assert seam("dispatch")([], (1,), {}) is None
    assert seam("dispatch")([entry_for(equals(2))], (None, 4), {}) is None


@full
def test_the_entries_are_not_changed(seam):
    entries = [entry_for(equals(2)), entry_for(equals(3))]
    before = list(entries)
    seam("dispatch")(entries, (None, 3), {})
    assert entries == before


@full
def test_a_value_of_another_type_is_another_case(seam):
    assert seam("dispatch")([entry_for(equals(1))], (None, True), {}) is None
    assert seam("dispatch")([entry_for(equals(1))], (None, 1.0), {}) is None


def tensor(*shape, dtype="float32"):
    return stage0_eager.Tensor(np.zeros(shape, dtype))


ARRAY = ArrayMeta(np.dtype("float64"), (4, 640), (5120, 8))
OPEN = OpenMeta(dtype_of("float32"), CPU, False, (None, 640), (0, 1))
OPEN_TENSOR = TensorOf(stage0_eager.Tensor, OPEN)


def tensor_guard(like):
    meta = TensorMeta(like.shape, like.dtype, like.stride(), like.device, like.requires_grad)
    return Guard("TENSOR", X, TensorOf(type(like), meta), LINE)


class Own(stage0_eager.Tensor):
    """A user-defined class."""


class Thing:
    training = True


# guard, the call's arguments, what the line says
MISSES = [
    (tensor_guard(tensor(4, 640)), (tensor(4, 8),),
     "x.shape[1]: 640 -> 8 at model.py:31; mark_dynamic(x, 1) would avoid it"),
    (tensor_guard(tensor(4, 640)), (tensor(4),), "x.ndim: 2 -> 1 at model.py:31"),
    (tensor_guard(tensor(4)), (tensor(4, dtype="float64"),),
     "x.dtype: cutaway.float32 -> cutaway.float64 at model.py:31"),
    (tensor_guard(tensor(4, 3)), (stage0_eager.Tensor(np.zeros((3, 4), "float32").T),),
     "x.stride()[0]: 3 -> 1 at model.py:31"),
    (Guard("OPEN_TENSOR", X, OPEN_TENSOR, LINE), (tensor(7, 8),),
     "x.shape[1]: 640 -> 8 at model.py:31; mark_dynamic(x, 1) would avoid it"),
    (Guard("OPEN_TENSOR", X, OPEN_TENSOR), (tensor(4),), "x.ndim: 2 -> 1"),
    (Guard("OPEN_TENSOR", X, OPEN_TENSOR), (Own(np.zeros(4)),), "type(x): Tensor -> Own"),
    (tensor_guard(tensor(4)), (3,), "type(x): Tensor -> int at model.py:31"),
    (Guard("ARRAY", X, ARRAY, LINE), (np.zeros((4, 8)),), "x.shape[1]: 640 -> 8 at model.py:31"),
    (Guard("ARRAY", X, ARRAY), (np.zeros((4, 640), "float32"),), "x.dtype: float64 -> float32"),
    (Guard("ARRAY", X, ARRAY), (np.zeros(4),), "x.ndim: 2 -> 1"),
    (Guard("ARRAY", X, ARRAY), (np.zeros((640, 4)).T,), "x.strides: another layout -> (8, 32)"),
    (Guard("ARRAY", X, ARRAY), (3,), "type(x): ndarray -> int"),
    (Guard("OPEN_ARRAY", X, OPEN), (np.zeros((4, 8), "float32"),), "x.shape[1]: 640 -> 8"),
    (Guard("LEFT_TO_NUMPY", X, None), (np.zeros(3),), "x: an array for NumPy alone -> ndarray"),
    (Guard("EQUALS", N, 3, LINE), (None, 4), "n: 3 -> 4 at model.py:31"),
    (Guard("EQUALS", N, 3), (None, 3.0), "n: 3 -> 3.0"),
    (Guard("EQUALS", N, "a" * 100), (None, "b"), f"n: '{'a' * 56}... -> 'b'"),
    (Guard("EQUALS", GlobalSource("limit"), 5), (None,), "limit: 5 -> 3"),
    (Guard("TYPE", N, int), (None, "s"), "type(n): int -> str"),
    (Guard("LENGTH", X, 2), ([1, 2, 3],), "len(x): 2 -> 3"),
    (Guard("KEYS", X, ("a", "b")), ({"b": 1},), "x: ('a', 'b') -> ('b',)"),
    (Guard("IDENTITY", AttrSource(X, "training"), False), (Thing(),), "x.training: False -> True"),
    (Guard("IDENTITY", N, len), (None, max), "n: len -> max"),
    (Guard("ABSENT", X, "training"), (Thing(),), "x.training: absent -> True"),
    (Guard("CLASS", X, facts_of(Own, ("training",), bool)), (Thing,), "x: another class, or other bases"),
    (Guard("PRESENT", X, "k"), ({},), "x['k']: there -> absent"),
    (Guard("ABSENT_KEY", X, "k"), ({"k": 2},), "x['k']: absent -> 2"),
    (Guard("ALIASED", X, N), ([], []), "x and n: the same object -> two objects"),
    (Guard("NOT_ALIASED", X, N), (NAMES, NAMES), "x and n: two objects -> the same object"),
    (Guard("APART", RowSource((X,)), RowSource((N,))), (NAMES, NAMES),
     "(x) and (n): all different -> the same object in two places"),
    (Guard("WRITTEN", RowSource((X,)), RowSource((N,))), (NAMES, NAMES),
     "(x): apart from (n) -> one is, or is a view of, another"),
    (Guard("ITEMS", X, (len, max)), ([len, min],), "x: 2 objects -> others"),
    (Guard("NO_GRADIENTS", RowSource((X,)), None), (SimpleNamespace(grad=1),), ".grad of (x): None -> a tensor of one"),
    (Guard("GRAD_MODE", None, False), (None,), "is_grad_enabled(): False -> True"),
    (Guard("MODES", None, (("inference", "True"),)), (None,), "modes(): (('inference', 'True'),) -> ()"),
    (Guard("SHAPE", X, "n > 3", LINE), (None, 2), "n > 3: held -> fails at model.py:31"),
    (Guard("EQUALS", AttrSource(X, "width"), 3), (SimpleNamespace(),),
     "x.width: 3 -> gone (AttributeError: 'types.SimpleNamespace' object has no attribute 'width')"),
    (Guard("EQUALS", ItemSource(X, "k"), 3), ({},), "x['k']: 3 -> gone (KeyError: 'k')"),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "args", "line"), MISSES, ids=[line[:40] for _, _, line in MISSES])
def test_a_miss_in_one_line(guard, args, line):
    entry = entry_for(guard)
    assert not entry.check(*args)
    assert explain_miss(entry, args, {}, NAMES) == line


def test_every_kind_of_guard_has_a_line():
    assert {guard.kind for guard, _, _ in MISSES} == set(GUARD_KINDS)


def test_the_cheapest_guard_that_fails_is_told():
    entry = entry_for(Guard("LENGTH", X, 5), equals(3))
    assert explain_miss(entry, ([], 4), {}, NAMES) == "n: 3 -> 4"


def test_defaults_and_keywords_are_seen():
    entry = entry_for(equals(1), Guard("IDENTITY", ArgSource("flag"), False))
    assert explain_miss(entry, (None,), {"flag": True}, NAMES) == "flag: False -> True"


def test_of_several_entries_the_nearest_is_told():
    other_length, other_number = (entry_for(equals(n), Guard("LENGTH", X, k)) for n, k in ((3, 5), (4, 2)))
    for entries in ((other_length, other_number), (other_number, other_length)):
        assert explain_misses(entries, ([], 3), {}, NAMES) == "len(x): 5 -> 0"


def test_a_call_that_does_not_fit():
    assert "too many positional arguments" in explain_miss(entry_for(equals(1)), (1, 2, 3), {}, NAMES)


def test_guards_that_hold():
    assert explain_miss(entry_for(equals(1)), (None, 1), {}, NAMES).startswith("no guard fails")


def test_a_tensor_that_fitted_before_fits_and_no_other_does():
    """What fitted is remembered by its meta: another dtype, layout, size or need of a gradient has another one."""
    check = CHECKS["check_open_tensor"]
    for _ in range(2):
        assert check(tensor(4, 640), OPEN_TENSOR) and check(tensor(9, 640), OPEN_TENSOR)
        wrong = [
            tensor(4, 8),
            tensor(4, 640, dtype="float64"),
            tensor(640, 4).t(),
            tensor(4, 640).requires_grad_(True),
        ]
        assert not any(check(other, OPEN_TENSOR) for other in wrong)
        assert not check(Own(np.zeros((4, 640), "float32")), OPEN_TENSOR)
    other = TensorOf(stage0_eager.Tensor, OpenMeta(dtype_of("float32"), CPU, False, (None, 7), (0, 1)))
    assert not check(tensor(4, 640), other)
