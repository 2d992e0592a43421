"""Loading built libraries: each is its own, from memory or from a folder; the keys that a build finds are its own too.

Input: one-line units of C++.
"""

import importlib
import os

import numpy as np
import pytest

from stage4_runtime.tests.programs import cpp_unit
from stage_contracts import config

module = importlib.import_module("stage4_runtime.runtime.build")  # its package has the function of that name
SOURCE = '#include <cstdint>\nextern "C" int64_t which(double* y) {{ *y = {}; return 0; }}\n'


def unit(number):
    return cpp_unit(SOURCE.format(number), ("which",))


def answer(unit):
    y = np.zeros(1)
    assert module.build(unit)["which"](y.ctypes.data) == 0
    return y[0]


def test_libraries_that_are_loaded_one_after_the_other_are_apart():
    """Their descriptors have one number; the dynamic linker tells libraries apart by their paths first."""
    assert [answer(unit(k)) for k in range(20)] == [*range(20)]


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_a_system_without_files_in_memory(monkeypatch, error):
    def refused(name):
        raise error

    monkeypatch.setattr(os, "memfd_create", refused)
    assert [answer(unit(k)) for k in (31, 32)] == [31, 32]


def test_a_unit_at_hand_is_built_under_the_settings_of_the_build():
    """The key that `at_hand` found serves the next build of that unit, and no other."""
    known, other = unit(41), unit(42)
    answer(known), answer(other)
    module.forget_built()
    assert module.at_hand([known])
    assert (answer(other), answer(known)) == (42, 41)
    assert module.at_hand([known]) and answer(known) == 41
    assert module.at_hand([known])
    with config.patch(cxx_flags="-O0"):
        assert module.BUILDERS["cpp"].key(known).digest not in module._BUILT
        assert answer(known) == 41
        assert module.BUILDERS["cpp"].key(known).digest in module._BUILT
