"""The pass `late_division`: rows divided by their sums and then multiplied are first multiplied, and then divided.

Input: a Program with blocks of rows (row_blocks.py). (e / s) @ v is (e @ v) / s, and attention's results are shorter
than its rows of weights. The idea is FlashAttention-2's (Dao, 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Product, Program, RowBlocks, Target, step_accesses
from stage_contracts.size_vars import is_open
from stage_contracts.symbolic import hinted

LEAST_GAIN = (
    3  # how many times fewer divisions it must be: a kernel more costs as much as those of a short row
)


def late_division(program: Program, target: Target) -> Program:
    """The program, each division of a block's rows after the product that reads them."""
    if target.name != "cpp":
        return program
    for number, step in enumerate(program.steps):
        if isinstance(step, RowBlocks):
            program = _in_block(program, number, step)
    return program


def _in_block(program: Program, number: int, step: RowBlocks) -> Program:
    for place, inner in enumerate(step.steps):
        last = _divided(program.kernels[inner.kernel]) if isinstance(inner, Launch) else None
        reader = _reader(program, step, place, last) if last else None
        if last is None or reader is None:
            continue
        assert isinstance(inner, Launch)
        found = _without_division(program, step, inner, last)
        if found is not None:
            return _with_quotient(program, number, place, reader, last, *found)
    return program


@dataclass(frozen=True)
class _Division:
    """The last nest of a kernel: `out[at] = row[...] / total[of]`, where the kernel made `row` and nobody else reads
    it."""

    row: str
    total: str
    of: Any
    out: str
    at: Any
    nest: LoopNest
    quotient: Instr


def _divided(kernel: Kernel) -> _Division | None:
    *_, nest = kernel.nests
    if kernel.rows or kernel.template or [i.op for i in nest.body] != ["load", "load", "div", "store"]:
        return None
    loads = {i.name: i for i in nest.body[:2]}
    quotient, store = nest.body[2:]
    if {*quotient.args} != {Value(name) for name in loads} or store.args[2] != quotient.name:
        return None
    row, total = (loads[name] for name in quotient.args)
    inside = {*nest.loop_variables[1:], *nest.reduction_variables}
    if row.args[0] not in kernel.internal or total.args[1].free_symbols & inside:
        return None
    return _Division(row.args[0], total.args[0], total.args[1], store.args[0], store.args[1], nest, quotient)


def _reader(program: Program, step: RowBlocks, place: int, last: _Division) -> int | None:
    """The place of the product that multiplies the quotients by fewer columns; None where anyone else reads them."""
    launch = step.steps[place]
    assert isinstance(launch, Launch)
    rows = launch.buffers[program.kernels[launch.kernel].params.index(last.out)]
    readers = [
        later
        for later, inner in enumerate(step.steps)
        if later > place and rows in step_accesses(inner, program.kernels)[0]
    ]
    if rows not in step.local or len(readers) != 1:
        return None
    product = step.steps[readers[0]]
    if not isinstance(product, Product) or product.adds or product.b.name == rows or not product.out.shape:
        return None
    columns, width = product.out.shape[1], program.buffers[rows].meta.shape[1]
    fewer = is_open(columns) and is_open(width) or LEAST_GAIN * hinted(columns) <= hinted(width)
    return readers[0] if fewer else None


def _without_division(
    program: Program, step: RowBlocks, launch: Launch, last: _Division
) -> tuple[Kernel, Launch, str] | None:
    """The kernel that stores the rows as they are, its launch, and the buffer of their sums; None where it cannot."""
    kernel = program.kernels[launch.kernel]
    nests = tuple(_redirected(nest, last) for nest in kernel.nests[:-1])
    if _uses(nests, last.row) or _uses(nests, last.out) != ["store"]:
        return None
    kernel = replace(kernel, nests=nests, internal=tuple(n for n in kernel.internal if n != last.row))
    if last.total in kernel.internal:
        if "load" in _uses(nests, last.total):
            return None
        total = _free_name(last.total, program)
        kernel, launch = (
            _giving_sums(kernel, last.total, total),
            replace(launch, buffers=(*launch.buffers, total)),
        )
    else:
        total = launch.buffers[kernel.params.index(last.total)]
    if kernel.schedule is not None:  # it names a row that is too long for the stack
        scratch = tuple(name for name in kernel.schedule.scratch if name in kernel.internal)
        kernel = replace(kernel, schedule=replace(kernel.schedule, scratch=scratch))
    return (kernel, launch, total) if _may_run_in_place(kernel, launch, last.out) else None


