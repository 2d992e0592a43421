"""C++ that writes a result past the caches: into an array on the stack, and from there by whole lines.

Input: a nest of a kernel whose schedule names such results (streamed.py), and the loop that runs by blocks. The array
keeps the loop as it is, in plain SIMD code. An array of a few lines is never in memory: the compiler hands on the
registers that it was made in. Through one of 256 elements, which is, a layer norm took 1.15 times as long (AMD Zen 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_ops import CPP_TYPES
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index
from stage3_lowering.lowering.streamed import streamed_stores
from stage_contracts.index_expr import symbol
from stage_contracts.kernel_schedule import CACHE_LINE
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_loops import KernelText

# Of a step, at most: 4 registers of AVX-512, 8 of AVX2. A load may wait for a store that was just made, wherever their
# places in a page are alike: line by line such a layer norm took 1.4 times as long as through an array, by four .8.
LINES = 4
TEAM, SHARED = "#pragma omp parallel for", "#pragma omp for"


def line_step(text: KernelText, nest: LoopNest, loop: str) -> int:
    """How many elements make whole lines of each result that the nest writes so, up to LINES; 0 if a rest is left."""
    types = {i.name: i.dtype for i in nest.body}
    widths = [of.itemsize for s in streamed_stores(nest, text.schedule.streamed) if (of := types[s.args[2]])]
    size = text.sizes[loop]
    if not widths or not isinstance(size, int):
        return 0
    tile = dict(text.schedule.tiles).get(loop, size)
    steps = [CACHE_LINE * lines // max(widths) for lines in (LINES, LINES // 2, 1)]
    whole = [step for step in steps if size % step == tile % step == step * min(widths) % CACHE_LINE == 0]
    return max(whole, default=0)


def through_lines(
    text: KernelText, writer: Statements, nest: LoopNest, loop: str, block: str, size: int
) -> tuple[list[str], list[str]]:
    """What stands before the loop that runs over a block, and what behind it. The writer's stores go to the arrays.

    A block is a step of whole lines, or more elements where the last one may be shorter.
    """
    before, behind = [], []
    types = {i.name: i.dtype for i in nest.body}
    left = f"{cpp_index(text.sizes[loop])} - {block}"
    for store in streamed_stores(nest, text.schedule.streamed):
        buffer, index, value = store.args
        dtype, lines = types[value], text.fresh(f"{buffer}_lines")
        assert dtype is not None
        before.append(f"{CPP_TYPES[dtype.name]} {lines}[{size}];")
        writer.streamed[buffer] = f"{lines}[{writer.pairs.first if writer.pairs else loop} - {block}]"
        start = cpp_index(index.subs(symbol(loop), symbol(block)))
        whole = size == line_step(text, nest, loop)
        call = (
            f"stream_lines(&{buffer}[{start}], {lines})"
            if whole
            else f"stream(&{buffer}[{start}], {lines}, {left})"
        )
        behind.append(f"cutaway::{call};")
    return before, behind


def with_fence(lines: list[str]) -> list[str]:
    """The kernel's loops, after which each thread waits until what it wrote so is in memory."""
    fence = "cutaway::streamed();"
    team = next((k for k, line in enumerate(lines) if line.startswith("#pragma omp parallel")), None)
    if team is None:
        return [*lines, fence]
    head, rest = lines[team], lines[team + 1 :]
    if not head.startswith(TEAM):  # a team already, in braces
        return [*lines[:-1], INDENT + fence, lines[-1]]
    collapse = head.partition(" collapse(")[2].partition(")")[0]
    shared = f"{SHARED}{f' collapse({collapse})' if collapse else ''} nowait"
    alone = head.replace(TEAM, "#pragma omp parallel", 1).replace(f" collapse({collapse})", "")
    return [*lines[:team], alone, "{", *(INDENT + line for line in [shared, *rest, fence]), "}"]
