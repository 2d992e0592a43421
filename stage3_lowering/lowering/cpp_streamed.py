"""C++ that writes a result past the caches: into an array on the stack, and from there by whole lines.

Input: a nest of a kernel whose schedule names such results (streamed.py), and the loop that runs by blocks. The array
keeps the loop as it is, in plain SIMD code. An array of a few lines is never in memory: the compiler hands on the
registers that it was made in. Through one of 256 elements, which is, a layer norm took 1.15 times as long (AMD Zen 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_nest import Loop, Tile
from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.streamed import streamed_stores
from stage_contracts.kernel_schedule import CACHE_LINE
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText

# Of a step, at most: 4 registers of AVX-512, 8 of AVX2. A load may wait for a store that was just made, wherever their
# places in a page are alike: line by line such a layer norm took 1.4 times as long as through an array, by four .8.
LINES = 4
# After its loops, each thread waits until what it wrote so is in memory.
FENCE = "cutaway::streamed();"


@dataclass(frozen=True)
class Streams:
    """A loop whose results go past the caches runs by blocks; what stands before the loop over one, and behind it."""

    block: Tile
    before: list[str]  # an array for each result
    behind: list[str]  # the calls that write it


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


def through_lines(text: KernelText, writer: Statements, block: Tile, whole: bool) -> Streams:
    """What stands around the loop that runs over a block. The writer's stores go to the arrays.

    `whole`: a block is a step of whole lines; else more elements, and the last one may be shorter.
    """
    before, behind = [], []
    types = {i.name: i.dtype for i in writer.nest.body}
    for store in streamed_stores(writer.nest, text.schedule.streamed):
        buffer, index, value = store.args
        dtype, lines = types[value], text.fresh(f"{buffer}_lines")
        assert dtype is not None
        before.append(f"{MEMORY_TYPES[dtype.name]} {lines}[{block.size}];")
        element = writer.pairs.first if writer.pairs else block.loop
        writer.streamed[buffer] = f"{lines}[{element} - {block.block}]"
        start = f"&{buffer}[{cpp_index(block.at_block(index))}]"
        call = f"stream_lines({start}, {lines})" if whole else f"stream({start}, {lines}, {block.left})"
        behind.append(f"cutaway::{call};")
    return Streams(block, before, behind)


def streams_of_tile(text: KernelText, writer: Statements, tile: Tile) -> Streams | None:
    """Of the last tiled loop: whole lines where its blocks have some, else a block at once."""
    if not text.schedule.streamed:
        return None
    step = line_step(text, writer.nest, tile.loop)
    if not step:
        return through_lines(text, writer, tile, False)
    name = text.fresh(f"{tile.loop}_line")
    return through_lines(text, writer, Tile(tile.loop, name, step, tile.block, tile.stop, True), True)


def streams_of_row(text: KernelText, writer: Statements, longest: int) -> Streams | None:
    """Of a loop over a row: whole lines where the row has some, else blocks of the longest."""
    if not streamed_stores(writer.nest, text.schedule.streamed):
        return None
    name, step = text.fresh("r0_block"), line_step(text, writer.nest, "r0")
    row = Tile("r0", name, step or longest, "0", cpp_index(text.sizes["r0"]), False)
    return through_lines(text, writer, row, step > 0)


def with_streams(loops: Sequence[Loop], streams: Streams, tile: Tile) -> list[Loop]:
    """The loops, and around the last of them, which runs over a block, what its results need."""
    *outer, loop = loops
    loop = replace(loop, behind=streams.behind)
    if streams.block is tile:  # a tile at once
        outer[-1] = replace(outer[-1], inside=[*outer[-1].inside, *streams.before])
        return [*outer, loop]
    return [*outer, Loop(streams.block.over_blocks, streams.before), loop]
