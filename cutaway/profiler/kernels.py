"""A timer around each kernel that a compiled program launches, and around each routine of a library that it calls.

Input: the launch function of a program. Where many steps are one call of C++, that call notes when each begins; they
become events after the recording. Timers go in under the names in the function's globals, and are taken out again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from cutaway.profiler.events import ProfilerEvent, Recorder, Timed
from stage4_runtime.runtime.launch_observed import (
    ALLOCATIONS,
    Routine,
    calls_of,
    can_be_observed,
    fresh_arenas,
)
from stage4_runtime.runtime.segment_calls import stamped
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.origin import Origin
from stage_contracts.program import External, Launch, Program, RowBlocks
from stage_contracts.segments import Segment
from stage_contracts.tensor_meta import TensorMeta


def observe_launches(run: Any, recorder: Recorder) -> Callable[[], None]:
    """Time the steps of `run` from here on; what it returns ends that."""
    if not can_be_observed(run):
        return lambda: None
    names, program = run.__globals__, run.program
    timers: dict[str, Any] = {}
    for name, what in calls_of(run).items():
        if what in ALLOCATIONS:
            timers |= {name: _counting(names[name], recorder)} if recorder.memory else {}
        elif isinstance(what, Segment):
            timers[name] = _segment(what, names[name], program, recorder)
        elif isinstance(what, Routine):
            timers[name] = _timed(names[name], _routine(what, program), recorder, recorder.shapes)
        else:
            steps = [s for s in program.steps if isinstance(s, Launch) and s.kernel == what.name]
            timers[name] = _timed(names[name], _described((steps or [what])[0], program, recorder), recorder)
    if recorder.memory:  # pools that were kept are allocated once more, to be seen
        timers |= {name: arena for name, arena in fresh_arenas().items() if name in names}
    before = {name: names[name] for name in timers}
    names.update(timers)
    return lambda: names.update(before)


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
    """Which step it is, only one that is alone in calling it says."""
    steps = [s for s in program.steps if isinstance(s, External) and s.target == routine.name]
    alone = len(steps) == 1 and not any(isinstance(s, RowBlocks) for s in program.steps)
    args = {"program": program.name, **(_lines(steps[0].origins) if alone else {})}
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


def _counting(function: Callable, recorder: Recorder) -> Callable:
    """An allocation: of a pool of so many bytes, or of an array for a buffer."""

    def counted(what: Any, *more: Any) -> Any:
        made = function(what, *more)
        nbytes = what if isinstance(what, int) else made.nbytes
        place = "pool" if isinstance(what, int) else what
        args = {"Bytes": int(nbytes), "buffer": place}
        recorder.events.append(ProfilerEvent("[memory]", "memory", perf_counter_ns(), 0, get_ident(), args))
        return made

    return counted


def _shapes(arrays: list[tuple[TensorMeta, Any]]) -> dict[str, Any]:
    """Of each array its meta, and its shape where a step sees it in another."""
    shapes = [meta.shape if shape is None else shape for meta, shape in arrays]
    return {
        "Input Dims": [[int(n) if isinstance(n, int) else str(n) for n in shape] for shape in shapes],
        "Input type": [meta.dtype.name for meta, _ in arrays],
    }
