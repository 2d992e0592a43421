"""How much memory a call of a program takes, before it runs: the pools, and the arrays outside them while they live.

Input: a planned Program with known sizes. Inputs and constants belong to the caller and do not count. The memory that
an eager kernel or BLAS takes while it works cannot be foreseen; what a thread's rows take is told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from stage4_runtime.runtime.layout import slot_alignment, span
from stage_contracts.program import Allocate, External, Free, Product, Program, RowBlocks


def predicted_peak(program: Program) -> int:
    """The most bytes that a call holds at once."""
    peak, _ = _arrays(program)
    return peak + pool_bytes(program)


def pool_bytes(program: Program) -> int:
    """What stays between calls."""
    return sum(nbytes + slot_alignment(program.device) for nbytes in program.pools)


def scratch_bytes(program: Program) -> int:
    """What each thread takes, in C++ and for the time of one step, for rows that stay in its cache."""
    steps = [step for step in program.steps if isinstance(step, RowBlocks)]
    of_block = ((step, sum(span(program.buffers[name].meta) for name in step.local)) for step in steps)
    rows = [nbytes * min(step.count, step.block) // step.block for step, nbytes in of_block]
    return max((a + _panel_bytes(step, program) for a, step in zip(rows, steps, strict=True)), default=0)


def _panel_bytes(step: RowBlocks, program: Program) -> int:
    """The matrices that products in registers have in an order of their own."""
    views = [inner.b for inner in step.steps if isinstance(inner, Product) and inner.panels]
    return sum(math.prod(b.shape or ()) * program.buffers[b.name].meta.dtype.itemsize for b in views)


def predicted_step(programs: Iterable[tuple[Program, bool]]) -> int:
    """The same for calls of several programs in order; of each, whether its results live only until the next has run,
    as what a forward saves does. Other results live on."""
    peak = held = until_next = 0
    for program, passing in programs:
        most, results = _arrays(program)
        peak = max(peak, held + until_next + most + pool_bytes(program))
        held += pool_bytes(program) + (0 if passing else results)
        until_next = results if passing else 0
    return peak


def _arrays(program: Program) -> tuple[int, int]:
    """The most bytes of arrays outside the pools, and those that are left when the call returns."""
    own = {name: span(b.meta) for name, b in program.buffers.items() if b.slot is None}
    live: dict[str, int] = {}
    peak = 0
    for step in program.steps:
        if isinstance(step, Allocate) and step.buffer in own:
            live[step.buffer] = own[step.buffer]
        elif isinstance(step, External) and not step.into:
            live.update((name, own[name]) for name in step.outputs)
        elif isinstance(step, Free):
            live.pop(step.buffer, None)
        peak = max(peak, sum(live.values()))
    return peak, sum(live.values())
