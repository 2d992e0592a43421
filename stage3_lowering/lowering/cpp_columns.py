"""The C++ of a reduction across rows: several rows for each load and store of the accumulators.

Input: cpp_kernel.py's kernel whose SIMD lanes are an outer loop, and the loops of one section: over rows, then lanes.
One row at a time, half of the time goes to the accumulators: so four rows are added to one while it is in a register.
Of float32 that register is a float32, which a double then takes: .7 of the time, and less than half of eager's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_nest import SIMD, Loop, head, nested
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText

GROUP = 4  # rows that one pass over the lanes reduces: as many streams as the CPU follows at once
_ONE_BY_ONE = {"scan", "indirect_index", "random_bits"}


def in_groups(nest: LoopNest) -> bool:
    """Whether the section reduces GROUP rows at a time: it has so many, and each can be taken out of its loop."""
    size = nest.reduction_ranges[-1] if nest.reduction_ranges else 0
    ops = {instr.op for instr in nest.body[: nest.split]}
    return "reduction" in ops and not ops & _ONE_BY_ONE and (not isinstance(size, int) or size >= 2 * GROUP)


def rows_in_groups(
    text: KernelText, writer: Statements, loops: Sequence[Loop], part: tuple[str, str] | None = None
) -> list[str]:
    """The reduction loops and the lanes: the last reduction loop by GROUP, and what is left of it row by row.

    `part`: the names of the first row and of the end, where the one reduction loop runs in parts.
    """
    *outer, of_row, of_lane = loops
    row = str(writer.nest.reduction_variables[-1])
    size = text.sizes[row]
    starts, ends = [start for start, _ in writer.parts], [end for _, end in writer.parts]
    first, last = part or ("0", cpp_index(size))
    parts = text.schedule.split or 1
    even = isinstance(size, int) and size % (GROUP * parts) == 0
    whole = last if even else str(size - size % GROUP) if isinstance(size, int) and not part else ""
    block = text.fresh(f"{row}_block")
    lines = []
    if not whole:
        whole = text.fresh(f"{row}_whole")
        lines.append(f"const int64_t {whole} = {last} - ({last} - {first}) % {GROUP};")
    # A long body would stay a loop, and a loop in a lane has no lanes.
    rows = Loop(head(row, block, f"{block} + {GROUP}"), pragma=f"#pragma GCC unroll {GROUP}")
    group = nested([rows], [*of_row.inside, *of_lane.inside])
    lanes = Loop(of_lane.head, [*starts, *group, *ends], SIMD)
    lines += nested([Loop(head(block, first, whole, GROUP)), lanes])
    if not even:
        lanes = replace(lanes, inside=[*starts, *of_lane.inside, *ends])
        lines += nested([Loop(head(row, whole, last), of_row.inside), lanes])
    return nested(outer, lines)


def rows_in_parts(
    text: KernelText, writer: Statements, loops: Sequence[Loop], before: Sequence[str], after: Sequence[str]
) -> list[str]:
    """The one reduction of the kernel in parts of its rows, which threads share; then the parts in their order."""
    parts, columns, rows = (
        text.schedule.split,
        cpp_index(text.sizes[text.column]),
        cpp_index(text.sizes["r0"]),
    )
    of_lane = loops[-1]
    part, first, last = (text.fresh(name) for name in ("part", "first_row", "end_row"))
    arrays, keep, combine = [], [], []
    for accumulators, combined in writer.partials:
        elements = []
        for type_, accumulator in accumulators:
            name = text.fresh(f"{accumulator.partition('[')[0]}_of_parts")
            elements.append(f"{name}[{columns} * {part} + {text.column}]")
            arrays.append(f"cutaway::Row<{type_}> {name}({parts} * {columns});")
            keep.append(f"{elements[-1]} = {accumulator};")
        combine.append(combined(*elements))
    own = [
        f"const int64_t {first} = {part} * {rows} / {parts}, {last} = ({part} + 1) * {rows} / {parts};",
        *before,
        *rows_in_groups(text, writer, loops, (first, last)),
        *nested([Loop(of_lane.head, keep)]),
    ]
    each_part, blocks = head(part, 0, parts), text.over_blocks
    together = nested([Loop(each_part), Loop(of_lane.head, combine, SIMD)])
    shared = Loop(each_part, pragma="#pragma omp parallel for collapse(2)")
    return [*arrays, *nested([shared, blocks], own), *nested([blocks], [*before, *together, *after])]
