"""The C++ of a reduction across rows: several rows for each load and store of the accumulators.

Input: cpp_loops.py's kernel whose SIMD lanes are an outer loop, the loops of one section, and its statements by level.
One row at a time, half of the time goes to the accumulators: so four rows are added to one while it is in a register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_ops import REDUCTIONS
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index, nested
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_loops import KernelText

GROUP = 4  # rows that one pass over the lanes reduces: as many streams as the CPU follows at once
_ONE_BY_ONE = {"scan", "indirect_index", "random_bits"}


def in_groups(nest: LoopNest) -> bool:
    """Whether the section reduces GROUP rows at a time: it has so many, and each can be taken out of its loop."""
    size = nest.reduction_ranges[-1] if nest.reduction_ranges else 0
    ops = {instr.op for instr in nest.body}
    return "reduction" in ops and not ops & _ONE_BY_ONE and (not isinstance(size, int) or size >= 2 * GROUP)


def rows_in_groups(
    text: KernelText, writer: Statements, loops: list[str], heads: list[str], levels: list[list[str]],
    part: tuple[str, str] | None = None,
) -> list[str]:  # fmt: skip
    """The reduction loops and the lanes: the last reduction loop by GROUP, and what is left of it row by row.

    `heads` are of the reduction loops and of the lanes; `levels[k]` stands inside k of them. `part`: the names of the
    first row and of the end, where the one reduction loop runs in parts.
    """
    *outer, _, lanes = heads
    *around, of_row, of_lane = levels
    row, size = loops[-1], text.sizes[loops[-1]]
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
    each = f"for (int64_t {row} = {block}; {row} < {block} + {GROUP}; ++{row}) {{"
    group = [*starts, each, *(INDENT + line for line in (*of_row, *of_lane)), "}", *ends]
    by_group = f"for (int64_t {block} = {first}; {block} < {whole}; {block} += {GROUP}) {{"
    simd = {1: "#pragma omp simd"}
    lines += nested([by_group, lanes], [[], [], group], simd)
    if not even:
        by_row = f"for (int64_t {row} = {whole}; {row} < {last}; ++{row}) {{"
        lines += nested([by_row, lanes], [[], of_row, [*starts, *of_lane, *ends]], simd)
    return nested(outer, [*around[:-1], [*around[-1], *lines]], {})


def rows_in_parts(
    text: KernelText, writer: Statements, loops: list[str], heads: list[str], levels: list[list[str]],
    before: list[str], after: list[str],
) -> list[str]:  # fmt: skip
    """The one reduction of the kernel in parts of its rows, which threads share; then the parts in their order."""
    parts, columns = text.schedule.split, cpp_index(text.sizes[text.column])
    rows, lanes = cpp_index(text.sizes[loops[0]]), heads[-1]
    part, first, last = (text.fresh(name) for name in ("part", "first_row", "end_row"))
    arrays, keep, combine = [], [], []
    for type_, accumulator, kind in writer.partials:
        name = text.fresh(f"{accumulator.partition('[')[0]}_of_parts")
        element = f"{name}[{columns} * {part} + {text.column}]"
        arrays.append(f"cutaway::Row<{type_}> {name}({parts} * {columns});")
        keep.append(f"{element} = {accumulator};")
        combine.append(REDUCTIONS[kind][0].format(acc=accumulator, value=element, T=type_))
    own = [
        f"const int64_t {first} = {part} * {rows} / {parts}, {last} = ({part} + 1) * {rows} / {parts};",
        *before,
        *rows_in_groups(text, writer, loops, heads, levels, (first, last)),
        *nested([lanes], [[], keep], {}),
    ]
    each_part = f"for (int64_t {part} = 0; {part} < {parts}; ++{part}) {{"
    together = nested([each_part, lanes], [[], [], combine], {1: "#pragma omp simd"})
    return [
        *arrays,
        *nested([each_part, text.block_head], [[], [], [text.block_end, *own]],
                {0: "#pragma omp parallel for collapse(2)"}),
        *nested([text.block_head], [[], [text.block_end, *before, *together, *after]], {}),
    ]  # fmt: skip
