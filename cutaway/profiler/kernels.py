"""A timer around each kernel that a compiled program launches, and around each routine of a library that it calls.

Input: the launch function of a program. Its code is exchanged for a call of one that goes step by step, through the
timers (stage 4's launch_observed.py), and put back afterwards: a call costs nothing more while nobody records.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from cutaway.profiler.events import ProfilerEvent, Recorder
from stage4_runtime.runtime.launch_observed import (
    Routine,
    can_be_observed,
    observed_launch,
    observed_segments,
)
from stage_contracts.breaks import Unsupported
from stage_contracts.program import Kernel, Launch, Program
from stage_contracts.segments import Segment

OBSERVED = "__observed__"


def observe_launches(run: Any, recorder: Recorder) -> Callable[[], None]:
    """Time the steps of `run` from here on; what it returns ends that."""
    if not can_be_observed(run) or OBSERVED in run.__globals__:
        return lambda: None
    plain, names, program = run.__code__, run.__globals__, run.program
    try:
        names[OBSERVED] = observed_launch(run, lambda what, f: _observed(what, f, program, recorder))
    except Unsupported:  # steps that only C++ runs: its calls are events as a whole
        before = dict(names)
        names.update(observed_segments(run, lambda what, f: _observed(what, f, program, recorder)))
        return lambda: names.update(before)
    run.__code__ = _trampoline.__code__

    def end() -> None:
        run.__code__ = plain
        names.pop(OBSERVED, None)

    return end


def _trampoline(*arrays: Any) -> Any:
    return __observed__(*arrays)  # type: ignore[name-defined]  # noqa: F821  (in the launch function's globals)


def _observed(what: Any, function: Callable, program: Program, recorder: Recorder) -> Callable:
    if isinstance(what, str):
        return _counting(function, recorder) if recorder.memory else function
    args: dict[str, Any] = {"program": program.name}
    if isinstance(what, Routine):
        return _timed(function, what.name, "library", args, recorder, recorder.shapes)
    if isinstance(what, Segment):
        return _timed(function, f"{program.name} ({len(what.steps)} steps)", "kernel", args, recorder)
    if what.origins:
        args["lines"] = [f"{o.file}:{o.line} {o.text}" for o in what.origins]
    return _timed(function, what.name, "kernel", {**args, **_shapes(what, program, recorder)}, recorder)


def _timed(
    function: Callable,
    name: str,
    category: str,
    args: dict[str, Any],
    recorder: Recorder,
    shapes: bool = False,
) -> Callable:
    """`function` with a timer. `shapes`: those of the arrays that each call is given are kept."""
    keep = recorder.events.append

    def timed(*given: Any, **options: Any) -> Any:
        start = perf_counter_ns()
        result = function(*given, **options)
        took = perf_counter_ns() - start
        more = {**args, **_of_arrays(given)} if shapes else args
        keep(ProfilerEvent(name, category, start, took, get_ident(), more))
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


def _shapes(kernel: Kernel, program: Program, recorder: Recorder) -> dict[str, Any]:
    """What it works on. Of one that runs more than once: as the first time."""
    launches = [s for s in program.steps if isinstance(s, Launch) and s.kernel == kernel.name]
    if not recorder.shapes or not launches:  # inside a step of its own: by blocks of rows
        return {}
    metas = [program.buffers[name].meta for name in launches[0].buffers]
    return {
        "Input Dims": [[int(n) if isinstance(n, int) else str(n) for n in meta.shape] for meta in metas],
        "Input type": [meta.dtype.name for meta in metas],
    }
