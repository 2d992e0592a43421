"""Timing on a device: graphs of repeats that take turns, memory of its own, and calls that do not run."""

import numpy as np
import pytest

from stage4_runtime.runtime import autotune, measuring
from stage4_runtime.runtime.kernel_times import device_name, device_times
from stage4_runtime.runtime.triton_units import TritonKernel
from stage4_runtime.tests.fake_cupy import Array, FakeCupy, empty
from stage4_runtime.tests.test_stage4_autotune import unit


class Clock(FakeCupy):
    """A device with a clock: each launch takes the milliseconds that its kernel's name is given."""

    def __init__(self, took, kernels=None):
        super().__init__(kernels or {})
        self.took, self.now, self.replays, self.freed = took, 0.0, 0, []
        cuda = self.cuda
        cuda.Event = lambda: _Event(self)
        cuda.get_elapsed_time = lambda start, end: end.at - start.at
        cuda.MemoryPool = lambda: _Pool(self)
        cuda.memory = type("memory", (), {"OutOfMemoryError": MemoryError})
        cuda.runtime.getDeviceProperties = lambda index: {"name": b"a GPU"}

    def zeros(self, count, dtype):
        made = empty(count)
        made[...] = 0
        return made.view(dtype)

    def arange(self, count, dtype):
        return np.arange(count, dtype=dtype).view(Array)

    def call(self, name):
        """A call on a stream: kept while it captures, as a launch is."""

        def run(stream):
            if name not in self.took:
                raise RuntimeError("no such function")
            self.queues.put(stream, lambda: self._pass(name))

        return run

    def _pass(self, name):
        self.now += self.took[name]

    def _launch(self, function, *rest):
        self.call(self.functions[function - 1])(rest[7])


class _Event:
    def __init__(self, clock):
        self.clock = clock

    def record(self, stream):
        self.at = self.clock.now

    def synchronize(self):
        pass


class _Pool:
    def __init__(self, clock):
        self.clock, self.malloc = clock, "malloc of a pool"

    def free_all_blocks(self):
        self.clock.freed.append(self)


def test_each_call_has_its_time_and_one_that_fails_has_none():
    clock = Clock({"slow": 0.5, "fast": 0.01})
    found = measuring.milliseconds(clock, [clock.call(name) for name in ("slow", "missing", "fast")])
    assert found[1] is None and [found[0], found[2]] == pytest.approx([0.5, 0.01])
    graphs = [entry for entry in clock.log if entry[0] == "graph"]
    assert {entry[2] for entry in graphs} == {2, measuring.REPEATS}, "launches in a graph, by what one takes"
    turns = [entry[2] for entry in graphs][2:]
    assert turns == [2, measuring.REPEATS] * measuring.ROUNDS, "they take turns"


def test_memory_to_measure_on():
    clock = Clock({})
    with measuring.scratch(clock) as array:
        places, floats, halves = array("int64", 10), array("float32", 11), array("bfloat16", 7)
        assert not places.any() and places.size >= 80
        drawn = floats[:44].view("float32")
        assert np.isfinite(drawn).all() and len({*drawn.tolist()}) == 11 and abs(drawn).max() < 1
        wide = halves[:14].view("uint16").astype(np.uint32) << 16
        assert np.isfinite(wide.view("float32")).all() and wide.any()
        assert np.isfinite(array("float16", 8)[:16].view("float16")).all()
    assert clock.freed, "given back"


def test_a_units_configurations_are_measured_on_the_device(monkeypatch):
    clock = Clock({"one": 2.0, "two": 1.0})
    monkeypatch.setattr("stage4_runtime.runtime.kernel_times.import_cupy", lambda: clock)
    one, two = (TritonKernel(b"", "", name, 0, 4, 0, ("*fp32", "*fp32")) for name in ("one", "two"))
    assert device_times(unit(), [one, None, two]) == pytest.approx([2.0, None, 1.0])
    assert device_name(unit().target.device) == "a GPU"


def test_without_memory_to_measure_in_the_rule_decides(monkeypatch, event_log):
    clock = Clock({})
    monkeypatch.setattr("stage4_runtime.runtime.kernel_times.import_cupy", lambda: clock)
    clock.zeros = lambda *_: (_ for _ in ()).throw(MemoryError())
    assert autotune.fastest(device_times(unit(), [None, None, None])) == 0
    (event,) = event_log("fallback")
    assert event.name == "autotune"
