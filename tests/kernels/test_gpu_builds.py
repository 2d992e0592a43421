"""The kernels of a program for a GPU are built side by side, and one that Triton refuses costs speed, not the call.

Input: pipelines whose `build` is a stand-in: each waits for the others, or refuses.
"""

import threading
from types import SimpleNamespace

import numpy as np

import cutaway
from cutaway import inductor
from stage_contracts import events
from stage_contracts.device import Device
from stage_contracts.errors import BuildError
from stage_contracts.program import SourceUnit, Target


def test_units_are_built_side_by_side():
    together = threading.Barrier(2, timeout=20)

    def build(unit):
        together.wait()  # passes only if both builds have begun
        return {unit.name: unit.name.upper()}

    target = Target("triton", Device("cuda", 0))
    program = SimpleNamespace(units=tuple(SourceUnit(name, "triton", "", (name,), target) for name in "ab"))
    built = inductor.build_all(program, SimpleNamespace(build=build))
    assert built == {"a": "A", "b": "B"}


def test_a_refused_kernel_runs_op_by_op(monkeypatch, capsys):
    def refuse(program, pipeline):
        raise BuildError("Triton refused generated kernel fused_sin_0")

    monkeypatch.setattr(inductor, "build_all", refuse)
    monkeypatch.setattr(inductor, "CPU", None)  # every device counts as a GPU
    x = cutaway.from_numpy(np.linspace(0, 1, 7, dtype=np.float32))
    got = cutaway.compile(lambda t: cutaway.sin(t) + 1, fullgraph=True)(x)
    np.testing.assert_allclose(got.numpy(), np.sin(x.numpy()) + 1, rtol=1e-6)
    fell_back = [e for e in events.EVENT_LOG.since(0, "fallback") if e.name == "eager kernels"]
    assert fell_back and "fused_sin_0" in str(fell_back[-1])
    assert "runs op by op on cpu" in capsys.readouterr().err
