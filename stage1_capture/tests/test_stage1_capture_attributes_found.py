"""What random attribute programs found: each class of fault as a small program, run before and after a change.

Input: the table below, by hand from the seeds it names (`stage1_capture.tests.fuzz_attributes --programs 1 --seed N`).
Each row fails on the tree before its fix.
"""

import typing

import numpy as np
import pytest

from stage1_capture.tests.attribute_objects import (
    Watched,
    attribute_comes,
    attribute_goes,
    both_ways,
    nothing,
    noting,
    watched,
)

ARRAY = np.arange(4.0)


@typing.runtime_checkable
class HasBar(typing.Protocol):
    bar: int


def is_callable(x, w):
    name = "__call__"
    return hasattr(ARRAY, name), hasattr(ARRAY[0], name), hasattr(ARRAY, "sum")


def is_one(x, w):
    return isinstance(w["o"], w["Another"])


def is_one_made_inside(x, w):
    return isinstance(w["Second"](), w["Another"])


def is_derived(x, w):
    return issubclass(w["Second"], w["Another"])


def reads_behind(x, w):
    return getattr(super(w["Second"], w["o"]), "foo", "none")


def meets_a_protocol(x, w):
    return isinstance(w["o"], HasBar)


def reads(x, w):
    return getattr(w["o"], "bar", "none"), getattr(w["o"], "bar", "none")


def reads_dict(x, w):
    return vars(w["o"]).get("bar", "none")


def reads_class(x, w):
    return getattr(w["Made"], "bar", "none")


def reads_slot(x, w):
    return getattr(w["slotted"], "bar", "none")


def reads_buffer(x, w):
    return getattr(w["net"], "bar", "none") is w["net"]._buffers["bar"]


def reads_buffer_plainly(x, w):
    try:
        return object.__getattribute__(w["net"], "bar") is not None
    except AttributeError as error:
        return str(error)


def computes(x, w):
    return type(w["tensor"] * 2).__name__, getattr(w["tensor"], "bar", "none")


def classes_of_values(x, w):
    values = ({1}, frozenset({1}), slice(1), zip([1]), {}.items(), [1], (1,), "a")
    return [value.__class__.__name__ for value in values]


def reads_a_named_tuple(x, w):
    return w["pair"].bar, getattr(w["pair"], "kept", "none")


def reads_an_empty_slot(x, w):
    try:
        return w["slotted"].bar
    except AttributeError as error:
        return str(error)


def calls_what_is_described(x, w):
    return w["o"].method(), w["o"].computed, w["o"].still(), w["o"].on_class()


def reads_kept(x, w):
    return w["o"].kept, w["o"].kept


def stores_and_reads_behind(x, w):
    w["Other"].foo = 1
    return getattr(super(w["Second"], w["o"]), "foo", "none")


def class_of_python(x, w):
    return type(w["python"]).__name__


def pops_registries(x, w):
    return [vars(w["net"]).pop(name, None) is None for name in ("_modules", "_buffers")]


def reads_field(x, w):
    return w["pair"].foo


def computes_with_a_buffer(x, w):
    return (w["net"].bar * 2).shape


def reads_of(name):
    return lambda x, w: [type(getattr(o, "bar", "none")).__name__ for o in (w[name], w[name])]


def calls_what_is_not_callable(x, w):
    try:
        return w["o"]()
    except TypeError as error:
        return str(error)


def base_gets_it(w):
    w["Other"].foo = 1


def class_has_it(w):
    w["Second"].bar = 1


def made_has_it(w):
    type.__setattr__(w["Made"], "bar", 1)


def class_loses_it(w):
    del w["Second"].bar


def noted_property(w):
    w["Second"].bar = property(noting(w, 2))


def noted_property_of_a_base(w):
    w["Other"].bar = property(noting(w, AttributeError("not now")))


def noted_slot(w):
    type(w["slotted"]).bar = property(noting(w, 2))


def noted_property_of_the_metaclass(w):
    w["Meta"].bar = property(noting(w, 2))


def noted_getattr_of_the_metaclass(w):
    w["Meta"].__getattr__ = noting(w, 1)


def noted_getattr(w):
    w["Second"].__getattr__ = noting(w, 1)


def there_and_noted_getattr(w):
    attribute_comes(w)
    w["Second"].__getattr__ = noting(w, 1)


def noted_getattribute(w):
    def note(self, name):
        if name == "bar":
            w["seen"].append(name)
        return object.__getattribute__(self, name)

    w["Second"].__getattribute__ = note


def slot_is_emptied(w):
    if hasattr(w["slotted"], "bar"):
        del w["slotted"].bar


def class_loses_its_slot(w):
    del type(w["slotted"]).bar


def reads_before(w):
    w["o"].__dict__["kept"] = 5


def net_becomes_another(w):
    watched("Seeing", "__class__", "bar")(w)
    w["net"].__class__ = w["Seeing"]


def noted_buffer(w):
    w["Net"].bar = property(noting(w, 1))


