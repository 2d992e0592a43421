"""Horizontal fusion: kernels that do the same work on different buffers and sizes become one, with a table of them.

Input: the Program that fuse.py made. An optimizer's step over 200 parameters is 200 kernels that differ only in names
and sizes. One kernel and a table of 200 rows is built once and launched once, and the threads share all of the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.collectives import between_collectives
from stage3_lowering.lowering.launch_tables import LAST, Row, table_of
from stage3_lowering.lowering.rows_in_scratch import written_rows
from stage3_lowering.lowering.schedule_kernels import PARALLEL_WORK, work_of
from stage3_lowering.lowering.share_kernels import buffer_words, nest_form
from stage3_lowering.lowering.triton_tables import ALIGNMENT, fits_triton
from stage_contracts.device import CPU
from stage_contracts.program import Kernel, Launch, Program, Return, step_accesses
from stage_contracts.scheduler_ir import FusionDecision


def side_by_side(program: Program) -> Program:
    """The program with one launch for each set of rows."""
    on_gpu = program.device != CPU
    tables: dict[Any, list[Row]] = {}
    for row in _rows(program):
        if not refusal_of(row, on_gpu):
            form, numbers = _form(row.kernel, program)
            wide = on_gpu and math.prod(numbers) % ALIGNMENT == 0  # one odd row makes all loads narrow
            tables.setdefault((form, row.depth, row.between, wide), []).append(replace(row, numbers=numbers))
    merged = [rows for rows in tables.values() if len(rows) > 1]
    if not merged:
        return program
    kernels, launches = dict(program.kernels), {}
    for rows in merged:
        kernel, launch = table_of(rows, program)
        for row in rows:
            kernels.pop(row.kernel.name)
            launches[row.number] = launch
        kernels[kernel.name] = kernel
    decisions = [_decision(rows[0], row) for rows in merged for row in rows[1:]]
    order = {name: k for k, name in enumerate(program.kernels)}
    kernels = dict(sorted(kernels.items(), key=lambda item: order[item[0]]))
    return program.with_(
        kernels=kernels,
        steps=_in_order([launches.get(k, step) for k, step in enumerate(program.steps)], kernels),
        decisions=(*program.decisions, *decisions),
    )


def refusal(program: Program, a: str, b: str) -> str:
    """The code (scheduler_ir.REFUSALS) that keeps the kernels of two buffers from one table."""
    made_by = {name: row for row in _rows(program) for name in step_accesses(row.step, program.kernels)[1]}
    first, second = made_by.get(a), made_by.get(b)
    if first is None or second is None or _form(first.kernel, program)[0] != _form(second.kernel, program)[0]:
        shared = first and second and {*first.step.buffers} & {*second.step.buffers}
        return "only_numbers" if shared else "no_shared_buffer"
    if (first.depth, first.between) != (second.depth, second.between):
        return "depth"
    on_gpu = program.device != CPU
    return refusal_of(first, on_gpu) or refusal_of(second, on_gpu) or "no_shared_buffer"


def refusal_of(row: Row, on_gpu: bool = False) -> str:
    """Why this launch is no row of a table; "" where it may be one. On a GPU only what no step reads may."""
    kernel = row.kernel
    if on_gpu and not (row.depth == LAST and fits_triton(kernel)):
        return "own_threads"
    if any(instr.op == "indirect_index" for nest in kernel.nests for instr in nest.body):
        return "own_error"
    reductions = any(nest.reduction_ranges for nest in kernel.nests)
    if (reductions or row.depth != LAST) and (kernel.sizes or work_of(kernel) >= PARALLEL_WORK):
        return "own_threads"
    return "own_threads" if written_rows(kernel) else ""


# ---- rows ------------------------------------------------------------------------------------------------------


def _rows(program: Program) -> Iterable[Row]:
    """Every launch of a kernel that has no table yet. A kernel that is launched twice is shared, and stays."""
    depths, between = _depths(program), between_collectives(program)
    for number, step in enumerate(program.steps):
        if isinstance(step, Launch) and not (kernel := program.kernels[step.kernel]).rows:
            yield Row(number, step, kernel, between[number], depths[number])


def _depths(program: Program) -> list[int]:
    """For each step, how many steps it waits for, one after the other; LAST if no step waits for its own results."""
    accesses = [step_accesses(step, program.kernels) for step in program.steps]
    ready: dict[str, int] = {}
    depths: list[int] = []
    for reads, writes in accesses:
        depths.append(max((ready.get(name, 0) for name in reads), default=0))
        ready.update(dict.fromkeys(writes, depths[-1] + 1))
    waited_for = {
        name
        for step, (reads, _) in zip(program.steps, accesses, strict=True)
        if not isinstance(step, Return)
        for name in reads
    }
    return [
        LAST if isinstance(step, Launch) and not waited_for & {*writes} else depth
        for step, depth, (_, writes) in zip(program.steps, depths, accesses, strict=True)
    ]


def _form(kernel: Kernel, program: Program) -> tuple[Any, tuple[Any, ...]]:
    """What the kernel does whatever its buffers and free sizes are, equal for kernels that differ in these alone; and
    those sizes."""
    names = buffer_words(kernel)
    types = tuple(program.buffers[name].meta.dtype for name in kernel.params)
    forms = [nest_form(nest, names) for nest in kernel.nests]
    if kernel.sizes:  # an open size is known to each call, not to a table
        return (types, tuple(forms)), ()
    # a row that stays in the kernel has a known length
    inner = () if kernel.row_buffers else _inner(kernel)
    loops = [(len(n.ranges), len(n.reduction_ranges) if inner else n.reduction_ranges) for n in kernel.nests]
    return (types, tuple(loops), tuple(body for _, body in forms)), (*kernel.nests[0].ranges, *inner)


def _inner(kernel: Kernel) -> tuple[Any, ...]:
    return next((nest.reduction_ranges for nest in kernel.nests if nest.reduction_ranges), ())


# ---- the order ------------------------------------------------------------------------------------------------


def _in_order(steps: Sequence[Any], kernels: Mapping[str, Kernel]) -> tuple[Any, ...]:
    """The steps as they were, a table where its last row was, or before what needs it sooner; each once."""
    last = {id(step): k for k, step in enumerate(steps)}
    accesses = {id(step): step_accesses(step, kernels) for step in steps}
    maker = {name: step for step in steps for name in accesses[id(step)][1]}
    done: dict[int, Any] = {}
    for k, step in enumerate(steps):
        waiting = [step] if last[id(step)] == k else []
        while waiting:  # what a step needs comes first: a table may have moved behind its reader
            top = waiting[-1]
            needed = [maker[name] for name in accesses[id(top)][0] if name in maker]
            missing = [step for step in needed if id(step) not in done and step is not top]
            if missing:
                waiting += missing[::-1]
                continue
            done.setdefault(id(top), top)
            waiting.pop()
    return tuple(done.values())


def _decision(first: Row, row: Row) -> FusionDecision:
    one, other = ("_".join(name for nest in r.kernel.nests for name in nest.writes) for r in (first, row))
    return FusionDecision(one, other, True, "the same work on other buffers: rows of one table")
