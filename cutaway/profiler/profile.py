"""`profile`: begin and end recordings as a schedule says, and hand out what was recorded.

Input: what to record, the schedule, what to do with a trace that is ready. One profiler records at a time.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Any

from cutaway.profiler import chrome_trace, compile_phases, gpu
from cutaway.profiler.averages import EventList, averages
from cutaway.profiler.events import ACTIVE, ProfilerEvent, Recorder, nested
from cutaway.profiler.schedule import RECORDING, ProfilerAction, every_step
from cutaway.profiler.stacks import write_stacks
from stage_contracts.messages import checks_options
from stage_contracts.report import report_once


class ProfilerActivity(Enum):
    """What may be recorded."""

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    """CPU, and CUDA where there is a GPU."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if gpu.gpu_available() else set())


# What to say of torch's options that record more there.
NEAREST = {
    "with_modules": "with_stack=True has the lines of a module's forward",
    "experimental_config": "record_function marks what else is to be seen",
    "execution_trace_observer": "TORCH_COMPILE_DEBUG=1 writes every graph, as programs that run",
}


class profile:
    """`with profile() as prof:`, then `prof.key_averages().table()` or `prof.export_chrome_trace(path)`.

    activities: CPU, and CUDA where there is a GPU; otherwise that is said to be left out. schedule: the action for each
    step, from `schedule(...)`; then call `step()` after each. on_trace_ready: called with this object when a trace is
    there. record_shapes: shapes and dtypes of inputs. profile_memory: allocations of compiled programs. with_stack: the
    program's Python stack at each event. acc_events: keep the events of earlier recordings of a schedule. with_flops:
    a column of floating-point operations, of kernels and matrix products. Torch's other options are taken, and it is
    said once that they add nothing.
    """

    @checks_options
    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
    ) -> None:
        wanted = set(supported_activities() if activities is None else activities)
        if not wanted <= set(ProfilerActivity):
            raise TypeError(
                f"activities expects members of ProfilerActivity, got {sorted(map(repr, wanted))}"
            )
        if left_out := wanted - supported_activities():
            names = ", ".join(activity.name for activity in left_out)
            report_once(
                f"cutaway: there is no GPU here, so the profiler records the CPU only; {names} is left out"
            )
        self._on_gpu = ProfilerActivity.CUDA in wanted - left_out
        for name, given in {"with_modules": with_modules, "experimental_config": experimental_config,
                            "execution_trace_observer": execution_trace_observer}.items():  # fmt: skip
            if given:
                report_once(f"cutaway: profile({name}=...) records nothing more here; {NEAREST[name]}")
        self._flops, self._all = bool(with_flops), bool(acc_events)
        self._steps, self._schedule = schedule is not None, schedule or every_step
        self._on_trace_ready = on_trace_ready
        self._options = bool(record_shapes), bool(profile_memory), bool(with_stack)
        self.step_num = 0
        self._action = ProfilerAction.NONE
        self._recorder: Recorder | None = None
        self._undo = ExitStack()
        self._step_event: ProfilerEvent | None = None
        self._recorded: list[ProfilerEvent] = []

    # ---- when ------------------------------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._go_to(self._schedule(self.step_num))

    def step(self) -> None:
        """One step of the program's loop is over: the next begins, as the schedule says."""
        before = self._action
        self._end_step()
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        self._go_to(self._schedule(self.step_num))

    def stop(self) -> None:
        """The end: what is being recorded is a trace that is ready."""
        self._end_step()
        if self._action in RECORDING:
            self._finish()
        else:
            self._end_recording()
        self._action = ProfilerAction.NONE

    def _go_to(self, action: ProfilerAction) -> None:
        before, self._action = self._action, action
        if action is ProfilerAction.NONE:
            self._end_recording()
            return
        if self._recorder is None:
            self._begin_recording()
        assert self._recorder is not None
        if before is ProfilerAction.WARMUP and action in RECORDING:
            self._recorder.clear()
        if self._steps and action in RECORDING:
            self._step_event = self._recorder.begin(f"ProfilerStep#{self.step_num}", "user_annotation")

    def _end_step(self) -> None:
        if self._step_event is not None and self._recorder is not None:
            self._recorder.end(self._step_event)
        self._step_event = None

    def _begin_recording(self) -> None:
        if ACTIVE:
            raise RuntimeError(
                "another profiler is recording: end it (leave its block, or call stop()) first"
            )
        from cutaway.profiler import regions  # imported here: with stage 4 comes sympy, half a second

        self._recorder = Recorder(*self._options)
        ACTIVE.append(self._recorder)
        self._undo.callback(ACTIVE.clear)
        if self._on_gpu:
            self._recorder.gpu = gpu.observer()
            self._undo.callback(self._recorder.gpu.stop)
        self._undo.callback(compile_phases.listen(self._recorder))
        self._undo.callback(regions.observe(self._recorder))

    def _end_recording(self) -> None:
        self._undo.close()
        self._recorder = None

    def _finish(self) -> None:
        assert self._recorder is not None
        recorder = self._recorder
        self._end_recording()
        recorded = nested(recorder.recorded())
        if recorder.gpu is not None:
            gpu.add_to_launches(recorded)
        if self._flops:
            from cutaway.profiler.costs import count_operations  # imported here: stage 4, as above

            count_operations(recorded)
        self._recorded = [*self._recorded, *recorded] if self._all else recorded
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    # ---- what was recorded -----------------------------------------------------------------------------------

    def events(self) -> list[ProfilerEvent]:
        """Every event of the last recording, by start."""
        return self._recorded

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together."""
        return averages(self._recorded, group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write the trace for chrome://tracing or Perfetto."""
        chrome_trace.write_trace(self._recorded, str(path), f"{self.step_num} steps" if self._steps else "")

    def export_memory_timeline(self, path: str | Path, device: str | None = None) -> None:
        """Write the memory of compiled programs over time: .svg, .json or .json.gz. Needs profile_memory=True."""
        if not self._options[1]:
            raise RuntimeError("export_memory_timeline needs allocations: profile with profile_memory=True")
        if device not in (None, "cpu", "cpu:0"):
            raise ValueError(f"export_memory_timeline records the CPU only, got device={device!r}")
        from cutaway.profiler.memory_timeline import write_timeline  # imported here: stage 4, as above

        write_timeline(self._recorded, str(path))

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for a flame graph. Needs with_stack=True."""
        if not self._options[2]:
            raise RuntimeError("export_stacks needs stacks: profile with with_stack=True")
        write_stacks(self._recorded, str(path), metric)


def tensorboard_trace_handler(
    dir_name: str | Path, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For on_trace_ready: each trace as a file of its own in a folder, under a name that TensorBoard knows."""

    def write(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(folder / f"{worker}.{time.time_ns()}{ending}")

    return write
