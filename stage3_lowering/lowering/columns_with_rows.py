"""The pass `columns_with_rows`: sums over columns are made by the kernel that has each row in registers anyway.

Input: a Program for a GPU, before its kernels have schedules. The gradient of a norm is one number per element, and of
its gain one sum per column; apart, two kernels read the same matrices. Together, an instance takes a part of the rows
one by one and keeps a row of sums; a second kernel adds up the parts. triton_columns_with_rows.py writes the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.merge import rename
from stage3_lowering.lowering.row_values import moved_to, one_fixed_reduction
from stage3_lowering.lowering.split_reductions import separable, two_levels
from stage3_lowering.lowering.triton_blocks import column_loop, holds_rows
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Program, Target, step_accesses

TEMPLATE = "columns_with_rows"
INSTANCES = 264  # two for each of 132 multiprocessors: the fastest for rows of 4,096 in float32 and bfloat16
FEWEST_ROWS = 4  # of an instance: its sums are written once, which fewer rows do not pay
FEWEST_PARTS = 64


def columns_with_rows(program: Program, target: Target) -> Program:
    """The program, each such pair of kernels as one, and a kernel that adds up what its instances found."""
    if target.name != "triton":
        return program
    for number, step in enumerate(program.steps):
        if (parts := _parts(program, step)) is None:
            continue
        for other, row_step in enumerate(program.steps):
            if _fits(program, number, other) and _may_join(program, number, other):
                return columns_with_rows(_joined(program, step, row_step, parts), target)
    return program


def _own_kernel(program: Program, step: Any) -> Kernel | None:
    """The kernel that only this step launches, its loops as they are."""
    if not isinstance(step, Launch):
        return None
    kernel = program.kernels[step.kernel]
    launches = sum(isinstance(s, Launch) and s.kernel == step.kernel for s in program.steps)
    plain = not (kernel.template or kernel.rows or kernel.sizes)
    return kernel if plain and launches == 1 and step.buffers == kernel.params else None


def _parts(program: Program, step: Any) -> int | None:
    """How many instances share the rows of a step that adds up columns; None for any other step."""
    kernel = _own_kernel(program, step)
    if kernel is None or not one_fixed_reduction(kernel) or column_loop(kernel) is None:
        return None
    nest = kernel.nests[0]
    if len(nest.ranges) != 1 or len(nest.reduction_ranges) != 1 or not separable(nest):
        return None
    inner = nest.body[: nest.split]
    sums = all(
        i.args[0] == "sum" and i.dtype and i.dtype.is_floating_point for i in inner if i.op == "reduction"
    )
    (rows,) = nest.reduction_ranges
    exact = [n for n in range(FEWEST_PARTS, min(INSTANCES, rows // FEWEST_ROWS) + 1) if rows % n == 0]
    return exact[-1] if sums and exact else None


def _fits(program: Program, number: int, other: int) -> bool:
    """Whether the step `other` holds the rows whose columns the step `number` adds up, and loads the same matrix."""
    kernel = _own_kernel(program, program.steps[other])
    if number == other or kernel is None or not any(n.reduction_ranges for n in kernel.nests):
        return False
    (columns,) = program.kernels[program.steps[number].kernel].nests
    return holds_rows(kernel) and _same_rows(kernel, columns) and _shares_a_matrix(kernel, columns)


def _same_rows(kernel: Kernel, columns: LoopNest) -> bool:
    """Whether the kernel's points are those rows, and its rows those columns, each known before it runs."""
    loops = {(n.ranges, n.reduction_ranges) for n in kernel.nests}
    bound = any(i.op in ("scan", "indirect_index") for n in kernel.nests for i in n.body)
    rows, width = columns.reduction_ranges, columns.ranges
    return not bound and loops <= {(rows, ()), (rows, width)}


def _shares_a_matrix(kernel: Kernel, columns: LoopNest) -> bool:
    """Whether both load an element of each row and column from the same place."""
    loaded = {i.args[:2] for n in kernel.nests for i in n.body[: n.split] if i.op == "load"}
    shared = loaded & {i.args[:2] for i in turned(columns).body if i.op == "load"}
    return any({"i0", "r0"} <= {s.name for s in index.free_symbols} for _, index in shared)


def _may_join(program: Program, number: int, other: int) -> bool:
    """Whether both steps may run where the later one stands: neither needs the other, nor what is between."""
    first, last = sorted((number, other))
    reads, writes = (set(names) for names in step_accesses(program.steps[first], program.kernels))
    for step in program.steps[first + 1 : last + 1]:
        later_reads, later_writes = (set(names) for names in step_accesses(step, program.kernels))
        if writes & (later_reads | later_writes) or reads & later_writes:
            return False
    return True


def turned(nest: LoopNest) -> LoopNest:
    """The nest of columns as a nest of rows: its reduction loop is i0, and its columns are r0.

    Where the first loop is the part, it becomes 0: then the row of the part is the row.
    """
    column = symbol(f"i{len(nest.ranges) - 1}")
    moved = {symbol("r0"): symbol("i0"), column: symbol("r0")}
    if len(nest.ranges) == 2:
        moved[symbol("i0")] = 0 * symbol("i0")
    body = tuple(moved_to(i, moved) for i in nest.body[: nest.split])
    return replace(nest, ranges=nest.reduction_ranges, reduction_ranges=nest.ranges[-1:], body=body)


def _joined(program: Program, columns_step: Launch, rows_step: Launch, parts: int) -> Program:
    """The program with both steps where the later one stood: rows with sums of `parts` parts, then those added up."""
    columns, rows = (program.kernels[s.kernel] for s in (columns_step, rows_step))
    first, second, made = two_levels(columns, 0, parts, program.buffers)
    nest = _apart_from(first.nests[0], rows)
    nests = (*rows.nests, nest)
    written = {name for n in rows.nests for name in n.writes} | set(nest.writes)
    read = dict.fromkeys(r for n in nests for r in n.reads if r not in written)
    outputs = [n for n in dict.fromkeys(w for k in nests for w in k.writes) if n not in rows.internal]
    both = Kernel(f"{rows.name}_and_columns", nests, (*read, *outputs), rows.internal, template=TEMPLATE)
    kernels = {n: k for n, k in program.kernels.items() if n not in (columns.name, rows.name)}
    kernels |= {both.name: both, second.name: second}
    last = max(program.steps.index(columns_step), program.steps.index(rows_step))
    steps: list[Any] = []
    for number, step in enumerate(program.steps):
        if number == last:
            steps += [Launch(k.name, k.params, rows_step.stream) for k in (both, second)]
        elif step not in (columns_step, rows_step):
            steps.append(step)
    buffers: dict[str, Buffer] = {**program.buffers, **made}
    return program.with_(kernels=kernels, buffers=buffers, steps=tuple(steps))


def _apart_from(nest: LoopNest, rows: Kernel) -> LoopNest:
    """The nest with names for its values that no nest of `rows` has."""
    taken = {i.name for n in rows.nests for i in n.body}
    renamed = {i.name: Value(f"{i.name}_of_columns") for i in nest.body if i.name in taken and i.name}
    body = tuple(
        replace(i, name=renamed.get(i.name, i.name), args=tuple(rename(a, renamed) for a in i.args))
        for i in nest.body
    )
    return replace(nest, body=body)
