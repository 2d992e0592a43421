"""Donation: a result that the caller would copy into an input is written straight into that input.

Input: a Program with `updates`, such as an optimizer's step: the new parameter, and the parameter that it replaces.
plan_memory.py calls this before it looks at lifetimes. stage_contracts/in_place.py says which results may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage_contracts.in_place import copies, in_place
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Allocate, Free, Launch, Product, Program, Return, RowBlocks


def donate(program: Program) -> Program:
    """The program, with each update that may be done in place written to its input."""
    chosen = in_place(program)
    if not chosen:
        return program
    steps = tuple(
        _renamed(step, chosen)
        for step in program.steps
        if not (copied := copies(step, program)) or not copied.items() <= chosen.items()
    )
    # what they were stays among the buffers: kernels take their parameters' types from there
    updates = {out: into for out, into in program.updates.items() if out not in chosen}
    return program.with_(steps=steps, updates=updates)


def _renamed(step: Any, chosen: Mapping[str, str]) -> Any:
    """The step with inputs in place of the results they now hold."""
    if isinstance(step, Launch):
        return replace(step, buffers=tuple(chosen.get(name, name) for name in step.buffers))
    if isinstance(step, Return):
        return Return(tuple(_argument(value, chosen) for value in step.values))
    if isinstance(step, RowBlocks):
        return replace(step, steps=tuple(_renamed(inner, chosen) for inner in step.steps))
    if isinstance(step, Product):
        a, b, out = (_argument(ref, chosen) for ref in (step.a, step.b, step.out))
        return replace(step, a=a, b=b, out=out)
    if isinstance(step, Allocate | Free) or not hasattr(step, "args"):
        return step
    return replace(
        step,
        args=tuple(_argument(arg, chosen) for arg in step.args),
        kwargs={key: _argument(value, chosen) for key, value in step.kwargs.items()},
    )


def _argument(value: Any, chosen: Mapping[str, str]) -> Any:
    if isinstance(value, BufferRef):
        return replace(value, name=chosen.get(value.name, value.name))
    if isinstance(value, (tuple, list)):
        return type(value)(_argument(item, chosen) for item in value)
    return value
