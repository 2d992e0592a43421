"""Buffers that one kernel writes and only it reads, a row at a time, become rows in its threads' own memory.

Input: a fused Program, and the target. On a GPU these rows are registers: it is so where they hold the whole row.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from stage3_lowering.lowering.merge import ROW_LIMIT
from stage3_lowering.lowering.triton_blocks import holds_rows
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.program import Kernel, Launch, Program, Target, step_accesses


def rows_in_scratch(program: Program, target: Target) -> Program:
    """The program without these buffers; the kernels, with them as internal ones."""
    users, cpp = _users(program), target.name == "cpp"
    kernels, gone = dict(program.kernels), set[str]()
    for kernel in (k for k in program.kernels.values() if not k.template):
        temporary = (b for b in written_rows(kernel) if program.buffers[b].role == "temporary")
        rows = tuple(b for b in temporary if users[b] == {kernel.name})
        if rows and (cpp or holds_rows(kernel)):
            kernels[kernel.name] = _with_rows(kernel, rows, rows if cpp else ())
            gone.update(rows)
    return _without(program.with_(kernels=kernels), gone)


def _users(program: Program) -> dict[str, set[str]]:
    """The kernels that touch each buffer; "" for another step."""
    users: dict[str, set[str]] = {}
    for step in program.steps:
        who = step.kernel if isinstance(step, Launch) else ""
        for name in (n for names in step_accesses(step, program.kernels) for n in names):
            users.setdefault(name, set()).add(who)
    return users


def _with_rows(kernel: Kernel, rows: tuple[str, ...], scratch: tuple[str, ...]) -> Kernel:
    order = tuple(str(v) for v in kernel.nests[0].loop_variables)
    return replace(
        kernel,
        params=tuple(p for p in kernel.params if p not in rows),
        internal=(*kernel.internal, *rows),
        schedule=KernelSchedule(order, scratch=scratch),
    )


def _without(program: Program, gone: Collection[str]) -> Program:
    """The program without these buffers, in steps too."""
    steps = tuple(
        replace(s, buffers=tuple(b for b in s.buffers if b not in gone)) if isinstance(s, Launch) else s
        for s in program.steps
    )
    return program.with_(steps=steps, buffers={n: b for n, b in program.buffers.items() if n not in gone})


def written_rows(kernel: Kernel) -> list[str]:
    """Parameters with an element per reduction point that the kernel writes before it reads."""
    found = []
    for k, nest in enumerate(kernel.nests):
        if not nest.reduction_ranges or not nest.ranges or kernel.rows:
            continue
        row = math.prod(nest.reduction_ranges)
        if isinstance(row, int) and row <= ROW_LIMIT:
            continue
        before = {i.args[0] for n in kernel.nests[:k] for i in n.body if i.op == "load"}
        for instr in nest.body[: nest.split]:
            if instr.op == "store" and instr.args[0] in kernel.params and instr.args[0] not in before:
                found.append(instr.args[0])
    return found
