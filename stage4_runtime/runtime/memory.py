"""How much memory a call of a program takes, before it runs: the pools, and the arrays outside them while they live.

Input: a planned Program with known sizes. Inputs and constants belong to the caller and do not count. The memory that
an eager kernel or BLAS takes while it works cannot be foreseen.
"""

from __future__ import annotations

from stage4_runtime.runtime.layout import slot_alignment, span
from stage_contracts.program import Allocate, External, Free, Program


def predicted_peak(program: Program) -> int:
    """The most bytes that a call holds at once."""
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
    return peak + sum(nbytes + slot_alignment(program.device) for nbytes in program.pools)
