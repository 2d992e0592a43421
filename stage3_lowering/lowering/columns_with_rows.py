"""The pass `columns_with_rows`: sums over columns are made by the kernel that has each row in registers anyway.

Input: a Program for a GPU, before its kernels have schedules. The gradient of a norm is one number per element, and of
its gain one sum per column; apart, two kernels read the same matrices. Together, an instance takes a part of the rows
one by one and keeps a row of sums; a second kernel adds up the parts. triton_columns_with_rows.py writes the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
# Of a row: shorter ones are slower so, by measurement. GPT-2's norms, rows of 768 on an H200: 28 and 37 us in one
# kernel, about 17 in two. Four rows at a time, by 16 warps, took 28 and 64.
FEWEST_COLUMNS = 2048


def columns_with_rows(program: Program, target: Target) -> Program:
    """The program, each such pair of kernels as one, and a kernel that adds up what its instances found."""
    if target.name != "triton":
        return program
    facts = _Facts()
    while (joined := _one_more(program, facts)) is not None:
        program = joined
    return program


@dataclass(frozen=True)
class _Rows:
    """What a kernel does of each row: its loops, and the matrices' elements that it loads."""

    loops: frozenset[tuple[tuple, tuple]]
    loaded: frozenset[tuple[str, Any]]


@dataclass(frozen=True)
class _Columns:
    """The same of a kernel that adds up columns, with its loops turned, and how many instances share the rows."""

    loops: frozenset[tuple[tuple, tuple]]
    loaded: frozenset[tuple[str, Any]]
    parts: int

    def goes_with(self, rows: _Rows) -> bool:
        return rows.loops <= self.loops and not self.loaded.isdisjoint(rows.loaded)


class _Facts:
    """What was found out, each once: of a kernel by its name, of a step with the step itself."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, str], Any] = {}
        self.steps: dict[int, tuple[Any, set[str], set[str]]] = {}

    def of_kernel(self, find: Callable[[Kernel], Any], kernel: Kernel) -> Any:
        if (find, kernel.name) not in self.known:
            self.known[find, kernel.name] = find(kernel)
        return self.known[find, kernel.name]

    def of_step(self, step: Any, program: Program) -> tuple[set[str], set[str]]:
        """(buffers read, buffers written)"""
        if id(step) not in self.steps:
            reads, writes = step_accesses(step, program.kernels)
            self.steps[id(step)] = step, {*reads}, {*writes}
        return self.steps[id(step)][1:]


def _one_more(program: Program, facts: _Facts) -> Program | None:
    """The program with the first pair joined; None where there is no pair."""
    launches = Counter(step.kernel for step in program.steps if isinstance(step, Launch))
    own = [(n, k) for n, step in enumerate(program.steps) if (k := _own_kernel(program, step, launches))]
    rows = [(other, found) for other, kernel in own if (found := facts.of_kernel(_rows, kernel))]
    for number, kernel in own:
        if (columns := facts.of_kernel(_columns, kernel)) is None:
            continue
        for other, each in rows:
            if number != other and columns.goes_with(each) and _may_join(program, number, other, facts):
                return _joined(program, program.steps[number], program.steps[other], columns.parts)
    return None


def _own_kernel(program: Program, step: Any, launches: Mapping[str, int]) -> Kernel | None:
    """The kernel that only this step launches, its loops as they are."""
    if not isinstance(step, Launch) or launches[step.kernel] != 1:
        return None
    kernel = program.kernels[step.kernel]
    plain = not (kernel.template or kernel.rows or kernel.sizes)
    return kernel if plain and step.buffers == kernel.params else None


def _columns(kernel: Kernel) -> _Columns | None:
    """None where it does not only add up columns, or the rows cannot be shared evenly."""
    if not one_fixed_reduction(kernel) or column_loop(kernel) is None:
        return None
    (nest,) = kernel.nests
    if len(nest.ranges) != 1 or len(nest.reduction_ranges) != 1 or not separable(nest):
        return None
    if nest.ranges[0] < FEWEST_COLUMNS:
        return None
    inner = nest.body[: nest.split]
    sums = all(
        i.args[0] == "sum" and i.dtype and i.dtype.is_floating_point for i in inner if i.op == "reduction"
    )
    (rows,) = nest.reduction_ranges
    exact = [n for n in range(FEWEST_PARTS, min(INSTANCES, rows // FEWEST_ROWS) + 1) if rows % n == 0]
    if not sums or not exact:
        return None
    loops = frozenset([(nest.reduction_ranges, ()), (nest.reduction_ranges, nest.ranges)])
    return _Columns(loops, _elements(turned(nest)), exact[-1])


def _rows(kernel: Kernel) -> _Rows | None:
    """None where it does not hold rows, or their places are known only while it runs."""
    bound = any(i.op in ("scan", "indirect_index") for n in kernel.nests for i in n.body)
    if bound or not any(n.reduction_ranges for n in kernel.nests) or not holds_rows(kernel):
        return None
    loaded = frozenset().union(*(_elements(n) for n in kernel.nests))
    return _Rows(frozenset((n.ranges, n.reduction_ranges) for n in kernel.nests), loaded)


def _elements(nest: LoopNest) -> frozenset[tuple[str, Any]]:
    """The elements of matrices that are loaded at each row and column: a buffer, and where."""
    loads = (i.args[:2] for i in nest.body[: nest.split] if i.op == "load")
    return frozenset(at for at in loads if {"i0", "r0"} <= {s.name for s in at[1].free_symbols})


def _may_join(program: Program, number: int, other: int, facts: _Facts) -> bool:
    """Whether both steps may run where the later one stands: neither needs the other, nor what is between."""
    first, last = sorted((number, other))
    reads, writes = facts.of_step(program.steps[first], program)
    for step in program.steps[first + 1 : last + 1]:
        later_reads, later_writes = facts.of_step(step, program)
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