def noted_raising_buffer(w):
    def asked(self):
        w["seen"].append("asked")
        return self.nowhere

    w["Net"].bar = property(asked)


def python_getattr(w):
    w["python"].__getattr__ = noting(w, 1)


def python_becomes_another(w):
    w["python"].__class__ = type("Derived", (types.ModuleType,), {})


def noted_kept(w):
    w["Second"].kept = property(noting(w, 2))


def noted_field(w):
    w["Pair"].foo = Watched(w, 5)


def own_getattr(w):
    w["Net"].__getattr__ = noting(w, 1)


def other_base(w):
    w["Second"].__bases__ = (w["Another"],)


def tensor_becomes_one_of_the_users(w):
    w["tensor"].__class__ = w["OwnTensor"]


def described_anew(name, answer=lambda: 5):
    return lambda w: setattr(w["Second"], name, Watched(w, answer))


# program, what happens before the first call, and between the two; the seeds that found it
FOUND = {
    "stored on a base, read by super() (9460447)": (stores_and_reads_behind, nothing, nothing),
    "a Python module of another class (9410547)": (class_of_python, nothing, python_becomes_another),
    "registries popped from a module's __dict__ (9860221)": (pops_registries, nothing, nothing),
    "a module of another class, that sees reads of its class (919, 3905, 9304450)": (reads_buffer, nothing, net_becomes_another),
    "a getter over what a cached property kept (11365, 13041)": (reads_kept, reads_before, noted_kept),
    "a buffer under a property that raises (4747)": (computes_with_a_buffer, noted_raising_buffer, nothing),
    "a call of an object whose __func__ is not read (7583)": (calls_what_is_not_callable, noted_getattr, nothing),
    "a __getattr__ of a Python module (9513)": (reads_of("python"), nothing, python_getattr),
    "an array that sees reads (11207)": (reads_of("array"), watched("OwnArray", "bar", on="array"), nothing),
    "an enum's member that sees reads (12422)": (reads_of("color"), watched("Color", "bar"), nothing),
    "a NumPy number that sees reads (12725)": (reads_of("number"), watched("OwnNumber", "bar", "dtype"), nothing),
    "a descriptor in place of a named tuple's field (1615)": (reads_field, nothing, noted_field),
    "a descriptor in place of a method (9301691, 9600917)": (calls_what_is_described, nothing, described_anew("method")),
    "in place of a property": (calls_what_is_described, nothing, described_anew("computed", 6)),
    "in place of a static method": (calls_what_is_described, nothing, described_anew("still")),
    "in place of a class method": (calls_what_is_described, nothing, described_anew("on_class")),
    "the class of a set or a slice (9602712)": (classes_of_values, nothing, nothing),
    "a tensor becomes one of the user's": (computes, nothing, tensor_becomes_one_of_the_users),
    "a method of type's, of an array (7001031, 7002965)": (is_callable, nothing, nothing),
    "another base (7001327)": (is_one, nothing, other_base),
    "another base, of a class that the program calls (7001327)": (is_one_made_inside, nothing, other_base),
    "another base, by issubclass (7001327)": (is_derived, nothing, other_base),
    "a base behind super() gets it (9210153)": (reads_behind, nothing, base_gets_it),
    "a protocol that the class met once (9220246, from Python 3.12 on)": (meets_a_protocol, class_has_it, class_loses_it),
    "a __getattribute__ of a named tuple, added (14835, 19570)": (reads_a_named_tuple, nothing, watched("Pair", "bar", "kept")),
    "an empty slot, which the class loses (9800245 on 3.13)": (reads_an_empty_slot, slot_is_emptied, class_loses_its_slot),
    "a getter that leaves a trace, added (9300434)": (reads, attribute_comes, noted_property),
    "the same, that raises, on a base": (reads, attribute_comes, noted_property_of_a_base),
    "the same, where the class had a value": (reads, class_has_it, noted_property),
    "the same, read by way of vars()": (reads_dict, attribute_comes, noted_property),
    "the same, in place of a slot": (reads_slot, nothing, noted_slot),
    "the same, over a buffer": (reads_buffer, nothing, noted_buffer),
    "the same, of a metaclass": (reads_class, made_has_it, noted_property_of_the_metaclass),
    "a __getattr__ that leaves a trace, added (9300723)": (reads, nothing, noted_getattr),
    "an attribute gone, that such a one is asked for": (reads, there_and_noted_getattr, attribute_goes),
    "a __getattr__ of a metaclass, added (9300676)": (reads_class, nothing, noted_getattr_of_the_metaclass),
    "a __getattribute__, added (9300358)": (reads, attribute_comes, noted_getattribute),
    "a __getattr__ in place of Module's (9300932, 9301141)": (reads_buffer, own_getattr, nothing),
    "a buffer by object.__getattribute__": (reads_buffer_plainly, nothing, nothing),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found_is_noticed(case):
    eager, compiled = both_ways(*FOUND[case])
    assert compiled == eager
