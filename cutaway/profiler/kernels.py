"""A timer around each kernel that a compiled program launches, and around each routine of a library that it calls.

Input: the launch function of a program. Where many steps are one call of C++, that call notes when each begins; they
become events after the recording. Timers go in under the names in the function's globals, and are taken out again. On a
GPU a launch is one event here and, by the recorder's observer, one there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import get_ident
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any
from weakref import finalize

from cutaway.profiler.events import ProfilerEvent, Recorder, Timed
from stage4_runtime.runtime.launch_observed import (
    ALLOCATIONS,
    Routine,
    calls_of,
    can_be_observed,
    fresh_arenas,
    one_by_one,
)
from stage4_runtime.runtime.segment_calls import stamped
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.origin import Origin, union
from stage_contracts.program import External, Kernel, Launch, Program, RowBlocks, step_accesses
from stage_contracts.segments import Segment
from stage_contracts.tensor_meta import TensorMeta


def observe_launches(run: Any, recorder: Recorder) -> Callable[[], None]:
    """Time the steps of `run` from here on; what it returns ends that."""
    if not can_be_observed(run):
        return lambda: None
    if run.program.device.type != "cpu":
        return _observe_gpu(run, recorder) if recorder.gpu is not None else lambda: None
    names = run.names
    timers = {name: _timer(what, names[name], run.program, recorder) for name, what in calls_of(run).items()}
    if recorder.memory:  # pools that were kept are allocated once more, to be seen
        timers |= {name: arena for name, arena in fresh_arenas().items() if name in names}
    before = {name: names[name] for name in timers}
    names.update(timers)
    return lambda: names.update(before)


def _timer(what: Any, call: Callable, program: Program, recorder: Recorder) -> Callable:
    """What takes the place of a call in a launch function."""
    if what in ALLOCATIONS:
        return _counting(call, program, recorder) if recorder.memory else call
    if isinstance(what, Segment):
        return _segment(what, call, program, recorder)
    return _timed(
        call, _called(what, program, recorder), recorder, isinstance(what, Routine) and recorder.shapes
    )


def _called(what: Any, program: Program, recorder: Recorder) -> Timed:
    """A routine, or a kernel by the first step that launches it."""
    if isinstance(what, Routine):
        return _routine(what, program)
    steps = [s for s in program.steps if isinstance(s, Launch) and s.kernel == what.name]
    return _described((steps or [what])[0], program, recorder)


def _observe_gpu(run: Any, recorder: Recorder) -> Callable[[], None]:
    """A timer around each launch of a program on a GPU, and around the replay of each CUDA graph that it has."""
    names, program = run.names, run.program
    timers: dict[str, Any] = dict(one_by_one(run))
    for name, what in calls_of(run).items():
        if what not in ALLOCATIONS:
            launch = replace(_called(what, program, recorder), category="launch")
            on_stream = isinstance(what, Kernel) or name in run.written.prepared.values()
            timers[name] = _launched(names[name], launch, recorder, on_stream)
        elif recorder.memory:
            timers[name] = _counting(names[name], program, recorder)
    before = {name: names[name] for name in timers}
    names.update(timers)
    replays = [each.captured for each in getattr(run, "state", {}).values() if each and each.captured]
    graphs = [captured.graph for captured in replays]
    lines = _lines(union(kernel.origins for kernel in program.kernels.values()))
    for captured in replays:
        replay = Timed(f"CUDA graph of {program.name}", "launch", {"program": program.name, **lines})
        captured.graph = SimpleNamespace(launch=_launched(captured.graph.launch, replay, recorder))

    def undo() -> None:
        names.update(before)
        for captured, graph in zip(replays, graphs, strict=True):
            captured.graph = graph

    return undo


def _launched(function: Callable, what: Timed, recorder: Recorder, on_stream: bool = False) -> Callable:
    """`function`, which launches something: an event here and, by the recorder's observer, one on the GPU. `on_stream`:
    its first argument is the stream."""
    keep, begins = recorder.events.append, recorder.gpu.begins

    def launched(*given: Any, **options: Any) -> Any:
        over = begins(what, given[0] if on_stream else None)
        start = perf_counter_ns()
        result = function(*given, **options)
        event = what.event(start, perf_counter_ns() - start, get_ident())
        keep(event)
        if over is not None:
            over(event)
        return result

    return launched


def _segment(segment: Segment, call: Callable, program: Program, recorder: Recorder) -> Callable:
    """The call of C++ with a place for its times. What it noted is kept as it is: events are made of it later."""
    steps = tuple(_described(step, program, recorder) for step in segment.running)
    whole = Timed(f"{program.name} ({len(steps)} steps)", "kernel", {"program": program.name})
    if stamped(call, len(steps) + 1) is None:
        return _timed(call, whole, recorder)
    free: list[tuple[Callable, Any]] = []  # each for one call at a time: calls of other threads take others
    keep, opened = recorder.stamped.append, [size.name for size in program.sizes]
    first = len(segment.arrays) + len(program.pools)  # of the words that are open sizes

    def noted(*words: Any) -> Any:
        try:
            inner, stamps = free.pop()
        except IndexError:
            inner, stamps = stamped(call, len(steps) + 1)  # type: ignore[misc]
        failed = inner(*words)
        if not failed:
            sizes = dict(zip(opened, words[first:], strict=False)) if opened else None
            keep((steps, stamps.copy(), get_ident(), sizes))
        free.append((inner, stamps))
        return failed

    return noted


def _described(step: Any, program: Program, recorder: Recorder) -> Timed:
    """What the events of a step say."""
    args: dict[str, Any] = {"program": program.name}
    origins, category, name = getattr(step, "origins", ()), "kernel", getattr(step, "name", "")
    if isinstance(step, Launch):
        name, origins = step.kernel, program.kernels[step.kernel].origins
        if recorder.shapes:
            args |= _shapes([(program.buffers[n].meta, None) for n in step.buffers])
    elif isinstance(step, RowBlocks):
        parts = [inner.kernel if isinstance(inner, Launch) else "matmul" for inner in step.steps]
        name = f"{' + '.join(parts)} by rows"
    elif isinstance(step, External):
        name, category = step.target, "library"
        if recorder.shapes:
            args |= _shapes([(program.buffers[r.name].meta, r.shape) for r in buffer_refs(step.args)])
    return Timed(name, category, args | _lines(origins), (program, step))


def _routine(routine: Routine, program: Program) -> Timed:
    """The lines of every step that calls it. Which step an event is, only one that is alone says."""
    steps = [s for s in program.steps if isinstance(s, External) and s.target == routine.name]
    alone = len(steps) == 1 and not any(isinstance(s, RowBlocks) for s in program.steps)
    args = {"program": program.name, **_lines(union(step.origins for step in steps))}
    return Timed(routine.name, "library", args, (program, steps[0]) if alone else None)


def _lines(origins: tuple[Origin, ...]) -> dict[str, Any]:
    return {"lines": [f"{o.file}:{o.line} {o.text}" for o in origins]} if origins else {}


def _timed(function: Callable, what: Timed, recorder: Recorder, shapes: bool = False) -> Callable:
    """`function` with a timer. `shapes`: those of the arrays that each call is given are kept."""
    keep = recorder.events.append

    def timed(*given: Any, **options: Any) -> Any:
        start = perf_counter_ns()
        result = function(*given, **options)
        took = perf_counter_ns() - start
        event = what.event(start, took, get_ident())
        if shapes:
            event.args = {**event.args, **_of_arrays(given)}
        keep(event)
        return result

    return timed


def _of_arrays(given: tuple) -> dict[str, Any]:
    arrays = [value for value in given if hasattr(value, "shape") and hasattr(value, "dtype")]
    return {"Input Dims": [list(a.shape) for a in arrays], "Input type": [str(a.dtype) for a in arrays]}


def _counting(function: Callable, program: Program, recorder: Recorder) -> Callable:
    """An allocation: of a pool of so many bytes, or of an array for a buffer. It ends when the memory's owner goes."""
    lines = _lines_of_buffers(program)

    def counted(what: Any, *more: Any) -> Any:
        made = function(what, *more)
        pool = isinstance(what, int)
        nbytes, place = (what, "pool") if pool else (made.nbytes, what)
        args = {"Bytes": int(nbytes), "buffer": place, "program": program.name, **lines.get(place, {})}
        event = ProfilerEvent("[memory]", "memory", perf_counter_ns(), 0, get_ident(), args)
        event.source = program, place
        recorder.events.append(event)
        finalize(
            _owner(made[0] if pool else made), lambda: args.update(freed_ns=perf_counter_ns())
        ).atexit = False
        return made

    return counted


def _owner(memory: Any) -> Any:
    """The array that the memory goes with."""
    while getattr(memory, "base", None) is not None and hasattr(memory.base, "nbytes"):
        memory = memory.base
    return memory


def _lines_of_buffers(program: Program) -> dict[str, dict[str, Any]]:
    """The lines of the first step that writes each buffer."""
    found: dict[str, dict[str, Any]] = {}
    for step in program.steps:
        kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
        for name in step_accesses(step, program.kernels)[1]:
            found.setdefault(name, _lines(kernel.origins if kernel else getattr(step, "origins", ())))
    return found


def _shapes(arrays: list[tuple[TensorMeta, Any]]) -> dict[str, Any]:
    """Of each array its meta, and its shape where a step sees it in another."""
    shapes = [meta.shape if shape is None else shape for meta, shape in arrays]
    return {
        "Input Dims": [[int(n) if isinstance(n, int) else str(n) for n in shape] for shape in shapes],
        "Input type": [meta.dtype.name for meta, _ in arrays],
    }
