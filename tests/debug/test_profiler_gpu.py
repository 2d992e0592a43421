"""Events of a GPU without one: arrows from launches, streams as rows, columns of the table; what fake clocks recorded.

Input: fake objects in the place of CuPy and CUPTI, whose times are known. benchmarks/gpu/profiler.py has a real GPU.
"""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import cutaway
from cutaway import profiler
from cutaway.profiler import gpu
from cutaway.profiler.averages import averages
from cutaway.profiler.chrome_trace import trace
from cutaway.profiler.events import ProfilerEvent, Recorder, nested
from cutaway.profiler.gpu_records import GpuRecords
from cutaway.profiler.gpu_timers import GpuTimers
from cutaway.profiler.kernels import observe_launches
from cutaway.profiler.nvtx import Ranges
from stage4_runtime.runtime import issue, launch, plan_memory
from stage4_runtime.runtime.triton_units import TritonKernel
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage4_runtime.tests.programs import chain, python_kernels
from stage_contracts.device import Device
from tests.debug.trace_format import problems

CPU_THREAD = 77


def event(name, category, start, took, thread=CPU_THREAD, **more):
    made = ProfilerEvent(name, category, start, took, thread)
    for field, value in more.items():
        setattr(made, field, value)
    return made


def a_recording():
    """Two launches in a region; the first kernel still runs when the second is launched."""
    events = nested([
        event("Torch-Compiled Region", "region", 1_000, 9_000),
        event("fused_a", "launch", 2_000, 1_000, launch=1), event("fused_b", "launch", 4_000, 1_000, launch=2),
        event("fused_a", "kernel", 3_000, 40_000, 0, device=0, launch=1),
        event("fused_b", "kernel", 43_000, 20_000, 0, device=0, launch=2),
    ])  # fmt: skip
    gpu.add_to_launches(events)
    return events


def test_a_trace_has_a_row_for_each_stream_and_arrows_from_launches():
    made = trace(a_recording())
    assert problems(made) == []
    spans = {(e["name"], e["cat"]): e for e in made["traceEvents"] if e["ph"] == "X"}
    assert spans["fused_a", "kernel"]["pid"] == 0 and spans["fused_a", "launch"]["tid"] == CPU_THREAD
    arrows = [e for e in made["traceEvents"] if e["name"] == "ac2g"]
    assert [(e["ph"], e["ts"]) for e in arrows] == [("s", 2.0), ("f", 3.0), ("s", 4.0), ("f", 43.0)]
    named = {(e["name"], e["pid"], e["args"].get("name")) for e in made["traceEvents"] if e["ph"] == "M"}
    assert {("process_name", 0, "GPU 0"), ("thread_name", 0, "stream 0")} <= named


def test_the_table_has_the_gpus_time_apart():
    rows = averages(a_recording())
    of = {(row.key, row.self_cpu_time_total > 0): row for row in rows}
    region, launch, kernel = of["Torch-Compiled Region", True], of["fused_a", True], of["fused_a", False]
    assert (region.cpu_time_total, region.device_time_total, region.self_cuda_time_total) == (9.0, 60.0, 0.0)
    assert (launch.cuda_time_total, kernel.self_device_time_total, kernel.cuda_time) == (40.0, 40.0, 40.0)
    assert (rows.self_cpu_time_total, rows.self_device_time_total) == (9.0, 60.0)
    text = rows.table(sort_by="self_cuda_time_total")
    assert "Self CUDA %" in text and "66.67%" in text and text.endswith("Self CUDA time total: 60.000us")
    assert "Self CUDA" not in averages([event("a", "region", 0, 1)]).table()


class Clock:
    """The GPU's clock runs 5 ms ahead of nothing in particular; an event takes its time when it is recorded."""

    def __init__(self):
        self.now_ms, self.capturing, self.recorded_on = 5.0, False, []
        self.runtime = SimpleNamespace(getDevice=lambda: 0)

    def Event(self):
        clock, made = self, SimpleNamespace(at=None, synchronize=lambda: None)

        def record(stream=None):
            made.at = clock.now_ms
            clock.recorded_on.append(getattr(stream, "ptr", None))

        made.record = record
        return made

    def ExternalStream(self, ptr):
        return SimpleNamespace(ptr=ptr, is_capturing=lambda: self.capturing)

    def Device(self, index=0):
        return SimpleNamespace(synchronize=lambda: None)

    def get_current_stream(self):
        return SimpleNamespace(ptr=0xABC, is_capturing=lambda: self.capturing)

    def get_elapsed_time(self, first, second):
        return second.at - first.at


