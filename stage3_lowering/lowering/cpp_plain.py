"""The C++ of a pointwise kernel whose loops run as they are, one inside the other; and the values of its columns.

Input: cpp_kernel.py's kernel, and its nest or a piece of it. The last loop's steps are SIMD lanes, or pairs of halves;
threads share the first ones. Values that each column has (column_values.py) come from a loop before the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stage3_lowering.lowering.column_values import ColumnValues
from stage3_lowering.lowering.cpp_nest import SIMD, Loop, Nest, nested, stacked
from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_pairs import in_pairs
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText


def plain(text: KernelText, nest: LoopNest) -> Nest:
    """A loop for each of the schedule's order."""
    writer = Statements(nest, text, text.schedule.order)
    writer.pairs = text.pairs(nest, text.schedule.order)
    return _loops(text, writer)


def with_columns(text: KernelText, nest: LoopNest, found: ColumnValues) -> Nest:
    """The values of each column, in a loop before the others, and the loops that read them."""
    writer, first = columns_first(text, nest, found)
    loops = _loops(text, writer)
    return replace(loops, before=[*first, *loops.before])


def columns_first(text: KernelText, nest: LoopNest, found: ColumnValues) -> tuple[Statements, list[str]]:
    """The writer of the other loops, which has the values of each column in arrays; and the loop that fills these."""
    order = text.schedule.order
    column, size = order[-1], cpp_index(text.sizes[order[-1]])
    before = Statements(nest, text, [column])
    body = [line for instr in found.body for line in before.write(instr)]
    writer = Statements(nest, text, order, before)
    arrays = []
    for instr in found.kept:
        name = text.fresh(f"{instr.name}_columns")
        arrays.append(f"{MEMORY_TYPES[writer.types[instr.name].name]} {name}[{size}];")
        body.append(f"{name}[{column}] = {writer.text[instr.name]};")
        writer.text[instr.name] = f"{name}[{column}]"
        writer.depth[instr.name] = len(order)
    writer.elsewhere = found.only
    return writer, [*arrays, *nested([Loop(text.head(column), body, SIMD)])]


def _loops(text: KernelText, writer: Statements) -> Nest:
    order, levels = text.schedule.order, text.levels(writer)
    if not order:
        return Nest([], levels[0])
    loops = stacked([text.head(v) for v in order], levels[1:])
    first, end = text.bounds[order[-1]]
    loops[-1] = last_loop(text, writer, loops[-1], str(first), cpp_index(end))
    # the last one stays whole
    threads = text.threads(max(1, min(next_to_each_other(levels), len(order) - 1)))
    if threads and len(order) == 1:  # one loop for both
        loops, threads = [replace(loops[0], pragma="")], replace(threads, simd=True)
    return Nest(loops, levels[0], threads=threads)


def last_loop(text: KernelText, writer: Statements, loop: Loop, first: str, end: str) -> Loop:
    """The loop whose steps are lanes; over two halves at a time where the writer made pairs."""
    pragma = text.simd(writer, text.schedule.order[-1])
    made = replace(loop, pragma=pragma, inside=in_pairs(writer, list(loop.inside)))
    return replace(made, head=writer.pairs.head(first, end)) if writer.pairs else made


def next_to_each_other(levels: Sequence[Sequence[str]]) -> int:
    """How many of the loops have no statement between them: so many can be shared as one."""
    return next((k for k in range(1, len(levels) - 1) if levels[k]), len(levels) - 1)
