"""What a launch function calls, by its name in the function's globals: an observer puts its own in, and takes it out.

Input: what launch.py made. A Segment is many steps in one call of C++; `stamped` of segment_calls.py makes
that call note when each step begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage4_runtime.runtime.arenas import arenas
from stage4_runtime.runtime.launch_groups import Group
from stage4_runtime.runtime.launch_names import EXTERNAL_PREFIX, INTO_PREFIX, identifier
from stage_contracts.program import External, RowBlocks
from stage_contracts.segments import Segment, segments

ALLOCATIONS = "empty", "allocate_pool"  # a buffer of its own, and a pool for temporaries


def can_be_observed(run: Any) -> bool:
    """Whether `run` is a launch function; a graph on NumPy is not."""
    return hasattr(run, "written")


@dataclass(frozen=True)
class Routine:
    """A routine of a library's: one function for all steps that call it."""

    name: str


def calls_of(run: Any) -> dict[str, Any]:
    """Name -> the Segment, Kernel or Routine that it runs; those of ALLOCATIONS are there as themselves."""
    program, given = run.program, run.names
    parts = segments(program)
    native = [part for part in parts if isinstance(part, Segment) and part.function in given]
    found: dict[str, Any] = {part.function: part for part in native}
    for step in parts if native else program.steps:
        if isinstance(step, RowBlocks):
            found |= {f"{INTO_PREFIX}{name}": Routine(name) for name in ("matmul", "add")}
        elif isinstance(step, External):
            prefix = INTO_PREFIX if step.into else EXTERNAL_PREFIX
            name = run.written.prepared.get(id(step), prefix + identifier(step.target))
            found[name] = Routine(step.target)
    if not native:
        found |= {run.written.kernels[name]: kernel for name, kernel in program.kernels.items()}
    return found | {name: name for name in ALLOCATIONS}


def one_by_one(run: Any) -> dict[str, Callable]:
    """For each call of C that issues launches a function that calls these kernels, by the names they have then."""
    return {group.function: _each(group, run) for group in run.written.groups}


def _each(group: Group, run: Any) -> Callable[..., int]:
    names = run.names
    calls = [
        (run.written.kernels[step.kernel], [number - 1 for number in group.words(step, run.program)[0]])
        for step in group.launches
    ]

    def launch_each(*words: Any) -> int:
        for kernel, places in calls:
            names[kernel](words[0], *[words[place] for place in places])
        return 0

    return launch_each


def fresh_arenas() -> dict[str, Any]:
    """Names for a launch function with no memory kept yet, so that an observer sees every pool allocated."""
    return dict(arenas())