def test_cuda_events_are_put_onto_the_programs_clock():
    clock = Clock()
    timers, recorder = GpuTimers(SimpleNamespace(cuda=clock)), Recorder()
    recorder.gpu, recorded_on = timers, clock.recorded_on
    recorded_on.clear()
    launched = []
    for took_ms in (0.25, 0.5):
        over = timers.begins(None)
        launch = recorder.begin("fused", "launch", lines=["a.py:1 x + 1"])
        recorder.end(launch)
        clock.now_ms += took_ms
        over(launch)
        launched.append(launch)
    timers.begins(None, 0xDEF)(launched[0])
    assert recorded_on == [0xABC, 0xABC, 0xABC, 0xABC, 0xDEF, 0xDEF], "a kernel is timed on its own stream"
    timers._noted.pop()
    clock.capturing = True
    assert timers.begins(None) is None, "while a CUDA graph is captured nothing can be timed"
    timers.stop()
    found = [e for e in recorder.recorded() if e.device is not None]
    assert [e.duration_ns for e in found] == [250_000, 500_000]
    assert found[1].start_ns >= found[0].end_ns and found[0].start_ns >= launched[0].start_ns
    assert [e.launch for e in found] == [launch.launch for launch in launched]
    assert found[0].args["lines"] == ["a.py:1 x + 1"] and found[0].thread == found[1].thread == 0
    assert problems(trace(nested(recorder.recorded()))) == []


class Cupti:
    """The package's module: it hands out its records when it is asked to flush."""

    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10, MEMCPY=1, MEMSET=2, RUNTIME=5, DRIVER=4)
    CallbackDomain = SimpleNamespace(DRIVER_API=1, RUNTIME_API=2)

    def __init__(self, ahead=1_000_000, refuses=()):
        self.ahead, self.refuses, self.enabled, self.records = ahead, refuses, set(), []

    def get_timestamp(self):
        from time import perf_counter_ns

        return perf_counter_ns() + self.ahead

    def activity_register_callbacks(self, requested, completed):
        assert requested()[0] > 0
        self.completed = completed

    def activity_enable(self, kind):
        if kind in self.refuses:
            raise RuntimeError("CUPTI_ERROR_NOT_COMPATIBLE")
        self.enabled.add(kind)

    def activity_disable(self, kind):
        self.enabled.remove(kind)

    def activity_flush_all(self, flag):
        self.completed(self.records)

    def get_callback_name(self, domain, number):
        return {1: "cuLaunchKernel", 2: "cudaLaunchKernel"}[domain]


def a_kernel(name, start, end, correlation):
    sizes = {f"{what}_{axis}": 1 for what in ("grid", "block") for axis in "xyz"}
    return SimpleNamespace(kind=10, name=name, start=start, end=end, correlation_id=correlation, device_id=0,
                           stream_id=7, registers_per_thread=32, **sizes)  # fmt: skip


@pytest.fixture
def cupti(monkeypatch):
    made = Cupti()
    monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(cupti=made))
    monkeypatch.setitem(sys.modules, "cupti.cupti", made)
    return made


def test_cuptis_records_become_kernels_and_the_calls_that_began_them(cupti):
    recorder = Recorder()
    recorder.gpu = records = GpuRecords(SimpleNamespace(cuda=Clock()))
    assert len(cupti.enabled) == 5 and records.begins(None) is None
    launch = recorder.begin("fused_exp", "launch", lines=["a.py:2 x.exp()"])
    recorder.end(launch)
    launch.duration_ns = 50_000
    at = launch.start_ns + cupti.ahead
    call = SimpleNamespace(kind=4, cbid=3, start=at + 1_000, end=at + 60_000, correlation_id=9,
                           thread_id=launch.thread & 0xFFFFFFFF)  # fmt: skip
    before = a_kernel("from_before", cupti.ahead, cupti.ahead + 10, 1)
    copied = SimpleNamespace(
        kind=1, bytes=64, start=at + 100_000, end=at + 101_000, correlation_id=4, device_id=0, stream_id=7
    )
    cupti.records = [call, before, a_kernel(b"triton_exp", at + 30_000, at + 90_000, 9), copied]
    records.stop()
    assert not cupti.enabled
    events = nested(recorder.recorded())
    driver, kernel, copy = (
        next(e for e in events if e.category == c) for c in ("cuda_driver", "kernel", "gpu_memcpy")
    )
    assert (driver.name, driver.parent, kernel.name) == ("cuLaunchKernel", launch, "triton_exp")
    assert driver.end_ns <= launch.end_ns, "the clocks are not quite the same: it is kept within the launch"
    assert (kernel.duration_ns, kernel.device, kernel.thread) == (60_000, 0, 7)
    assert abs(kernel.start_ns - launch.start_ns - 30_000) < 20_000
    assert kernel.args["lines"] == ["a.py:2 x.exp()"] and kernel.launch == driver.launch == 9
    assert copy.args["bytes"] == 64 and "from_before" not in {e.name for e in events}
    assert problems(trace(events)) == []


