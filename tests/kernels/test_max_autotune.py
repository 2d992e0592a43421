"""`mode="max-autotune"` from the user's call to the choice, on a GPU whose times are given: no GPU is needed.

Input: a product with a bias, an activation and a residual. Kernels are compiled for sm_90 and never run: a clock stands
in for the device.
"""

import importlib.util
from dataclasses import replace

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from cutaway import measured_programs, targets
from cutaway.compile import _changes
from cutaway.debug.log_texts import ARTIFACTS
from stage4_runtime.runtime import autotune, kernel_times
from stage4_runtime.runtime.build import forget_built
from stage4_runtime.tests.test_stage4_measuring import Clock
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.events import EVENT_LOG
from stage_contracts.program import Launch, Target

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
CUDA = Device("cuda")


# ---- when anything is measured ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({}, False),
        ({"runtime.max_autotune": True}, True),
        ({"runtime.max_autotune": True, "runtime.deterministic": True}, False),
    ],
)
def test_the_target_asks_for_measurements(changes, measured, monkeypatch):
    monkeypatch.setattr("stage4_runtime.runtime.gpu_architecture", lambda device: "sm_90")
    with config.patch(changes):
        target = targets.target_for(CUDA)
        assert bool(target.options) == measured
        assert (measured_programs.fastest_on(cutaway.DEFAULT_PIPELINE, target) is not None) == measured


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_the_modes_that_measure(mode):
    changes = _changes(mode, None)
    assert changes.get("runtime.max_autotune", False) == mode.startswith("max-autotune")
    assert changes.get("runtime.cuda_graphs", False) == (mode in ("reduce-overhead", "max-autotune"))


def test_torchs_names_ask_for_it():
    assert _changes(None, {"max_autotune": True}) == {"runtime.max_autotune": True}
    assert config.from_environment({"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}).runtime.max_autotune


# ---- a product ---------------------------------------------------------------------------------------------------


class Machine(Clock):
    """Kernels take 0.1 ms, or what their names are given; the library's product takes `library` ms."""

    def __init__(self, library, **took):
        super().__init__({})
        self.library, self.given = library, took

    def call(self, name):
        self.took.setdefault(name, self.given.get(name, 0.1))
        return super().call(name)

    def product(self, step, program):
        """As `cublas.product_call`: a call of addresses."""
        return lambda stream, *addresses: self.call("library product")(stream)


def half(*shape):
    return cutaway.tensor(np.ones(shape, np.float32)).to(cutaway.float16)


def planned(tmp_path, monkeypatch, machine):
    """The program of a call on this machine, and the choices on the way."""
    machine.given["library product"] = machine.library
    for place in ("stage4_runtime.runtime.cuda", "stage4_runtime.runtime.kernel_times"):
        monkeypatch.setattr(f"{place}.import_cupy", lambda: machine)
    monkeypatch.setitem(
        importlib.import_module("stage4_runtime.runtime.cuda").ROUTINES,
        "matmul",
        lambda step, program, cp: machine.product(step, program),
    )
    monkeypatch.setitem(importlib.import_module("sys").modules, "cupy", machine)
    target = Target("triton", CUDA, "sm_90", {"max_autotune": True})
    ask = measured_programs.fastest_on(cutaway.DEFAULT_PIPELINE, target)

    def on_gpu(program):
        buffers = {n: replace(b, meta=b.meta.with_(device=CUDA)) for n, b in program.buffers.items()}
        return program.with_(device=CUDA, buffers=buffers)

    from stage_contracts.measured import answering

    compiled = cutaway.compile(lambda x, w, b, r: F.relu(x @ w + b) + r)
    compiled(half(40, 32), half(32, 48), half(48), half(40, 48))
    mark = EVENT_LOG.mark()
    with answering(lambda question, ways: ask(question, [on_gpu(way) for way in ways])):
        program = compiled.artifacts[-1].forward.planned_for(target)
    return program, EVENT_LOG.since(mark, "autotune")


@pytest.fixture(autouse=True)
def alone(tmp_path):
    forget_built()
    autotune.measure_with(kernel_times.device_times, kernel_times.device_name)
    with config.patch({"runtime.cache_dir": str(tmp_path / "cache")}):
        yield
    forget_built()


@needs_triton
@pytest.mark.parametrize(("library", "way"), [(0.05, "template"), (0.5, "template")])
def test_the_faster_way_stays(tmp_path, monkeypatch, library, way):
    program, choices = planned(tmp_path, monkeypatch, Machine(library, fused_matmul_0=0.1))
    kernels = [step for step in program.steps if isinstance(step, Launch)]
    assert len(kernels) == 1 and program.kernels[kernels[0].kernel].template == "matmul"
    *configurations, product = choices
    assert product.details["chosen"] == way and product.name.startswith("matmul float16 (40, 32) (32, 48)")
    took = product.details["times"]
    assert took["template"] == pytest.approx(0.1) and took["library"] == pytest.approx(0.1 + library)
    assert all(len(event.details["times"]) > 1 for event in configurations)
    shown = ARTIFACTS["autotuning"][1](product).splitlines()
    assert shown[0].startswith(product.name) and "0.1000 ms  template" in shown[1]


@needs_triton
def test_the_library_stays_where_it_is_faster_and_a_second_compile_measures_nothing(tmp_path, monkeypatch):
    machine = Machine(0.01, fused_matmul_0=0.2)
    program, choices = planned(tmp_path, monkeypatch, machine)
    assert not any(kernel.template for kernel in program.kernels.values())
    assert choices[-1].details["chosen"] == "library" and choices[-1].details["measured"]
    forget_built()
    before = machine.now
    again, known = planned(tmp_path, monkeypatch, machine)
    assert machine.now == before and again.steps == program.steps
    assert [event.details["measured"] for event in known] == [False]
    assert "chosen before" in ARTIFACTS["autotuning"][1](known[0])
