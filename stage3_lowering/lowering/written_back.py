"""New values of inputs that no kernel may write at once: on a GPU copied at the end of the program, by one table.

Input: a Program with `updates`. A norm's weight is read after the kernel that updates it, so its new value waits in a
buffer of its own. The caller would copy each such value, at 10 to 20 us of the host; a row of a table costs none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.launch_tables import LAST, Row, table_of
from stage3_lowering.lowering.triton_tables import ALIGNMENT, fits_triton
from stage_contracts.device import CPU
from stage_contracts.in_place import in_place
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value, buffer_refs
from stage_contracts.program import Kernel, Launch, Program, Return, Target

FEW = 4  # values for which a kernel more is not worth its build


def written_back(program: Program, target: Target) -> Program:
    """The program, with rows that write the new values of inputs where its kernels cannot."""
    if program.device == CPU:
        return program
    outs = _left(program)
    rows = [_row(out, program) for out in outs]
    if len(rows) <= FEW:
        return program
    written = {out: row.step.buffers[1] for out, row in zip(outs, rows, strict=True)}
    buffers = dict(program.buffers)
    for out, new in written.items():
        buffers[new] = replace(buffers[out], name=new)
        buffers[out] = replace(buffers[out], role="temporary")
    program = program.with_(buffers=buffers)
    kernels, launches = dict(program.kernels), []
    for together in _tables(rows):
        (first, *others) = together
        kernel, launch = table_of(together, program) if others else (first.kernel, first.step)
        kernels[kernel.name] = kernel
        launches.append(launch)
    values = tuple(_renamed(value, written) for value in program.return_step.values)
    updates = {written.get(out, out): into for out, into in program.updates.items()}
    steps = (*program.steps[:-1], *launches, Return(values))
    return program.with_(kernels=kernels, steps=steps, updates=updates)


def _left(program: Program) -> list[str]:
    """The results that are new values of inputs, and that the caller would copy."""
    at_once = in_place(program)
    returned = Counter(ref.name for ref in buffer_refs(program.return_step.values))
    alone = {out: into for out, into in program.updates.items() if returned[out] == 1 and not returned[into]}
    return [out for out, into in alone.items() if out not in at_once and _is_one_row(out, into, program)]


def _is_one_row(out: str, into: str, program: Program) -> bool:
    """Whether both are one block of memory each, with the elements in the same places."""
    meta, old = program.buffers[out].meta, program.buffers[into].meta
    alike = meta == old.with_(requires_grad=False) and meta.is_known and meta.is_contiguous
    return alike and meta.numel > 0 and fits_triton(_copy(out, into, program))


def _row(out: str, program: Program) -> Row:
    kernel = _copy(out, f"{out}_written", program)
    return Row(0, Launch(kernel.name, kernel.params), kernel, (0, 0), LAST, kernel.nests[0].ranges)


def _copy(source: str, destination: str, program: Program) -> Kernel:
    """The kernel that copies one buffer, as one long row."""
    meta, at = program.buffers[source].meta, symbol("i0")
    body = (
        Instr("value", "load", (source, at), meta.dtype),
        Instr("", "store", (destination, at, Value("value")), None),
    )
    nest = LoopNest(destination, (meta.numel,), (), body)
    return Kernel(f"write_back_{source}", (nest,), (source, destination))


def _tables(rows: Sequence[Row]) -> list[list[Row]]:
    """One for each dtype, and for the lengths that loads of several elements need: one odd row makes all narrow."""
    tables: dict[Any, list[Row]] = {}
    for row in rows:
        load = row.kernel.nests[0].body[0]
        tables.setdefault((load.dtype, row.numbers[0] % ALIGNMENT == 0), []).append(row)
    return [*tables.values()]


def _renamed(value: Any, written: dict[str, str]) -> Any:
    return replace(value, name=written.get(value.name, value.name)) if isinstance(value, BufferRef) else value