def test_what_cannot_be_had_is_said_and_cuda_events_are_taken(cupti, monkeypatch, capsys):
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(gpu, "cupy", lambda: SimpleNamespace(cuda=Clock()))
    assert type(gpu.observer()) is GpuRecords
    cupti.enabled.clear()
    cupti.refuses = {cupti.ActivityKind.RUNTIME}
    assert type(gpu.observer()) is GpuTimers and not cupti.enabled
    assert (
        "CUPTI cannot be used (CUPTI_ERROR_NOT_COMPATIBLE); kernels are timed by" in capsys.readouterr().err
    )


def test_without_a_gpu_it_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "gpu_available", lambda: False)
    activities = profiler.ProfilerActivity
    assert profiler.supported_activities() == {activities.CPU}
    with profiler.profile(activities=[activities.CPU, activities.CUDA]):
        pass
    assert (
        "there is no GPU here, so the profiler records the CPU only; CUDA is left out"
        in capsys.readouterr().err
    )


@pytest.fixture
def fake_program(monkeypatch):
    """A program of three kernels on a fake GPU, whose launches are one call of C: (run, its input, the fake)."""
    of = chain(3)
    python = python_kernels(of)
    fake = FakeCupy({name: (python[name], 2) for name in of.kernels})
    driver = fake.launch_for_c()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(issue, "driver_launch", lambda cp: ctypes.cast(driver, ctypes.c_void_p).value)
    kernels = {n: TritonKernel(b"", "", n, 0, 4, 0, ("*fp32",) * 2, (2, 1, 1)) for n in of.kernels}
    return launch(plan_memory(of.with_(device=Device("cuda"))), kernels, {}), array(np.zeros(64)), fake


def test_launches_that_c_issues_are_timed_one_by_one(fake_program):
    """A call of C is one for several kernels; while a profiler records, each kernel is a launch of its own."""
    run, x, fake = fake_program
    recorder = Recorder()
    recorder.gpu = SimpleNamespace(begins=lambda what, stream: None)
    for observed in (False, True, False):
        undo = observe_launches(run, recorder) if observed else lambda: None
        before = fake.from_c
        np.testing.assert_array_equal(run(x)[0], np.full(64, 3))
        assert fake.from_c - before == (0 if observed else 3)
        undo()
    assert [e.name for e in recorder.events] == ["kernel0", "kernel1", "kernel2"]


class Nvtx:
    """`cupy.cuda.nvtx`: the ranges that are open, and all that were, with how deep they lay."""

    def __init__(self):
        self.open, self.seen = [], []

    def RangePush(self, message, id_color=-1):
        self.seen.append((len(self.open), message))
        self.open.append(message)

    def RangePop(self):
        self.open.pop()

    def Mark(self, message, id_color=-1):
        self.seen.append((len(self.open), message))


@pytest.fixture
def nvtx(monkeypatch):
    made = Nvtx()
    monkeypatch.setattr("cutaway.profiler.nvtx.library", lambda: made)
    return made


def test_ranges_go_around_launches(nvtx, fake_program):
    run, x, _ = fake_program
    ranges = Ranges(nvtx)
    undo = observe_launches(run, ranges)
    run(x)
    undo()
    run(x)
    assert nvtx.seen == [(0, "kernel0"), (0, "kernel1"), (0, "kernel2")] and not nvtx.open
    assert not ranges.events


def test_every_range_ends(nvtx):
    """Of calls that are compiled, that break, that raise, and that stay eager; inside users' ranges."""

    @cutaway.compile
    def broken(x):
        y = x.sin()
        print("", end="")
        if y.sum() > 1e9:
            raise ValueError
        return (y * 2).sum()

    @cutaway.compile
    def raises(x):
        raise KeyError(x.shape)

    x = cutaway.ones(3, requires_grad=True)
    with cutaway.profiler.emit_nvtx(record_shapes=True), cutaway.profiler.record_function("mine"):
        cutaway.profiler.nvtx.mark("here")
        with cutaway.profiler.nvtx.range("step {}", 1):
            broken(x).backward()
        with pytest.raises(KeyError):
            raises(x)
    names = [name for _, name in nvtx.seen]
    assert not nvtx.open and names[:3] == ["mine", "here", "step 1"]
    assert "Torch-Compiled Region, sizes = [[3]]" in names and "CompiledFunctionBackward" in " ".join(names)
    before = len(nvtx.seen)
    broken(x)
    with cutaway.profiler.emit_nvtx(enabled=False):
        broken(x)
    assert len(nvtx.seen) == before


def test_without_a_gpu_the_error_says_what_to_install():
    if gpu.gpu_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="CuPy"), cutaway.profiler.emit_nvtx():
        pass
