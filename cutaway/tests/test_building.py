"""Who builds the kernels of a program: this thread what is at hand, others what is not.

Input: programs of many units, and a `build` that notes which thread asks for each.
"""

import threading
from types import SimpleNamespace

import pytest

from cutaway import building, inductor


@pytest.mark.parametrize("known", [True, False])
def test_kernels_at_hand_are_loaded_without_a_thread(known, monkeypatch):
    """Threads that only load wait for the interpreter's lock: eight of them took 141 ms for 120 kernels, one 30."""
    asked = []

    def build(unit):
        asked.append(threading.get_ident())
        return {name: f"kernel {name}" for name in unit.kernels}

    units = [SimpleNamespace(kernels=(f"k{n}",), alternatives=(), grids={}, language="cpp") for n in range(9)]
    pipeline = SimpleNamespace(build=build)
    monkeypatch.setattr(building, "default_pipeline", lambda: pipeline)
    monkeypatch.setattr(building, "at_hand", lambda units: known)
    _, result = building.started(inductor.build_all, SimpleNamespace(units=units), pipeline)
    assert result() == {f"k{n}": f"kernel k{n}" for n in range(9)}
    assert len(asked) == 9 and ({*asked} == {threading.get_ident()}) is known
