"""Segments: the parts of a Program that C++ runs without Python. Between them are the steps that need Python.

Input: a Program. The emitter writes one C++ function for each segment, and the launcher calls it instead of the steps.
Both use this file, so they agree. A contraction belongs to a segment if BLAS can take the layout of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stage_contracts.blas import contraction
from stage_contracts.device import CPU
from stage_contracts.program import (
    Allocate,
    Collective,
    Copy,
    External,
    Free,
    Launch,
    Program,
    RowBlocks,
    step_accesses,
)


@dataclass(frozen=True)
class Segment:
    """Steps that one C++ function runs. Its arguments are arrays, then the pools, then the open sizes.

    `checked`: those of `arrays` (the first ones) that are inputs of the program. The function checks them first.
    """

    function: str
    steps: tuple[Any, ...]
    arrays: tuple[str, ...]
    checked: int = 0

    @property
    def running(self) -> tuple[Any, ...]:
        """The steps that run something: those whose begin C++ notes for a profiler, in order."""
        return tuple(step for step in self.steps if not isinstance(step, Allocate | Free))

    @property
    def allocated(self) -> tuple[str, ...]:
        return tuple(step.buffer for step in self.steps if isinstance(step, Allocate))

    @property
    def freed(self) -> tuple[str, ...]:
        return tuple(step.buffer for step in self.steps if isinstance(step, Free))


def segments(program: Program) -> tuple[Any, ...]:
    """The program's steps, with those that C++ can run collected in Segments. Only on the CPU, and only if a segment
    has a kernel. Found once for each program, for two ask to launch it."""
    kept = program.__dict__
    if "_segments" not in kept:
        kept["_segments"] = _found(program)
    return kept["_segments"]


def _found(program: Program) -> tuple[Any, ...]:
    if program.device != CPU or not any(isinstance(step, Launch | RowBlocks) for step in program.steps):
        return program.steps
    found: list[Any] = []
    for native, steps in _stretches(program):
        if not native or not any(isinstance(step, Launch | RowBlocks) for step in steps):
            found += steps
            continue
        number = sum(isinstance(f, Segment) for f in found)
        first = not any(isinstance(f, External | Copy | Collective) for f in found)
        found.append(_segment(program, f"run_{number}" if number else "run", steps, first and not number))
    return tuple(found)


def _stretches(program: Program) -> Iterator[tuple[bool, list[Any]]]:
    """(whether C++ can run them, consecutive steps). Steps that allocate or free a buffer can be in both."""
    current: list[Any] = []
    native = True
    for step in program.steps:
        if not isinstance(step, Allocate | Free) and current and can_run(step, program) is not native:
            yield native, current
            current = []
        if not isinstance(step, Allocate | Free):
            native = can_run(step, program)
        current.append(step)
    yield native, current


def can_run(step: Any, program: Program) -> bool:
    """Whether C++ runs this step: a kernel, or a contraction that BLAS takes."""
    return isinstance(step, Launch | RowBlocks) or (
        isinstance(step, External) and contraction(step, program.buffers) is not None
    )


def _segment(program: Program, function: str, steps: list[Any], checks: bool) -> Segment:
    used: dict[str, None] = dict.fromkeys(program.inputs if checks else ())
    for step in steps:
        for names in step_accesses(step, program.kernels):
            used.update(dict.fromkeys(n for n in names if program.buffers[n].slot is None))
    while function in program.kernels or function in program.buffers:
        function += "_"
    return Segment(function, tuple(steps), tuple(used), len(program.inputs) if checks else 0)
