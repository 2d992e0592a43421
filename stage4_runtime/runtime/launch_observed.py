"""The launch function of a program once more, one step at a time, every call in it handed to an observer first.

Input: what launch.py made for a CPU, and `observe(what, function) -> function`. The launch function itself stays as it
is: it may have put many steps into one call of C++, and an observer wants to see each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage4_runtime.runtime.launch import arenas
from stage4_runtime.runtime.launch_names import EXTERNAL_PREFIX, INTO_PREFIX, identifier
from stage4_runtime.runtime.launch_text import write_launch_text
from stage_contracts.program import External, RowBlocks
from stage_contracts.segments import Segment, segments

ALLOCATIONS = "empty", "allocate_pool"  # a buffer of its own, and a pool for temporaries


def can_be_observed(run: Any) -> bool:
    """Whether `run` is a launch function for a CPU. One for a GPU, or a graph on NumPy, is not."""
    return hasattr(run, "written") and run.program.device.type == "cpu"


@dataclass(frozen=True)
class Routine:
    """A routine of a library's: one function for all steps that call it."""

    name: str


def _routine_of(step: Any) -> tuple[str, ...]:
    """The name in the text of what a step calls."""
    if isinstance(step, RowBlocks):
        return (f"{INTO_PREFIX}matmul",)
    if isinstance(step, External):
        return ((INTO_PREFIX if step.into else EXTERNAL_PREFIX) + identifier(step.target),)
    return ()


def observed_segments(run: Any, observe: Callable[[Any, Callable], Callable]) -> dict[str, Callable]:
    """For a program that only C++ can run: its calls of C++, by their name in the text, made by `observe`."""
    found = [part for part in segments(run.program) if isinstance(part, Segment)]
    given = run.__globals__
    return {part.function: observe(part, given[part.function]) for part in found if part.function in given}


def observed_launch(run: Any, observe: Callable[[Any, Callable], Callable]) -> Callable[..., tuple]:
    """As `run`, each call in it made by `observe(what, it)`: a Kernel, a Routine, or a name of ALLOCATIONS."""
    program, before = run.program, run.written
    written = write_launch_text(program, kernel_alignment=before.kernel_alignment)
    given = run.__globals__
    names: dict[str, Any] = {**given, **arenas()}  # arenas of this text: they hold other addresses
    for name in ALLOCATIONS:
        names[name] = observe(name, given[name])
    for name, kernel in program.kernels.items():
        names[written.kernels[name]] = observe(kernel, given[before.kernels[name]])
    for buffer in program.buffers.values():
        if buffer.role == "constant":
            names[written.names[buffer.name]] = given[before.names[buffer.name]]
    for name in {routine for step in program.steps for routine in _routine_of(step)}:
        names[name] = observe(
            Routine(name.removeprefix(INTO_PREFIX).removeprefix(EXTERNAL_PREFIX)), given[name]
        )
    exec(compile(written.text, f"<cutaway observed launch {program.name}>", "exec"), names)
    return names[written.function]
