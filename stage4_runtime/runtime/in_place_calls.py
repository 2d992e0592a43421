"""Calls that change what they are given: on a GPU, rows are added to a tensor where the step before has written it.

Input: a Program before memory is planned. `scatter_add` gives a copy of its first argument with more added;
where no other step reads that argument, no copy is needed. What wrote it writes the result, and the call gets one
address twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stage_contracts.device import CPU
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import External, Launch, Program, step_accesses

CALLS = ("scatter_add",)


def calls_in_place(program: Program) -> Program:
    """The program, each such call on the memory of its result."""
    if program.device == CPU:
        return program
    steps = [*program.steps]
    for number, step in enumerate(steps):
        if isinstance(step, External) and step.target in CALLS and _may_change(program, steps, number):
            given, result = step.args[0].name, step.outputs[0]
            for k in range(number + 1):
                steps[k] = _on(steps[k], given, result)
    return program.with_(steps=tuple(steps))


def _may_change(program: Program, steps: list[Any], number: int) -> bool:
    """Whether a call's first argument is a whole temporary, laid out as the result, that one step writes and only the
    call reads."""
    step = steps[number]
    given, out = step.args[0], step.outputs[0]
    if not isinstance(given, BufferRef) or given.shape is not None:
        return False
    buffer = program.buffers[given.name]
    if buffer.role != "temporary" or buffer.meta != program.buffers[out].meta:
        return False
    uses = [k for k, one in enumerate(steps) for names in step_accesses(one, program.kernels)
            if given.name in names]  # fmt: skip
    return len(uses) == 2 and uses[1] == number and _writes(steps[uses[0]])


def _writes(step: Any) -> bool:
    """Whether it can write to the result's memory: a kernel that is launched once, or a product."""
    return isinstance(step, Launch) or (isinstance(step, External) and step.target == "matmul")


def _on(step: Any, old: str, new: str) -> Any:
    if isinstance(step, Launch):
        return replace(step, buffers=tuple(new if name == old else name for name in step.buffers))
    if not isinstance(step, External):
        return step
    args = tuple(BufferRef(new) if isinstance(a, BufferRef) and a.name == old else a for a in step.args)
    return replace(step, args=args, outputs=tuple(new if name == old else name for name in step.outputs))
