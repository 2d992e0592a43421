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
from stage4_runtime.runtime.launch_observed import can_be_observed, observed_launch
from stage_contracts.program import External, Kernel, Launch, Program

OBSERVED = "__observed__"


def observe_launches(run: Any, recorder: Recorder) -> Callable[[], None]:
    """Time the steps of `run` from here on; what it returns ends that."""
    if not can_be_observed(run) or OBSERVED in run.__globals__:
        return lambda: None
    plain, names, program = run.__code__, run.__globals__, run.program
    names[OBSERVED] = observed_launch(run, lambda what, f: _observed(what, f, program, recorder))
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
    if what.origins:
        args["lines"] = [f"{o.file}:{o.line} {o.text}" for o in what.origins]
    if isinstance(what, Kernel):
        return _timed(function, what.name, "kernel", {**args, **_shapes(what, program, recorder)}, recorder)
    return _timed(function, what.target, "library", {**args, **_shapes(what, program, recorder)}, recorder)


def _timed(
    function: Callable, name: str, category: str, args: dict[str, Any], recorder: Recorder
) -> Callable:
    keep = recorder.events.append

    def timed(*given: Any, **options: Any) -> Any:
        start = perf_counter_ns()
        result = function(*given, **options)
        keep(ProfilerEvent(name, category, start, perf_counter_ns() - start, get_ident(), args))
        return result

    return timed


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


def _shapes(what: Any, program: Program, recorder: Recorder) -> dict[str, Any]:
    """What it works on. Of kernels that run more than once: as the first time."""
    if not recorder.shapes:
        return {}
    if isinstance(what, External):
        names: list[str] = [a.name for a in what.args if hasattr(a, "name")] + list(what.outputs)
    else:
        launches = (s for s in program.steps if isinstance(s, Launch) and s.kernel == what.name)
        names = next(list(launch.buffers) for launch in launches)
    metas = [program.buffers[name].meta for name in names if name in program.buffers]
    return {
        "Input Dims": [[int(n) if isinstance(n, int) else str(n) for n in meta.shape] for meta in metas],
        "Input type": [meta.dtype.name for meta in metas],
    }
