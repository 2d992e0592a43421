"""What random attribute programs found of stores and deletions: each class of fault as a small program.

Input: the table below, by hand from the seeds it names (`stage1_capture.tests.fuzz_attributes --programs 1 --seed N`).
Each row fails on the tree before its fix.
"""

import pytest

from stage1_capture.tests.attribute_objects import (
    attribute_comes,
    attribute_goes,
    both_ways,
    nothing,
    noting,
)


def stores_and_pops(x, w):
    w["o"].bar = 1
    return w["o"].__dict__.pop("bar")


def stores_and_deletes(x, w):
    w["o"].bar = 1
    del w["o"].bar


def stores(x, w):
    w["made"].bar = 1


def stores_beside_a_module(x, w):
    w["net"].__dict__["foo"] = 1.5


def stores_past_a_module(x, w):
    object.__setattr__(w["net"], "foo", 1.5)
    object.__setattr__(w["net"], "bar", 2.5)
    object.__delattr__(w["net"], "bar")


def empties_a_module(x, w):
    vars(w["net"]).pop("_modules", None)
    return vars(w["net"]).pop("training", None)


def stores_on_an_emptied_module(x, w):
    vars(w["net"]).pop("_modules", None)
    vars(w["net"])["kept"] = 1.5
    return list(vars(w["net"]))


def reads_without_a_registry(x, w):
    vars(w["net"]).pop("_buffers", None)
    return getattr(w["net"], "bar", "none")


def deletes_a_buffer(x, w):
    if "bar" in w["net"]._buffers:
        del w["net"].bar
    return getattr(w["net"], "bar", "none")


def stores_on_a_metaclass(x, w):
    w["Meta"].bar = 1
    return w["Made"].bar


def stores_on_a_class(x, w):
    try:
        w["Made"].bar = 1
    except TypeError as error:
        return str(error)
    return w["Made"].bar


def stores_what_a_protocol_asks_for(x, w):
    w["Second"].bar = 1
    return issubclass(w["Second"], w["HasMethod"])


def refusing_setattr_of_the_metaclass(w):
    w["Meta"].__setattr__ = noting(w, TypeError("not to be stored on"))


def getattribute_of_the_metaclass(w):
    w["Meta"].__getattribute__ = object.__getattribute__


# program, what happens before the first call, and between the two; the seeds that found it
FOUND = {
    "past a module's registered names (9302620, 9600932)": (stores_past_a_module, nothing, nothing),
    "stored on a metaclass (9200309 on 3.12)": (stores_on_a_metaclass, nothing, nothing),
    "stored and popped, there before and then not (7002646)": (stores_and_pops, attribute_comes, attribute_goes),
    "stored and popped, not there before and then there": (stores_and_pops, nothing, attribute_comes),
    "stored and deleted, there before and then not": (stores_and_deletes, attribute_comes, attribute_goes),
    "stored and deleted, not there before and then there": (stores_and_deletes, nothing, attribute_comes),
    "a class is stored on, and then asked whether it meets a protocol (10350)": (stores_what_a_protocol_asks_for, nothing, nothing),
    "a __setattr__ of a metaclass, added (8545, 8676, 9161, 13193, 15223)": (stores_on_a_class, nothing, refusing_setattr_of_the_metaclass),
    "a module loses its registries (1179, 16526)": (empties_a_module, nothing, nothing),
    "the same, and what it stores then": (stores_on_an_emptied_module, nothing, nothing),
    "the same, and what it had in them (9303534)": (reads_without_a_registry, nothing, nothing),
    "a buffer that the program deletes and looks for (9700386, 9303111)": (deletes_a_buffer, nothing, nothing),
    "a __getattribute__ of a metaclass (9300357)": (stores, getattribute_of_the_metaclass, nothing),
    "stored in a __dict__ beside a submodule (9300296, 9300386)": (stores_beside_a_module, nothing, nothing),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found_is_noticed(case):
    eager, compiled = both_ways(*FOUND[case])
    assert compiled == eager