def _touched(nests: Iterable[LoopNest]) -> list[tuple[str, str]]:
    return [(i.op, i.args[0]) for nest in nests for i in nest.body if i.op in ("load", "store")]


def _uses(nests: Iterable[LoopNest], name: str) -> list[str]:
    """How the nests use a buffer, in order."""
    return [op for op, of in _touched(nests) if of == name]


def _giving_sums(kernel: Kernel, internal: str, total: str) -> Kernel:
    """The kernel with a param for the sums that it kept to itself: one element for each row of the block."""
    nests = tuple(_stored_elsewhere(nest, internal, total, symbol("i0")) for nest in kernel.nests)
    kept = tuple(name for name in kernel.internal if name != internal)
    return replace(kernel, nests=nests, internal=kept, params=(*kernel.params, total))


def _may_run_in_place(kernel: Kernel, launch: Launch, out: str) -> bool:
    own = dict(zip(kernel.params, launch.buffers, strict=True))
    over = (name for name in kernel.params if name != out and own[name] == own[out])
    return all(kernel.may_write_over(out, name) for name in over)


def _redirected(nest: LoopNest, last: _Division) -> LoopNest:
    """The nest, storing the row where the quotients went, if it has the loops of the nest that divided."""
    if (nest.ranges, nest.reduction_ranges) != (last.nest.ranges, last.nest.reduction_ranges):
        return nest
    return _stored_elsewhere(nest, last.row, last.out, last.at)


def _stored_elsewhere(nest: LoopNest, name: str, to: str, at: Any) -> LoopNest:
    body = tuple(
        replace(i, args=(to, at, *i.args[2:])) if i.op == "store" and i.args[0] == name else i
        for i in nest.body
    )
    return replace(nest, body=body)


def _with_quotient(
    program: Program,
    number: int,
    place: int,
    reader: int,
    last: _Division,
    kernel: Kernel,
    launch: Launch,
    total: str,
) -> Program:
    """The program with the kernel that divides after the product."""
    step = program.steps[number]
    assert isinstance(step, RowBlocks)
    product = step.steps[reader]
    assert isinstance(product, Product)
    buffers, local, of = dict(program.buffers), step.local, last.of
    if total not in buffers:
        meta = buffers[last.out].meta.with_(shape=(step.block, 1), strides=(1, 1))
        buffers[total] = Buffer(total, meta, "local")
        local, of = (*local, total), symbol("i0")
    out, name = product.out, _free_name("divided_by_sum", program)
    shape, (down, along) = out.shape or (), out.strides or ()
    index = out.offset + symbol("i0") * down + symbol("i1") * along
    dtype = last.quotient.dtype
    body = (
        Instr("value", "load", (out.name, index), dtype, last.quotient.origins),
        Instr("sum", "load", (total, of), dtype, last.quotient.origins),
        replace(last.quotient, name="quotient", args=(Value("value"), Value("sum"))),
        Instr("", "store", (out.name, index, Value("quotient")), dtype, last.quotient.origins),
    )
    ranges = (last.nest.ranges[0], shape[1])
    nest = replace(last.nest, name=name, ranges=ranges, reduction_ranges=(), body=body)
    params = (out.name, total)
    kernels = {**program.kernels, kernel.name: kernel, name: Kernel(name, (nest,), params)}
    steps: Sequence[Any] = [*step.steps]
    steps = (
        *steps[:place],
        launch,
        *steps[place + 1 : reader + 1],
        Launch(name, params),
        *steps[reader + 1 :],
    )
    block = replace(step, steps=tuple(steps), local=local)
    return program.with_(
        kernels=kernels, buffers=buffers, steps=(*program.steps[:number], block, *program.steps[number + 1 :])
    )


def _free_name(name: str, program: Program) -> str:
    while name in program.buffers or name in program.kernels:
        name += "_"
    return name
