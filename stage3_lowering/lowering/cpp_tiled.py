"""The C++ of a pointwise kernel whose last loops run tile by tile.

Input: cpp_kernel.py's kernel, and its nest or a piece of it. The loops over blocks stand inside those that run as they
are, and inside them those over a block's elements. Before these stands what they find done (cpp_tile_starts.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_nest import Nest, Tile, stacked
from stage3_lowering.lowering.cpp_plain import columns_first, last_loop, next_to_each_other
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.cpp_streamed import Streams, streams_of_tile, with_streams
from stage3_lowering.lowering.cpp_tile_starts import (
    columns_of_gathers,
    gathered_loop,
    gathers_of,
    stage_loop,
    stages_of,
    turned_loop,
)
from stage3_lowering.lowering.rows_ahead import asked_for
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText


def tiled(text: KernelText, nest: LoopNest) -> Nest:
    """The statements by the loops around them, what the last loop finds done, and the loops."""
    order, tiles = text.schedule.order, _tiles(text)
    columns = columns_of_gathers(text, nest)
    writer, before = columns_first(text, nest, columns) if columns else (Statements(nest, text, order), [])
    writer.tile = tiles[0] if len(tiles) == 1 else None
    writer.tile_starts += turned_loop(text, writer, tiles)
    found = gathers_of(text, writer)
    stages = stages_of(text, writer)
    writer.pairs = None if found or stages else text.pairs(nest, order)
    streams = streams_of_tile(text, writer, tiles[-1])
    levels = text.levels(writer)
    ahead, asks = asked_for(text, writer, tiles[-1])
    levels[-2] += ahead
    starts = [*writer.tile_starts, *asks]
    starts += gathered_loop(text, writer, found) if found else []
    starts += [line for stage in stages for line in stage_loop(text, writer, stage)]
    loops = _nest(text, writer, levels, tiles, starts, streams)
    return replace(loops, before=[*before, *loops.before])


def _nest(
    text: KernelText, writer: Statements, levels: list[list[str]], tiles: list[Tile], starts: list[str],
    streams: Streams | None,
) -> Nest:  # fmt: skip
    """The loops around the blocks, those over blocks, and those over a block's elements."""
    order, outer = text.schedule.order, len(levels) - 1 - len(tiles)
    last = streams.block if streams else tiles[-1]
    around = stacked([text.head(v) for v in order[:outer]], levels[1 : outer + 1])
    blocks = stacked([tile.over_blocks for tile in tiles], [*[()] * (len(tiles) - 1), starts])
    elements = stacked([tile.over_elements for tile in (*tiles[:-1], last)], levels[outer + 1 :])
    elements[-1] = last_loop(text, writer, elements[-1], last.block, last.stop)
    loops = [*around, *blocks, *elements]
    loops = with_streams(loops, streams, tiles[-1]) if streams else loops
    shared = min(next_to_each_other(levels), outer) if outer else len(tiles)
    return Nest(loops, levels[0], threads=text.threads(shared))


def _tiles(text: KernelText) -> list[Tile]:
    """The tiled loops: the last ones of the order."""
    sizes = dict(text.schedule.tiles)
    return [_tile(text, loop, sizes[loop]) for loop in text.schedule.order if loop in sizes]


def _tile(text: KernelText, loop: str, size: int) -> Tile:
    first, end = text.bounds[loop]
    whole = isinstance(end, int) and (end - first) % size == 0
    return Tile(loop, text.fresh(f"{loop}_block"), size, str(first), cpp_index(end), whole)
