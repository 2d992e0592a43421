"""The C++ of a kernel that reduces: the loops over points, and in them a section for each of its nests.

Input: cpp_kernel.py's kernel. Along rows, the SIMD lanes are in the reduction loop; across rows (cpp_columns.py), an
outer loop runs by blocks, with a lane and an accumulator for each point of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stage3_lowering.lowering.cpp_accumulators import accumulators
from stage3_lowering.lowering.cpp_columns import rows_in_groups, rows_in_parts
from stage3_lowering.lowering.cpp_kernel import KernelText, block_of, in_lanes
from stage3_lowering.lowering.cpp_lanes import row_lanes
from stage3_lowering.lowering.cpp_nest import SIMD, Loop, Nest, head, nested, stacked, under
from stage3_lowering.lowering.cpp_pairs import in_pairs
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.cpp_streamed import streams_of_row
from stage3_lowering.lowering.prefetch import asking
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest


def over_points(text: KernelText) -> Nest:
    """The loops over points, around all sections."""
    order, split = text.schedule.order, text.schedule.split
    # memory of the heap is taken once per thread, where the rows' loop stands right inside it
    own = [row for row in text.rows if row.startswith("cutaway::Row") and order and not text.column]
    rows = [row for row in text.rows if row not in own]
    body = [*rows, *(line for nest in text.kernel.nests for line in _section(text, nest))]
    if text.column and split:  # its parts stand around the blocks
        return Nest([], body=body)
    loops = [Loop(text.head(v)) for v in order if v != text.column]
    loops += [text.over_blocks] if text.column else []
    return Nest(loops, body=body, threads=text.threads(len(loops)), own=own)


def _section(text: KernelText, nest: LoopNest) -> list[str]:
    """One pass: the reduction loops with what runs in them, and what follows once per point."""
    rows = [str(v) for v in nest.reduction_variables]
    lanes = [text.column] * bool(text.column)
    writer = Statements(nest, text, [*rows, *lanes])
    if not rows:
        return _once(text, writer, text.levels(writer))
    writer.pairs = text.pairs(nest, rows)
    writer.streams = streams_of_row(text, writer, block_of(nest))
    writer.lanes = row_lanes(text, nest)
    writer.side_by_side = None if writer.lanes else accumulators(text, nest)
    before, *inside = text.levels(writer, 0, nest.split)
    inside[-1] = in_pairs(writer, inside[-1])
    loops = stacked([text.head(v) for v in rows] + [text.over_lanes for _ in lanes], inside)
    loops = under(text.simd(writer, text.column) if lanes else _simd(text, writer), loops, -1)
    if text.schedule.split and not lanes:
        return [*before, *_in_parts(text, writer, loops), *_after(text, writer)]
    before += [*writer.accumulators, *_starts(text, writer)]
    if text.schedule.split:
        after = _after(text, writer)
        return rows_in_parts(text, writer, loops, before, after)
    if lanes and writer.parts:
        body = rows_in_groups(text, writer, loops)
    else:
        body = _by_blocks(text, writer, loops, "0", cpp_index(text.sizes["r0"]))
    return [*before, *body, *_after(text, writer)]


# ---- around the reduction loops ------------------------------------------------------------------------


def _starts(text: KernelText, writer: Statements) -> list[str]:
    """Where the accumulators begin; of lanes, each in a loop over them."""
    lanes = text.column and writer.starts
    return nested([Loop(text.over_lanes, writer.starts)]) if lanes else writer.starts


def _after(text: KernelText, writer: Statements) -> list[str]:
    """What follows the reduction loops, of their results."""
    nest, lanes = writer.nest, [text.column] * bool(text.column)
    ends = Statements(nest, text, lanes, writer)
    ends.depth = {i.name: len(lanes) for i in nest.body if i.op == "reduction"}
    levels = text.levels(ends, nest.split)
    levels[-1] = [*writer.results, *levels[-1]]
    return _once(text, ends, levels)


def _once(text: KernelText, writer: Statements, levels: list[list[str]]) -> list[str]:
    """The statements that run once per point: as they are, or in a loop over the lanes."""
    before, *inside = levels
    if not inside or not any(levels):
        return before
    return [
        *writer.arrays,
        *before,
        *nested([Loop(text.over_lanes, inside[0], text.simd(writer, text.column))]),
    ]


def _simd(text: KernelText, writer: Statements) -> str:
    """SIMD over the innermost reduction loop: its lanes are combined in one order, which the compiler fixes."""
    if not in_lanes(writer.nest):
        return ""
    reduced = [f" reduction({of}: {', '.join(names)})" for of, names in writer.reductions.items()]
    checks = text.checks and writer.checked
    return SIMD + "".join(reduced) + " reduction(|: bad_index)" * bool(checks)


# ---- along rows ----------------------------------------------------------------------------------------


def _in_parts(text: KernelText, writer: Statements, loops: Sequence[Loop]) -> list[str]:
    """The one reduction of the kernel in parts, which threads share. The parts are combined in a fixed order."""
    parts, size, part = text.schedule.split, cpp_index(text.sizes["r0"]), text.fresh("part")
    arrays, keep, combine = [], [], []
    for ((type_, accumulator),), combined in writer.partials:
        name = text.fresh(f"{accumulator}_parts")
        arrays.append(f"{type_} {name}[{parts}];")
        keep.append(f"{name}[{part}] = {accumulator};")
        combine.append(combined(f"{name}[{part}]"))
    first, last = f"{part} * {size} / {parts}", f"({part} + 1) * {size} / {parts}"
    own = [*writer.starts, *_by_blocks(text, writer, loops, first, last), *keep]
    each = Loop(head(part, 0, parts), own, "#pragma omp parallel for")
    return [*arrays, *nested([each]), *writer.starts, *nested([Loop(each.head, combine)])]


def _by_blocks(
    text: KernelText, writer: Statements, loops: Sequence[Loop], first: str, last: str
) -> list[str]:
    """The reduction loops from `first` to `last`, in blocks where float sums or streams ask for it."""
    streams = writer.streams
    if not (writer.parts or streams):
        return _row(writer, loops, first, last)
    size = writer.nest.reduction_ranges[0]
    step = streams.block.size if streams else block_of(writer.nest)
    block = streams.block.block if streams else text.fresh("r0_block")
    end, stop, count = f"{block} + {step}", [], str(step)
    if text.schedule.split or not isinstance(size, int) or size % step:
        end = text.fresh("r0_end")
        stop = [f"const int64_t {end} = {block} + {step} < {last} ? {block} + {step} : {last};"]
        count = f"{end} - {block}"
    row = _row(writer, loops, block, end)
    asks = _next_row(text, writer, block, count)
    lines, behind = (streams.before, streams.behind) if streams else ([], [])
    starts, adds = [start for start, _ in writer.parts], [add for _, add in writer.parts]
    return nested(
        [Loop(head(block, first, last, step))], [*stop, *lines, *asks, *starts, *row, *behind, *adds]
    )


def _row(writer: Statements, loops: Sequence[Loop], first: str, last: str) -> list[str]:
    """The loop over the elements from `first` to `last`, and those inside it."""
    row, *inner = loops
    if writer.lanes:
        return writer.lanes.loop(first, last, row.inside)
    if writer.side_by_side:
        return writer.side_by_side.loop(first, last, row.inside)
    made = writer.pairs.head(first, last) if writer.pairs else head("r0", first, last)
    return nested([replace(row, head=made), *inner])


def _next_row(text: KernelText, writer: Statements, block: str, count: str) -> list[str]:
    """Asks memory for the same block of the next row, where this is the pass that does."""
    nest, prefetch = writer.nest, text.schedule.prefetch
    if not prefetch:
        return []
    row = symbol(text.schedule.order[-1])
    asked = asking(text.kernel, str(row))
    here = {buffer for buffer in prefetch if asked.get(buffer) is nest}
    loads = [i for i in nest.body[: nest.split] if i.op == "load" and i.args[0] in here]
    next_block = {row: row + 1, symbol("r0"): symbol(block)}
    places = {i.args[0]: cpp_index(i.args[1].subs(next_block)) for i in loads}
    return [f"cutaway::prefetch(&{buffer}[{place}], {count});" for buffer, place in places.items()]
